"""Are two strategies different? Tunings compared pair by pair, corrected for the number of strategies and of looks."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from tune_mtl.reporting.statistics.significance import ALPHA, Sample, difference, holm, shaffer

POWER = 0.8
"""With which chance the smallest difference that could be shown would have been."""
_SIMULATED = 200_000


@dataclass(frozen=True)
class Comparison:
    """Two strategies on one metric.

    Attributes:
        a, b: Their names; ``a`` has the better mean.
        difference: The mean of ``b`` minus that of ``a``, over what both have.
        low, high: The interval of the difference, at the corrected level: it excludes zero just where ``p`` is below
            the level of the test. NaN where there is no test.
        p: The p-value of no difference, corrected for the number of comparisons and of looks; NaN: no test.
        told_apart: Whether the two strategies are told apart. Never true of two configs.
        units: How many pairs (of replicates), or seeds at the fewest (of configs).
        detectable: The smallest difference that would have been shown with a chance of 80 %; NaN: no test.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    told_apart: bool
    units: int
    detectable: float

    @property
    def significant(self) -> bool:
        """Return whether the test finds a difference, of whatever is compared."""
        return self.p < ALPHA

    @property
    def deviation(self) -> float:
        """The standard deviation of the differences, pair by pair; NaN where there is no test."""
        if math.isnan(self.p):
            return math.nan
        error = (self.detectable - (self.high - self.low) / 2) / float(stats.t.ppf(POWER, self.units - 1))
        return max(0.0, error * math.sqrt(self.units))

    def of(self, one: str) -> "Comparison":
        """Return the same, seen with ``one`` as the first."""
        if one == self.a:
            return self
        turned = (-self.difference, -self.high, -self.low)
        return Comparison(self.b, self.a, *turned, self.p, self.told_apart, self.units, self.detectable)


@dataclass(frozen=True)
class Looks:
    """The moments at which a growing search is judged, and what looking so often costs.

    A search that stops as soon as a test is significant would err more often than the test says. With looks at
    n_1 < ... < n_K replicates, the p-value of look k counts as p_k / w_k with w_k = n_k / n_K, and the smallest of them
    up to now is compared with the distribution that the smallest of all K has where there is no difference. That
    distribution is the same for all normal differences, and is simulated: an alpha-spending rule that spends more the
    later it is, whose error is what it says whenever the search stops.
    """

    sizes: tuple[int, ...]

    def _weight(self, units: int) -> float:
        """Return the weight of the look at ``units`` replicates, or of the last one before."""
        return max((size for size in self.sizes if size <= units), default=self.sizes[0]) / self.sizes[-1]

    def corrected(self, p: float, units: int) -> float:
        """Return the p-value of a test at ``units`` replicates, corrected for all looks."""
        smallest = _smallest_p_values(self.sizes)
        place = np.searchsorted(smallest, p / self._weight(units), side="right")
        return max(p, float(place) / len(smallest))

    def level(self, alpha: float, units: int) -> float:
        """Return the level of a single test at ``units`` replicates that all looks together hold ``alpha`` with."""
        return min(alpha, float(np.quantile(_smallest_p_values(self.sizes), alpha)) * self._weight(units))


