"""What inner products of gradients say: who agrees with whom, how many conflict, how unequal their lengths are."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Agreement:
    """How the gradients of N tasks stand to each other.

    A gradient that is zero, not finite, or of a task without labels has no direction: its pairs are left out, and it is
    left out of the spread.

    Attributes:
        cosines: float64 ``[N, N]``; NaN where a pair is not defined, and on the diagonal.
        norms: float64 ``[N]``; NaN where there is no direction.
    """

    cosines: Tensor
    norms: Tensor

    @classmethod
    def of(cls, gramian: Tensor, weights: Tensor) -> "Agreement":
        """Read inner products ``[N, N]``; ``weights``: the factor of each task's gradient in the sum of all."""
        lengths = gramian.diagonal().clamp(min=0).sqrt()
        lengths = torch.where(lengths.isfinite() & (lengths > 0), lengths, torch.nan)
        cosines = (gramian / lengths[:, None] / lengths).clamp(-1.0, 1.0)
        norms = lengths * weights
        return cls(cosines.fill_diagonal_(math.nan), torch.where(norms > 0, norms, torch.nan))

    @property
    def conflict_share(self) -> float:
        """The share of pairs whose cosine is below 0; NaN where no pair is defined."""
        pairs = self._pairs
        return float((pairs < 0).double().mean()) if len(pairs) else math.nan

    @property
    def mean_cosine(self) -> float:
        """The mean over all pairs; NaN where no pair is defined."""
        pairs = self._pairs
        return float(pairs.mean()) if len(pairs) else math.nan

    @property
    def norm_spread(self) -> float:
        """The largest norm over the smallest; NaN where there are none."""
        norms = self._defined
        return float(norms.max() / norms.min()) if len(norms) else math.nan

    @property
    def norm_variation(self) -> float:
        """The coefficient of variation of the norms: their standard deviation (over N) divided by their mean."""
        norms = self._defined
        return float(norms.std(correction=0) / norms.mean()) if len(norms) else math.nan

    @property
    def _pairs(self) -> Tensor:
        above = self.cosines[torch.ones_like(self.cosines, dtype=torch.bool).triu(1)]
        return above[above.isfinite()]

    @property
    def _defined(self) -> Tensor:
        return self.norms[self.norms.isfinite()]


def as_lists(cosines: Tensor) -> list[list[float | None]]:
    """Return a matrix as JSON has it, rounded to what can be seen; None where a pair is not defined."""
    return [[None if math.isnan(value) else round(value, 6) for value in row] for row in cosines.tolist()]
