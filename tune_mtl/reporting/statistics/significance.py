"""Is it better, or luck? Welch's t-test, Holm's correction, and ranks of printed results."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from scipy import stats

ALPHA = 0.05
"""The level of every test in a report."""


@dataclass(frozen=True)
class Sample:
    """Results on several seeds: their mean, standard deviation (n - 1; NaN for one) and number."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Sample":
        """Return the sample of at least one value."""
        deviation = statistics.stdev(values) if len(values) > 1 else math.nan
        return cls(statistics.fmean(values), deviation, len(values))


@dataclass(frozen=True)
class Standing:
    """Where one of several results stands on one metric.

    Attributes:
        rank: The rank by the rule of :func:`standings`.
        p_value: That it is no worse than the best, Holm-corrected; NaN where it cannot be tested; 1 for the best.
        best: Whether it has the best mean.
        equivalent: Whether it is the best or no test tells it from the best.
    """

    rank: int
    p_value: float
    best: bool
    equivalent: bool


def welch(first: Sample, second: Sample) -> float:
    """Return the two-sided p-value of equal means with unequal variances; NaN with fewer than two results on a side."""
    if min(first.count, second.count) < 2:
        return math.nan
    if first.deviation == 0 and second.deviation == 0:
        return 1.0 if first.mean == second.mean else 0.0
    unit = _unit((first.mean, first.deviation, second.mean, second.deviation))
    test = stats.ttest_ind_from_stats(
        first.mean / unit, first.deviation / unit, first.count,
        second.mean / unit, second.deviation / unit, second.count,
        equal_var=False,
    )  # fmt: skip
    return float(test.pvalue)


def _unit(values: Sequence[float]) -> float:
    """Return a power of two of the size of ``values``: dividing by it is exact, and keeps squares within range."""
    return math.ldexp(1.0, max(-1000, math.frexp(max(map(abs, values)))[1] - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down correction, in the given order. NaN stays NaN and is no test."""
    order = sorted((p, index) for index, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    highest = 0.0
    for position, (p, index) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - position) * p))
        adjusted[index] = highest
    return adjusted


def shaffer(p_values: Sequence[float], strategies: int) -> list[float]:
    """Return p-values adjusted by Shaffer's step-down correction for all pairs of some strategies, in the given order.

    As Holm's, but a p-value is multiplied by the number of pairs that can be equal at the same time once the smaller
    ones are told apart: of three strategies, if two differ, at most one of the other two pairs is equal. NaN stays NaN.
    """
    order = sorted((p, index) for index, p in enumerate(p_values) if not math.isnan(p))
    possible = _equal_pairs(strategies)
    adjusted = [math.nan] * len(p_values)
    highest = 0.0
    for position, (p, index) in enumerate(order):
        left = len(p_values) - position
        highest = max(highest, min(1.0, max(count for count in possible if count <= left) * p)) if possible else p
        adjusted[index] = highest
    return adjusted


@cache
def _equal_pairs(strategies: int) -> frozenset[int]:
    """Return the numbers of equal pairs that ``strategies`` can have: they fall into groups of equal ones."""
    if strategies < 2:
        return frozenset({0})
    return frozenset(
        math.comb(size, 2) + rest for size in range(1, strategies + 1) for rest in _equal_pairs(strategies - size)
    )


def standings(samples: Mapping[str, Sample], mode: str, alpha: float = ALPHA) -> dict[str, Standing]:
    """Rank printed results, of which only mean, deviation and number are known.

    The rank is one more than the number of better means: a large deviation does not make a poor result a good one.
    Whom Welch's test against the best, Holm-corrected, does not tell from it at ``alpha`` is ``equivalent``. Without
    two results on a side there is no test.
    """
    order = sorted(samples, key=lambda name: samples[name].mean * (1 if mode == "min" else -1))
    if not order:
        return {}
    first, *others = order
    p_values = dict(zip(others, holm([welch(samples[first], samples[name]) for name in others]), strict=True))
    means = [samples[name].mean for name in order]
    return {
        name: Standing(
            means.index(samples[name].mean) + 1,
            p_values.get(name, 1.0),
            name == first,
            name == first or p_values[name] >= alpha,
        )
        for name in order
    }


def average_ranks(tables: Sequence[Mapping[str, Standing]]) -> dict[str, float]:
    """Return the mean rank over metrics of everyone who has a result on each."""
    everywhere = [name for name in (tables[0] if tables else ()) if all(name in table for table in tables)]
    return {name: statistics.fmean(table[name].rank for table in tables) for name in everywhere}


@dataclass(frozen=True)
class Difference:
    """The second mean minus the first, its interval (of 95 % unless said otherwise) and the p-value of none."""

    value: float
    low: float
    high: float
    p_value: float


def difference(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> Difference | None:
    """Return Welch's interval for ``second - first``; None with fewer than two results on a side."""
    if min(len(first), len(second)) < 2:
        return None
    value = statistics.fmean(second) - statistics.fmean(first)
    if len(set(first)) == len(set(second)) == 1:
        return Difference(value, value, value, 1.0 if value == 0 else 0.0)
    unit = _unit((*first, *second))
    test = stats.ttest_ind([x / unit for x in second], [x / unit for x in first], equal_var=False)
    interval = test.confidence_interval(confidence)
    return Difference(value, float(interval.low) * unit, float(interval.high) * unit, float(test.pvalue))


def larger(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the one-sided p-value of ``second`` being no larger than ``first``: paired positive numbers, as ratios."""
    logs = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    if len(logs) < 2:
        return math.nan
    if statistics.stdev(logs) <= 1e-12 * max(map(abs, logs)):
        return 0.5 if logs[0] == 0 else 0.0 if logs[0] > 0 else 1.0
    return float(stats.ttest_1samp(logs, 0.0, alternative="greater").pvalue)