@lru_cache(maxsize=16)
def _smallest_p_values(sizes: tuple[int, ...]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return the smallest weighted p-values of all looks, sorted: of many sequences of differences around zero."""
    drawn = np.random.default_rng(0).standard_normal((_SIMULATED, sizes[-1]))
    smallest = np.full(_SIMULATED, np.inf)
    for size in sizes:
        part = drawn[:, :size]
        t = part.mean(axis=1) / (part.std(axis=1, ddof=1) / math.sqrt(size))
        smallest = np.minimum(smallest, 2 * stats.t.sf(np.abs(t), size - 1) * sizes[-1] / size)
    return np.sort(smallest)


def compare_strategies(
    values: Mapping[str, Mapping[int, float]], sign: int = 1, looks: Looks | None = None, alpha: float = ALPHA
) -> list[Comparison]:
    """Compare all pairs of strategies by the replicates that both have: t-tests of differences, Shaffer-corrected.

    Args:
        values: By strategy and replicate, what the tuned strategy reached.
        sign: 1 if less is better, -1 if more is.
        looks: Those at which the search was judged, if it grew until it could tell.
        alpha: The level of all comparisons together.
    """
    pairs = []
    for first, second in combinations(_best_first(values, sign), 2):
        shared = sorted(values[first].keys() & values[second].keys())
        pairs.append((first, second, [values[second][unit] - values[first][unit] for unit in shared]))
    return compare_differences(pairs, lambda found: shaffer(found, len(values)), looks, alpha)


Correction = Callable[[Sequence[float]], list[float]]
"""Adjusts the p-values of a family of tests; NaN is no test and stays."""


def compare_differences(
    pairs: Sequence[tuple[str, str, Sequence[float]]],
    correct: Correction,
    looks: Looks | None = None,
    alpha: float = ALPHA,
) -> list[Comparison]:
    """Compare pairs by their differences, unit by unit: t-tests around zero, corrected as one family.

    Args:
        pairs: Of each comparison the two names, and the values of the second minus those of the first.
        correct: The correction of the family.
        looks: Those at which the search was judged, if it grew until it could tell.
        alpha: The level of all comparisons together.
    """
    raw = [_paired(differences) for *_, differences in pairs]
    looked = [
        p if looks is None or math.isnan(p) else looks.corrected(p, len(found))
        for p, (*_, found) in zip(raw, pairs, strict=True)
    ]
    compared = []
    for (first, second, found), p_look, p in zip(pairs, looked, correct(looked), strict=True):
        if math.isnan(p):
            middle = statistics.fmean(found) if found else math.nan
            compared.append(Comparison(first, second, middle, math.nan, math.nan, p, False, len(found), math.nan))
            continue
        # the level at which this very comparison is judged, after the correction and all looks
        level = alpha * (p_look / p if p > 0 else 1.0)
        nominal = level if looks is None else looks.level(level, len(found))
        compared.append(_compared(first, second, found, p, nominal, alpha))
    return compared


def _compared(first: str, second: str, found: Sequence[float], p: float, nominal: float, alpha: float) -> Comparison:
    middle, error = statistics.fmean(found), statistics.stdev(found) / math.sqrt(len(found))
    reach = float(stats.t.isf(nominal / 2, len(found) - 1)) * error if error else 0.0
    sure = float(stats.t.ppf(POWER, len(found) - 1)) * error
    # rounding must not let the interval and the test disagree
    if (p < alpha) != (reach < abs(middle)):
        reach = abs(middle) * (1 - 1e-12 if p < alpha else 1 + 1e-12)
    low, high = middle - reach, middle + reach
    return Comparison(first, second, middle, low, high, p, p < alpha, len(found), reach + sure)


def _paired(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of differences around zero; NaN with fewer than two."""
    if len(differences) < 2:
        return math.nan
    largest = max(map(abs, differences))
    if not largest or statistics.stdev(differences) <= 1e-12 * largest:
        return 0.0 if largest else 1.0
    scaled = [value / largest for value in differences]  # squares neither over- nor underflow
    return float(stats.ttest_1samp(scaled, 0.0).pvalue)


def compare_configs(values: Mapping[str, Sequence[float]], sign: int = 1) -> list[Comparison]:
    """Compare all pairs of configs by Welch's test over their seeds, Holm-corrected; it tells no strategies apart."""
    pairs = list(combinations(_best_first({name: dict(enumerate(found)) for name, found in values.items()}, sign), 2))
    return compare_samples([(first, second, values[first], values[second]) for first, second in pairs], holm)


def compare_samples(
    pairs: Sequence[tuple[str, str, Sequence[float], Sequence[float]]], correct: Correction
) -> list[Comparison]:
    """Compare pairs of independent samples by Welch's test, corrected as one family; it tells no strategies apart."""
    gaps = [difference(ours, theirs) for *_, ours, theirs in pairs]
    p_values = correct([math.nan if gap is None else gap.p_value for gap in gaps])
    compared = []
    for (first, second, ours, theirs), gap, p in zip(pairs, gaps, p_values, strict=True):
        units = min(len(ours), len(theirs))
        if gap is None:
            middle = statistics.fmean(theirs) - statistics.fmean(ours) if units else math.nan
            compared.append(Comparison(first, second, middle, math.nan, math.nan, math.nan, False, units, math.nan))
            continue
        level = ALPHA * (gap.p_value / p if p > 0 else 1.0)
        low, high = _welch_interval(ours, theirs, level)
        compared.append(Comparison(first, second, gap.value, low, high, p, False, units, math.nan))
    return compared


def _welch_interval(first: Sequence[float], second: Sequence[float], level: float) -> tuple[float, float]:
    gap = difference(first, second, 1 - level)
    assert gap is not None
    return gap.low, gap.high


def _best_first(values: Mapping[str, Mapping[int, float]], sign: int) -> list[str]:
    known = [name for name, found in values.items() if found]
    return sorted(known, key=lambda name: sign * statistics.fmean(values[name].values()))


def rank_in_every_unit(metrics: Sequence[tuple[Mapping[str, Mapping[int, float]], int]]) -> dict[str, float]:
    """Return the average rank of each strategy: ranked in every replicate on every metric, equal values sharing theirs.

    Args:
        metrics: For each, the values by strategy and replicate, and its sign (1: less is better).

    A replicate in which a strategy has no value on a metric does not count there. Who has no rank is not there.
    """
    ranks: dict[str, list[float]] = {}
    everyone = {name for values, _ in metrics for name in values}
    for values, sign in metrics:
        units = set.intersection(*(set(values.get(name, {})) for name in everyone)) if everyone else set()
        for unit in sorted(units):
            at_it = {name: sign * values[name][unit] for name in everyone}
            for name, rank in zip(at_it, stats.rankdata(list(at_it.values())), strict=True):
                ranks.setdefault(name, []).append(float(rank))
    return {name: statistics.fmean(found) for name, found in ranks.items()}


@dataclass(frozen=True)
class Variation:
    """Where the luck of a result comes from: of one config on several seeds, and of tunings with their seeds."""

    seeds: Sequence[Sequence[float]]
    tunings: Sequence[Sequence[float]]

    @cached_property
    def share_of_seeds(self) -> float | None:
        """The share of the variance between tunings that the training seed alone makes; None: it is not known."""
        of_seeds, of_tunings = _pooled_variance(self.seeds), _pooled_variance(self.tunings)
        if of_seeds is None or not of_tunings:
            return None
        return min(1.0, of_seeds / of_tunings)


def _pooled_variance(samples: Sequence[Sequence[float]]) -> float | None:
    """Return the variance within samples, each relative to its mean, pooled; None without a degree of freedom."""
    usable = [found for found in samples if len(found) > 1 and statistics.fmean(found)]
    freedom = sum(len(found) - 1 for found in usable)
    if not freedom:
        return None
    relative = ([value / statistics.fmean(found) for value in found] for found in usable)
    return math.fsum(statistics.variance(found) * (len(found) - 1) for found in relative) / freedom


def mean_of(values: Mapping[int, float]) -> Sample:
    """Return mean and deviation over replicates."""
    return Sample.of(list(values.values()))
