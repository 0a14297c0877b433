"""The Jacobian of a mini-batch as rules ask for it: row by row, part by part, or a sum of its rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from tune_mtl.strategies.gramian import gramian


@dataclass(frozen=True, slots=True)
class Part:
    """Some columns of the Jacobian.

    Attributes:
        places: Where the tensors stand, among all, whose gradients these are.
        rows: One row per task, ``(tasks, numbers)``, holding those tensors' gradients one after the other.
    """

    places: Sequence[int]
    rows: Tensor


class Jacobian(ABC):
    """Gradients with respect to some tensors, one row per task.

    Attributes:
        tensors: What the gradients are of.
        count: The number of rows.
        sizes: How many numbers each of the tensors has.
        dtype: The precision of whole rows.
    """

    def __init__(self, tensors: Sequence[Tensor], count: int) -> None:
        self.tensors = tensors
        self.count = count
        self.sizes = [tensor.numel() for tensor in tensors]
        self.dtype = common_dtype(tensors)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.tensors[0].device

    @abstractmethod
    def rows(self) -> Iterator[list[Tensor]]:
        """Yield each task's gradients, which are gone when the next is asked for."""

    def pieces_of_rows(self) -> Iterator[list[Tensor]]:
        """Yield each task's gradients as a vector cut into as few pieces as it is at hand in; they are gone then."""
        for row in self.rows():
            yield [gradient.flatten() for gradient in row]

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield all columns, part by part; a part may be overwritten, and is gone when the next is asked for."""

    @abstractmethod
    def combined(self, weights: Tensor) -> list[Tensor]:
        """Return the sum of the rows times these ``weights``, a tensor for each."""

    def gramian(self, precision: torch.dtype) -> Tensor:
        """Return the rows' inner products in float64, on their device, of products taken in ``precision``."""
        return gramian((part.rows for part in self.parts()), precision)

    def halves(self, precision: torch.dtype) -> Tensor:
        """Return the inner products of the first half of the rows with the second."""
        half = self.count // 2
        return gramian((part.rows for part in self.parts()), precision, slice(half), slice(half, None))

    def split(self, part: Part, values: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield ``values``, with as many columns as ``part``, by the place of the tensor that they belong to."""
        pieces = torch.split(values, [self.sizes[place] for place in part.places], dim=-1)
        yield from zip(part.places, pieces, strict=True)


def common_dtype(tensors: Iterable[Tensor]) -> torch.dtype:
    """Return the least precision that has those of all ``tensors``."""
    return reduce(torch.promote_types, {tensor.dtype for tensor in tensors})


class HeldJacobian(Jacobian):
    """One that is there.

    Attributes:
        gradients: Of each tensor, ``(tasks, *tensor.shape)``.
    """

    def __init__(self, tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        super().__init__(tensors, len(gradients[0]))
        self.gradients = gradients

    def rows(self) -> Iterator[list[Tensor]]:
        """Yield each task's gradients."""
        for index in range(self.count):
            yield [gradient[index] for gradient in self.gradients]

    def parts(self) -> Iterator[Part]:
        """Yield the gradients of each tensor."""
        for place, gradient in enumerate(self.gradients):
            yield Part([place], gradient.reshape(self.count, -1))

    def combined(self, weights: Tensor) -> list[Tensor]:
        """Return the sum of the rows times these ``weights``, a tensor for each."""
        return [torch.tensordot(weights.to(part.dtype), part, dims=1) for part in self.gradients]
