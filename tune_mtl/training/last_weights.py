"""Some weights as they were after the last step, and how far they have gone since."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate

import torch
from torch import Tensor, nn

from tune_mtl.core.torch_compat import copy_each, norm_each, subtract_each

_AT_ONCE = 2**16
"""Weights that a CPU works on at once, a multiple of a block: with what they were before, they fit its cache."""
_BLOCK = 1024
"""Norms are taken over blocks of this many weights, then over blocks in float64: nearly exact, and fast."""


class Flat:
    """One padded buffer as large as some weights, with a view for each of them."""

    def __init__(self, like: list[nn.Parameter], *, in_memory_order: bool = False) -> None:
        sizes = [weight.numel() for weight in like]
        self.ends = list(accumulate(sizes))
        dtype = reduce(torch.promote_types, (weight.dtype for weight in like), torch.float32)
        self.buffer = torch.zeros(-(-sum(sizes) // _BLOCK), _BLOCK, dtype=dtype, device=like[0].device)
        flat = self.buffer.view(-1)
        parts = [flat[end - size : end] for end, size in zip(self.ends, sizes, strict=True)]
        self.views = [
            part.as_strided(w.shape, w.stride(), part.storage_offset()) if in_memory_order else part.view(w.shape)
            for part, w in zip(parts, like, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Piecework:
    """Neighbouring blocks of the last weights, with the pieces of weights that stand there.

    Attributes:
        last: The pieces as they were.
        now: The pieces themselves.
        owners: Which weight each is a piece of.
        blocks: All of ``last``, as rows.
        norms: Where the length of each row is put.
    """

    last: list[Tensor]
    now: list[Tensor]
    owners: list[int]
    blocks: Tensor
    norms: Tensor


class LastWeights:
    """The weights as the last step left them, compared with what they are and brought up to date in one go.

    A CPU reads and writes its memory once for that, some blocks after others that fit its cache. Weights that something
    else than a step has changed are copied anew: torch counts the changes of a tensor.
    """

    def __init__(self, weights: list[nn.Parameter]) -> None:
        self._weights = weights
        self._dense = all(torch.empty_like(weight).stride() == weight.stride() for weight in weights)
        self._flat = Flat(weights, in_memory_order=self._dense)
        self._norms = self._flat.buffer.new_empty(len(self._flat.buffer))
        self._known: list[tuple[int, int]] | None = None
        self._work = self._all_work()
        self.owners = [owner for work in self._work for owner in work.owners]

    def _all_work(self) -> list[_Piecework]:
        whole, in_cache = self._flat.buffer.numel(), self._dense and self._flat.buffer.device.type == "cpu"
        at_once = _AT_ONCE if in_cache else whole
        return [self._piecework(start, at_once) for start in range(0, whole, at_once)]

    def _piecework(self, start: int, at_once: int) -> _Piecework:
        rows = slice(start // _BLOCK, (start + at_once) // _BLOCK)
        last, now, owners = [], [], []
        for place, (end, weight) in enumerate(zip(self._flat.ends, self._weights, strict=True)):
            begin = end - weight.numel()
            first, past = max(start, begin), min(start + at_once, end)
            if first >= past:
                continue
            owners.append(place)
            if self._dense:
                chosen = slice(first - begin, past - begin)
                last.append(_in_memory_order(self._flat.views[place])[chosen])
                now.append(_in_memory_order(weight.detach())[chosen])
            else:
                last.append(self._flat.views[place])
                now.append(weight.detach())
        return _Piecework(last, now, owners, self._flat.buffer[rows], self._norms[rows])

    def keep(self) -> None:
        """Take the weights as they are for the last ones, unless they are that."""
        if self._known != self._counts():
            self._start_from(self._weights)

    def go_on(self, moved: list[Tensor] | None = None) -> Tensor:
        """Return how far the weights are from the last ones, which they are from now on; ``moved`` gets it by piece."""
        length = self._compare(moved)
        self._known = self._counts()
        return length

    def distance(self, others: Sequence[Tensor]) -> Tensor:
        """Return how far the weights are from ``others``."""
        self._start_from(others)
        return self.go_on()

    def _start_from(self, values: Sequence[Tensor]) -> None:
        copy_each(self._flat.views, list(values))
        self._work = self._all_work()  # weights may have been given other memory

    def _compare(self, moved: list[Tensor] | None) -> Tensor:
        for work in self._work:
            subtract_each(work.last, work.now)
            torch.linalg.vector_norm(work.blocks, dim=1, out=work.norms)
            if moved is not None:
                moved += norm_each(work.last)
            copy_each(work.last, work.now)
        length: Tensor = torch.linalg.vector_norm(self._norms, dtype=torch.float64)
        return length

    def _counts(self) -> list[tuple[int, int]]:
        """Return where the weights are and how often each was changed in place."""
        return [(weight.data_ptr(), weight._version) for weight in self._weights]


def _in_memory_order(tensor: Tensor) -> Tensor:
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
