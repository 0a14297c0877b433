"""The Jacobian on a trunk's weights, made by passes back through the trunk when it is asked for."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from tune_mtl.strategies.base import SharedPass
from tune_mtl.strategies.jacobian.matrix import Jacobian, Part
from tune_mtl.strategies.jacobian.stages import Stage, stages

_SMALL = 2**24
"""Numbers of a Jacobian that is held as a whole: to make it part by part would spare nothing worth a pass."""
_FEW = 8
"""Rows of which fewer are held whatever their length: network and optimizer take as much, and a pass is a large part
of the step."""


def is_held_whole(rows: int, columns: int) -> bool:
    """Return whether a Jacobian of this size is held as a whole."""
    return rows < _FEW or rows * columns <= _SMALL


@dataclass(frozen=True, slots=True)
class Arrived:
    """What has come back through a task's head: gradients at the leaves, and of trunk weights that the head uses."""

    at_leaves: Sequence[Tensor | None]
    direct: Sequence[Tensor | None]


class TrunkJacobian(Jacobian):
    """The gradients of tasks' losses on the trunk's weights: each of its rows is a pass back through the trunk.

    What is small is held as a whole, and what cannot be cut. Any other is made in parts, of which only one is held: the
    trunk's graph in stages, each gone through once per task. The sum of rows is then one more pass, of the sum of what
    has arrived.
    """

    def __init__(
        self, shared: SharedPass, weights: list[nn.Parameter], arriving: Iterable[Arrived], count: int
    ) -> None:
        super().__init__(weights, count)
        self._outputs = shared.outputs
        self._weights = weights
        self._arriving = iter(arriving)
        self._arrived: list[Arrived] = []
        self._whole: Tensor | None = None
        self._is_held = is_held_whole(count, sum(self.sizes))

    def rows(self) -> Iterator[list[Tensor]]:
        """Yield each task's gradients, which are gone when the next is asked for."""
        if self._is_held:
            self._whole = self._buffer(sum(self.sizes))
        for index, arrived in enumerate(self._each(again=not self._is_held)):
            row = self._through(arrived)
            if self._whole is not None:
                torch.cat([gradient.flatten() for gradient in row], out=self._whole[index])
            yield row

    def pieces_of_rows(self) -> Iterator[list[Tensor]]:
        """Yield each task's gradients as a vector: whole where the Jacobian is held, else tensor by tensor."""
        for index, row in enumerate(self.rows()):
            yield [gradient.flatten() for gradient in row] if self._whole is None else [self._whole[index]]

    def parts(self) -> Iterator[Part]:
        """Yield all columns, part by part; a part may be overwritten, and is gone when the next is asked for."""
        found = [] if self._is_held else stages(self._outputs, self._weights)
        if len(found) < 2:
            yield self._as_a_whole()
            return
        arrived = list(self._each(again=True))
        buffer = self._buffer(max(self._columns(stage) for stage in found))
        begin: Sequence[Tensor | GradientEdge] = self._outputs
        coming: list[Sequence[Tensor | None]] = [one.at_leaves for one in arrived]
        for stage in found:
            rows = buffer[:, : self._columns(stage)]
            self._go_through(stage, begin, coming, rows)
            yield Part(stage.weights, rows)
            begin = stage.end

    def _as_a_whole(self) -> Part:
        self._is_held = True
        for _ in self.rows():
            pass
        assert self._whole is not None
        return Part(range(len(self.sizes)), self._whole)

    def combined(self, weights: Tensor) -> list[Tensor]:
        """Return the sum of the rows times these ``weights``, a tensor for each."""
        if self._whole is not None:
            pieces = torch.split(weights.to(self._whole.dtype) @ self._whole, self.sizes)
            return [piece.view_as(weight).to(weight.dtype) for piece, weight in zip(pieces, self._weights, strict=True)]
        sums = [_Sum() for _ in (*self._outputs, *self._weights)]
        for weight, arrived in zip(weights, self._each(again=False), strict=True):
            for total, gradient in zip(sums, (*arrived.at_leaves, *arrived.direct), strict=True):
                total.add(weight, gradient)
        found = [total.value for total in sums]
        count = len(self._outputs)
        return self._through(Arrived(found[:count], found[count:]), again=False)

    def _each(self, *, again: bool) -> Iterator[Arrived]:
        """Yield what has arrived for each task; it is kept if it will be asked for ``again``."""
        if self._arrived:
            yield from self._arrived
            return
        for arrived in self._arriving:
            if again:
                self._arrived.append(arrived)
            yield arrived

    def _through(self, arrived: Arrived, *, again: bool = True) -> list[Tensor]:
        """Return the gradients of all weights; the graph is kept if there will be other passes."""
        found = _gradients(self._outputs, arrived.at_leaves, self._weights, again=again)
        return [
            torch.zeros_like(weight) if gradient is None else gradient
            for gradient, weight in zip(_added(found, arrived.direct), self._weights, strict=True)
        ]

    def _go_through(
        self,
        stage: Stage,
        begin: Sequence[Tensor | GradientEdge],
        coming: list[Sequence[Tensor | None]],
        rows: Tensor,
    ) -> None:
        """Write tasks' gradients of a stage's weights into ``rows``, and put what leaves it in place of ``coming``."""
        weights, sizes = (
            [self._weights[place] for place in stage.weights],
            [self.sizes[place] for place in stage.weights],
        )
        with _as_given(begin) as given:
            for index, arrived in enumerate(self._arrived):
                given[:] = coming[index]
                found = _gradients(begin, given, [*weights, *stage.end])
                coming[index] = found[len(weights) :]
                own = _added(found[: len(weights)], [arrived.direct[place] for place in stage.weights])
                _write(own, torch.split(rows[index], sizes))

    def _columns(self, stage: Stage) -> int:
        return sum(self.sizes[place] for place in stage.weights)

    def _buffer(self, columns: int) -> Tensor:
        return torch.empty(self.count, columns, dtype=self.dtype, device=self.device)


