"""Shares: numbers that are not negative and sum to 1, and the way back to them."""

import torch
from torch import Tensor


class Shares:
    """The shares of all tasks, equal at first, of which those with labels move theirs among themselves.

    Tasks that move have together what they had before, so that all others keep theirs.
    """

    def __init__(self, count: int, device: torch.device) -> None:
        self.values = torch.full((count,), 1.0 / count, dtype=torch.float64, device=device)

    def of(self, at: Tensor) -> Tensor:
        """Return what the tasks ``at`` these positions have of what they have together: equal parts of nothing."""
        held = self.values[at]
        together = held.sum()
        return torch.where(together > 0, held / together, 1.0 / len(held))

    def move(self, at: Tensor, own: Tensor) -> Tensor:
        """Have those tasks share what they have together as ``own``, brought onto the simplex; return that."""
        own = onto_simplex(own)
        self.values[at] = self.values[at].sum() * own
        return own


def onto_simplex(point: Tensor) -> Tensor:
    """Return the point nearest to ``point``, in Euclidean distance, whose numbers are not negative and sum to 1.

    It is ``max(0, point - level)``, and of the levels that bring the j largest numbers to a sum of 1 each, the highest
    is the one sought: exact but for rounding, after one sort. A lone number becomes exactly 1, whatever its size. What
    is not finite but for -inf beside finite numbers comes back as NaN. Nothing waits for the device.
    """
    below = (point - point.max()).clamp(min=-1.0)  # the largest takes at most 1: what is 1 below it takes nothing
    ordered = below.sort(descending=True).values
    first = torch.ones(len(point), len(point), dtype=point.dtype, device=point.device).tril()
    levels = (first @ ordered - 1.0) / first.sum(dim=1)  # no cumsum: on CUDA it is not deterministic
    return (below - levels.max()).clamp(min=0.0)
