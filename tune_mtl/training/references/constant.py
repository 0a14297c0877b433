"""The best constant prediction of a task: the same output for every sample, optimised until its loss is least."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from tune_mtl.core.nested import Nested, map_tensors, tensors
from tune_mtl.core.seeds import generator
from tune_mtl.core.task import Task

Link: TypeAlias = Callable[[Tensor], Tensor]
"""Keeps a constant within what the network can put out: a probability stays one."""

_ROUNDS, _DESCENTS, _SMALL_STEPS = 4, 2, 300
_ENOUGH = 1e-4
"""A share of the loss: what a further step could still gain, when the search may end."""
_LARGE = 1_500_000
"""Numbers in all outputs above which one descent must do, and none is begun anew for the last digits."""
_SMALLEST_STEP = 1e-8
"""The last of the small steps, as a share of the first."""


class NoReference(Exception):
    """There is no best constant prediction, or it cannot be found; the message says why."""


class _LeftDomain(Exception):
    """The loss cannot be computed at this output, or is not finite there."""


@dataclass(frozen=True)
class Labels:
    """The targets of some labelled samples, and how many they are."""

    target: Nested
    samples: int


def best_constant_loss(task: Task, prediction: Nested, labels: Sequence[Labels]) -> float:
    """Return the least mean loss that one output for all samples can have.

    An output ``[batch, channels, positions...]`` has one free value per channel, one of fewer dimensions a free value
    per number. Outputs that are probabilities, or logarithms of such, over the second dimension stay so.

    Args:
        task: Whose loss.
        prediction: What the network gives for any batch: says how outputs are built, nothing more.
        labels: The samples; their mean is weighted by how many each part has.

    Raises:
        NoReference: if the loss has no gradient or no finite value, or if the least one is not positive.
    """
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")  # what the user's loss has to say of shapes, training will repeat
        search = _search(task, _checked(prediction), labels)
    least = search.least
    if not math.isfinite(least):
        raise NoReference(search.trouble or "its loss is not finite")
    if search.trouble is not None and not search.settled():
        raise NoReference(f"its loss fails on the way to the best constant: {search.trouble}")
    if least <= 1e-12 or (_all_alike(labels) and least <= 1e-3 * search.at_zero):
        said = "all labels are the same" if _all_alike(labels) else f"its best constant prediction scores {least:.3g}"
        raise NoReference(f"{said}, and a loss is no share of nothing")
    return least


def _checked(prediction: Nested) -> Nested:
    found = list(tensors(prediction))
    if not found:
        raise NoReference(f"its prediction holds no tensor but is a {type(prediction).__name__}")
    for tensor in found:
        if not tensor.is_floating_point() or tensor.ndim == 0:
            raise NoReference(f"its prediction holds {tensor.dtype} of shape {tuple(tensor.shape)}, no outputs by row")
    return prediction


def _search(task: Task, prediction: Nested, labels: Sequence[Labels]) -> "_Search":
    """Return the finished search: in double precision where the loss allows it, else in the network's own."""
    own = next(tensors(prediction)).dtype
    searches = []
    for dtype in dict.fromkeys((torch.float64, own)):
        for links in _links(prediction):
            search = _Search(task, prediction, links, [_in_precision(part, dtype) for part in labels], dtype)
            search.run()
            if search.trouble is None or search.settled():
                return search
            searches.append(search)
        if math.isfinite(searches[-1].least):
            break
    return searches[-1]


def _in_precision(labels: Labels, dtype: torch.dtype) -> Labels:
    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return Labels(map_tensors(cast, labels.target), labels.samples)


