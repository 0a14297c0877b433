"""Whether a loss stretches prediction and target to a larger tensor, as (n,) against (n, 1) become (n, n)."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tune_mtl.core.nested import tensors

Shape = tuple[int, ...]

_SIZES = re.compile(r"target size \(torch\.Size\(\[([\d, ]*)\]\)\).*input size \(torch\.Size\(\[([\d, ]*)\]\)\)")
"""What torch's own losses warn of."""


class Stretched:
    """What was seen while a loss was computed.

    Attributes:
        shapes: Of prediction, target and what they became; None while nothing was seen.
    """

    def __init__(self) -> None:
        self.shapes: tuple[Shape, Shape, Shape] | None = None

    def see(self, prediction: Shape, target: Shape) -> None:
        """Keep two shapes that were combined, if the result is larger than either."""
        result = together(prediction, target)
        if result is not None and result not in (prediction, target) and self.shapes is None:
            self.shapes = (prediction, target, result)


@contextmanager
def watched(prediction: Any, target: Any) -> Iterator[Stretched]:
    """Watch a loss being computed: operations on both tensors as they are, and what torch's own losses warn of.

    A loss that brings them into shape itself, or compares all pairs on purpose, does neither. Warnings are swallowed.
    """
    seen = Stretched()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if isinstance(prediction, Tensor) and isinstance(target, Tensor) and prediction.shape != target.shape:
            with _Operations(seen, tuple(prediction.shape), tuple(target.shape)):
                yield seen
        else:
            yield seen
    own = {(tuple(p.shape), tuple(t.shape)) for p in tensors(prediction) for t in tensors(target)}
    for warning in warned:
        sizes = _SIZES.search(str(warning.message))
        if sizes is not None:
            second, first = (tuple(int(part) for part in text.split(",") if part.strip()) for text in sizes.groups())
            if (first, second) in own:
                seen.see(first, second)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation, also those inside torch's own functions."""

    def __init__(self, seen: Stretched, prediction: Shape, target: Shape) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen, self._shapes = seen, (prediction, target)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        given = [tuple(value.shape) for value in args if isinstance(value, Tensor)]
        both = len(given) == 2 and sorted(given) == sorted(self._shapes)
        if both and isinstance(result, Tensor) and result.shape == together(*self._shapes):
            self._seen.see(*self._shapes)
        return result


def together(first: Shape, second: Shape) -> Shape | None:
    """Return the shape that two tensors are stretched to when they are combined; None if they cannot be."""
    try:
        return tuple(torch.broadcast_shapes(first, second))  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None