class _Sum:
    """A weighted sum of gradients, some of which are not there."""

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._dtype = torch.float32

    def add(self, weight: Tensor, gradient: Tensor | None) -> None:
        if gradient is None:
            return
        self._dtype = gradient.dtype
        term = weight * gradient.to(torch.promote_types(gradient.dtype, weight.dtype))
        self._total = term if self._total is None else self._total.add_(term)

    @property
    def value(self) -> Tensor | None:
        return None if self._total is None else self._total.to(self._dtype)


def _gradients(
    begin: Sequence[Tensor | GradientEdge],
    given: Sequence[Tensor | None],
    wanted: Sequence[Tensor | GradientEdge],
    *,
    again: bool = True,
) -> Sequence[Tensor | None]:
    """Return what becomes of the gradients ``given`` where they ``begin``, at the places ``wanted``."""
    pairs = [(place, gradient) for place, gradient in zip(begin, given, strict=True) if gradient is not None]
    if not pairs or not wanted:
        return [None] * len(wanted)
    outputs, gradients = zip(*pairs, strict=True)
    return torch.autograd.grad(
        cast(Sequence[Tensor], outputs),
        cast(Sequence[Tensor], wanted),
        gradients,
        retain_graph=again,
        allow_unused=True,
    )


@contextmanager
def _as_given(begin: Sequence[Tensor | GradientEdge]) -> Iterator[list[Tensor | None]]:
    """Yield a list for the gradients that are given where a stage begins, which are taken there as they are.

    Hooks of a tensor see its gradient where it leaves a stage, and again where it begins the next: what they make of it
    there is put right.
    """
    given: list[Tensor | None] = []

    def put_right(hooked: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        taken = list(hooked)
        for edge, gradient in zip(begin, given, strict=True):
            taken[edge.output_nr] = gradient
        return tuple(taken)

    edges = [edge for edge in begin if isinstance(edge, GradientEdge)]
    handles = [edge.node.register_prehook(put_right) for edge in edges[:1]]
    try:
        yield given
    finally:
        for handle in handles:
            handle.remove()


def _added(gradients: Sequence[Tensor | None], direct: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [
        found if own is None else own if found is None else found + own
        for found, own in zip(gradients, direct, strict=True)
    ]


def _write(row: Sequence[Tensor | None], into: Sequence[Tensor]) -> None:
    for gradient, place in zip(row, into, strict=True):
        if gradient is None:
            place.zero_()
        else:
            place.copy_(gradient.flatten())