class _Search:
    """Looks for the free values of the least loss, from several starts; remembers the least it has seen."""

    def __init__(
        self, task: Task, prediction: Nested, links: Sequence[Link], labels: Sequence[Labels], dtype: torch.dtype
    ) -> None:
        self._task, self._prediction, self._links, self._labels, self._dtype = task, prediction, links, labels, dtype
        self._shapes = [_free_shape(tensor) for tensor in tensors(prediction)]
        self._samples = sum(part.samples for part in labels)
        self._large = self._samples * sum(tensor[0].numel() for tensor in tensors(prediction)) > _LARGE
        self._best = torch.zeros(sum(map(math.prod, self._shapes)), dtype=torch.float64)
        self.least, self.at_zero = math.inf, math.inf
        self.trouble: str | None = None

    def run(self) -> None:
        """Descend from the best starts; where that ends at a kink, go on in small steps."""
        values = []
        for index, start in enumerate(self._starts()):
            with suppress(_LeftDomain):
                values.append((self._evaluate(start), start))
                self.at_zero = values[-1][0] if index == 0 else self.at_zero
        for _, start in sorted(values, key=lambda pair: pair[0])[: 1 if self._large else _DESCENTS]:
            self._descend(start)
        if values and not self.settled():
            self._small_steps()
            self._descend(self._best)

    def settled(self) -> bool:
        """Return whether the gradient at the best values promises next to nothing."""
        at = self._best.clone().requires_grad_()
        try:
            value = self._evaluate(at)
        except _LeftDomain:
            return False
        return bool(self._slope(at) * max(1.0, float(at.detach().abs().max())) <= _ENOUGH * abs(value))

    def _descend(self, start: Tensor) -> None:
        """Take quasi-Newton steps, begun anew from where they end, in units of the loss there, while that helps."""
        for _ in range(_ROUNDS):
            at = start.detach().clone().requires_grad_()
            before = self.least
            with suppress(_LeftDomain):
                unit = abs(self._evaluate(at)) or 1.0
                optimizer = torch.optim.LBFGS(
                    [at],
                    max_iter=60,
                    tolerance_grad=1e-10,
                    tolerance_change=1e-13,
                    line_search_fn="strong_wolfe",
                )
                optimizer.step(lambda at=at, unit=unit: self._evaluate(at, unit))  # type: ignore[no-untyped-call]
            if not self.least < before - 1e-6 * abs(before) or (self._large and self.settled()):
                return
            start = self._best

    def _small_steps(self) -> None:
        """Take Adam's steps from the best values, shrinking to nothing: kinks do not stop them."""
        at = self._best.clone().requires_grad_()
        with suppress(_LeftDomain):
            value = abs(self._evaluate(at))
            size = float(at.detach().abs().max()) + value / (self._slope(at) or 1.0)
            optimizer = torch.optim.Adam([at], lr=0.1 * size, betas=(0.5, 0.9))
            for _ in range(_SMALL_STEPS):
                optimizer.step()
                self._evaluate(at)
                optimizer.param_groups[0]["lr"] *= _SMALLEST_STEP ** (1 / _SMALL_STEPS)

    @staticmethod
    def _slope(at: Tensor) -> float:
        return 0.0 if at.grad is None else float(at.grad.abs().max())

    def _evaluate(self, at: Tensor, unit: float = 1.0) -> float:
        """Return the loss in units of ``unit``, its gradient left in ``at`` where that wants one."""
        total, at.grad = 0.0, None
        if not bool(at.detach().isfinite().all()):  # a line search may lose its way at a kink
            raise _LeftDomain
        try:
            for part in self._labels:
                share = part.samples / self._samples
                loss = self._task.loss_on(self._spread(at, part.samples), part.target).double() * share
                if at.requires_grad:
                    if not loss.requires_grad:
                        raise NoReference("its loss has no gradient in the prediction")
                    (loss / unit).backward()  # type: ignore[no-untyped-call]
                total += float(loss)
        except NoReference:
            raise
        except Exception as error:  # whatever the user's loss says of such an output
            self.trouble = self.trouble or f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            raise _LeftDomain from error
        if not math.isfinite(total) or (at.grad is not None and not bool(at.grad.isfinite().all())):
            self.trouble = self.trouble or "its loss is not finite"
            raise _LeftDomain
        if total < self.least:
            self.least, self._best = total, at.detach().clone()
        return total / unit

    def _spread(self, free: Tensor, samples: int) -> Nested:
        """Return the prediction that these free values mean, for so many samples."""
        parts = torch.split(free, [math.prod(shape) for shape in self._shapes])
        each = iter(zip(parts, self._shapes, self._links, strict=True))

        def outputs(tensor: Tensor) -> Tensor:
            values, shape, link = next(each)
            return link(values.view(shape).to(self._dtype)).expand(samples, *tensor.shape[1:]).contiguous()

        return map_tensors(outputs, self._prediction)

    def _starts(self) -> Iterator[Tensor]:
        """Give zero; the targets' means and medians where they are built like the outputs; a random draw."""
        yield torch.zeros_like(self._best)
        if all(link is _identity for link in self._links):
            yield from self._from_targets()
        yield torch.randn(len(self._best), generator=generator(0, "reference", "start"), dtype=torch.float64)

    def _from_targets(self) -> Iterator[Tensor]:
        outputs = list(tensors(self._prediction))
        targets = [list(tensors(part.target)) for part in self._labels]
        if any(len(found) != len(outputs) for found in targets):
            return
        columns = []
        for output, shape, *found in zip(outputs, self._shapes, *targets, strict=True):
            if any(not t.is_floating_point() or t[0].numel() != output[0].numel() for t in found):
                return
            whole = torch.cat([t.double().reshape(-1, *output.shape[1:]) for t in found])
            columns.append(whole.movedim(1, -1).reshape(-1, shape[1]) if whole.ndim > 1 else whole.reshape(-1, 1))
        yield torch.cat([column.mean(dim=0) for column in columns])
        yield torch.cat([column.median(dim=0).values for column in columns])


def _free_shape(output: Tensor) -> tuple[int, ...]:
    """Return one value per channel where there are positions, else one per number; for all samples."""
    if output.ndim < 3:
        return (1, *output.shape[1:])
    return (1, output.shape[1], *[1] * (output.ndim - 2))


def _identity(values: Tensor) -> Tensor:
    return values


def _links(prediction: Nested) -> Iterator[list[Link]]:
    """Say how constants are kept to what outputs are; then, should the loss fail outside of their range, to that."""
    outputs = list(tensors(prediction))
    first = [_distribution(output) for output in outputs]
    yield first
    second = [_range(output) if link is _identity else link for output, link in zip(outputs, first, strict=True)]
    if second != first:
        yield second


def _distribution(output: Tensor) -> Link:
    """Return softmax or its logarithm, where outputs are probabilities over the second dimension."""
    if output.ndim < 2 or output.shape[1] < 2 or not output.numel():
        return _identity
    for link, shares in ((_log_softmax, output.double().exp()), (_softmax, output.double())):
        sums = shares.sum(dim=1)
        if bool((shares >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
            return link
    return _identity


def _softmax(values: Tensor) -> Tensor:
    return values.softmax(dim=1)


def _log_softmax(values: Tensor) -> Tensor:
    return values.log_softmax(dim=1)


def _range(output: Tensor) -> Link:
    if bool((output >= 0).all()):
        return torch.sigmoid if bool((output <= 1).all()) else torch.exp
    return _identity


def _all_alike(labels: Sequence[Labels]) -> bool:
    """Return whether every sample has the same target."""
    first = [tensor[:1] for tensor in tensors(labels[0].target)]
    return all(
        bool((tensor == one).all())
        for part in labels
        for tensor, one in zip(tensors(part.target), first, strict=True)
        if tensor.shape[1:] == one.shape[1:]
    )
