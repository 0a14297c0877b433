"""How many groups are best, and how sure that is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tune_mtl.reporting.statistics.comparison import compare_strategies
from tune_mtl.reporting.statistics.significance import Sample

_Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

_RESAMPLED = 4000


@dataclass(frozen=True)
class BestCount:
    """The best number of groups of one strategy.

    Attributes:
        best: The count with the best mean.
        low, high: The 95 % interval: from the smallest to the largest count that no test tells to be worse than
            another.
        shares: Of each count, how often it is best when the tunings (or the seeds of a grid) are drawn again; empty
            with fewer than two.
        samples: Of each count, what was reached with it.
        units: How many tunings (or seeds of a grid) have values of two counts or more: others compare nothing.
        tested: Whether any two counts could be compared by a test.
    """

    best: int
    low: int
    high: int
    shares: Mapping[int, float]
    samples: Mapping[int, Sample]
    units: int
    tested: bool

    @property
    def text(self) -> str:
        """The count with its interval: ``4 [2, 8]``."""
        return f"{self.best} [{self.low}, {self.high}]"


def best_count(values: Mapping[int, Mapping[int, float]], sign: int = 1) -> BestCount | None:
    """Return the best of several group counts; None where no unit has tried two of them.

    Not every tuning tries every count. Counts are therefore compared within the tunings that have them: their effects
    are those of the additive layout of counts and tunings, by least squares, which are differences of means where all
    tunings have all counts. ``shares`` are a bootstrap over the tunings. The interval is not: few of them resampled
    look surer than they are. It leaves out counts at the ends that a t-test of the differences, paired by tuning and
    corrected for all pairs of counts, tells to be worse than some other count.

    Args:
        values: By group count and unit (a tuning, or a seed of a grid), what was reached with it.
        sign: 1 if less is better, -1 if more is.
    """
    held = {count: dict(found) for count, found in sorted(values.items()) if found}
    every = sorted({unit for found in held.values() for unit in found})
    units = [unit for unit in every if sum(unit in found for found in held.values()) > 1]
    compared = {count: {unit: found[unit] for unit in units if unit in found} for count, found in held.items()}
    compared = {count: found for count, found in compared.items() if found}
    counts = list(compared)
    if len(counts) < 2:
        return None
    matrix = sign * np.array([[compared[count].get(unit, np.nan) for count in counts] for unit in units])
    whole = np.ones((1, len(units)))
    best = counts[int(_effects(matrix, whole)[0].argmin())]
    pairs = compare_strategies({str(count): found for count, found in compared.items()}, sign)
    worse = {int(one.b if sign * one.difference > 0 else one.a) for one in pairs if one.told_apart}
    left = [count for count in counts if count not in worse or count == best]
    return BestCount(
        best,
        min(left),
        max(left),
        _shares(matrix, counts) if len(units) > 1 else {},
        {count: Sample.of(list(found.values())) for count, found in held.items()},
        len(units),
        any(one.p >= 0 for one in pairs),
    )


def _shares(matrix: _Array, counts: list[int]) -> dict[int, float]:
    """Return how often each count is best, resampling the rows; the random numbers are always the same."""
    units = len(matrix)
    weights = np.random.default_rng(0).multinomial(units, [1 / units] * units, _RESAMPLED).astype(float)
    first = _effects(matrix, weights).argmin(axis=1)
    return {count: float((first == place).mean()) for place, count in enumerate(counts)}


def _effects(matrix: _Array, weights: _Array) -> _Array:
    """Return the effect of every column in the additive layout of rows and columns, for each weighting of the rows.

    ``matrix`` may have holes (NaN). A column that no weighted row has cannot be best.
    """
    there = ~np.isnan(matrix)
    each = there.sum(axis=1, keepdims=True)
    centred = np.where(there, matrix, 0.0)
    centred = np.where(there, centred - centred.sum(axis=1, keepdims=True) / each, 0.0)
    own = there.astype(float)
    normal = own[:, :, None] * np.eye(matrix.shape[1]) - own[:, :, None] * own[:, None, :] / each[:, :, None]
    left = np.einsum("br,rij->bij", weights, normal)
    right = weights @ centred
    found: _Array = np.einsum("bij,bj->bi", np.linalg.pinv(left, hermitian=True), right)
    return np.where(np.einsum("bii->bi", left) > 0, found, np.inf)
