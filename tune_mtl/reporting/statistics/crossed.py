"""How much of the luck is whose: components of variance of runs on every pair of a draw and a seed."""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import special

_Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

_SIMULATED = 4000
_HALVINGS = 40
_ROUNDING = 1e-12
"""Sums of squares below this share of the largest are rounding."""


@dataclass(frozen=True)
class Component:
    """One source of variance.

    Attributes:
        variance: Its estimate; 0 where the estimate is negative.
        low, high: The 95 % interval of the variance.
        share: Its share of the variance between runs; NaN where runs do not differ at all.
        share_low, share_high: The 95 % interval of the share.
    """

    variance: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float


@dataclass(frozen=True)
class Components:
    """The variance between runs, each with a random draw and a random seed.

    Attributes:
        draw: Of the draw, averaged over seeds.
        seed: Of the seed, averaged over draws.
        rest: Of which draw happens to suit which seed, and of anything else.
        draws, seeds: How many of each were crossed.
        possible: How many draws there are; None: no end of them.
    """

    draw: Component
    seed: Component
    rest: Component
    draws: int
    seeds: int
    possible: int | None

    @property
    def variance(self) -> float:
        """The variance between runs: the sum of the three."""
        return self.draw.variance + self.seed.variance + self.rest.variance


def components(
    values: _Array, possible: int | None = None, *, confidence: float = 0.95, simulated: int = _SIMULATED
) -> Components:
    """Split the variance of ``values[draw, seed]`` by the two-way crossed random-effects layout with one run a cell.

    Estimates are those of the analysis of variance, where the draws are a sample without replacement from ``possible``
    equally likely ones (Cornfield and Tukey); with all of them, draws are no sample any more. Intervals are
    generalised confidence intervals (Weerahandi): sums of squares are divided by simulated chi-squares, and negative
    differences count as 0; with all possible draws the sum of squares of draws has a non-central distribution, which is
    inverted. They suppose normal effects; the random numbers are always the same.

    Raises:
        ValueError: for fewer than two draws or seeds, values that are not finite, or more draws than are possible.
    """
    values = np.asarray(values, dtype=float)
    draws, seeds = values.shape
    if min(draws, seeds) < 2 or not np.isfinite(values).all() or draws > (possible or draws):
        raise ValueError(f"a layout of {draws} draws x {seeds} seeds cannot be split")
    sums = _sums_of_squares(values)
    freedom = (draws - 1, seeds - 1, (draws - 1) * (seeds - 1))
    sizes = _Sizes(draws, seeds, possible)
    estimates = sizes.split(*(np.array([total / df]) for total, df in zip(sums, freedom, strict=True)))
    found = np.maximum(0.0, np.array([float(part[0]) for part in estimates]))

    random = np.random.default_rng(0)
    chi = [random.chisquare(df, simulated) for df in freedom]
    of_draw, of_seed, of_rest = (total / drawn for total, drawn in zip(sums, chi, strict=True))
    if possible == draws:
        spread = _inverted(sums[0] / np.maximum(of_rest, 1e-300), freedom[0], random.random(simulated))
        of_draw = of_rest * (1.0 + spread / freedom[0])
    parts = np.maximum(0.0, np.array(sizes.split(of_draw, of_seed, of_rest)))
    draw, seed, rest = _intervals(found, parts, confidence)
    return Components(draw, seed, rest, draws, seeds, possible)


@dataclass(frozen=True)
class _Sizes:
    """What mean squares are expected to be: ``possible`` draws, of which some were crossed with some seeds."""

    draws: int
    seeds: int
    possible: int | None

    def split(self, draw: _Array, seed: _Array, rest: _Array) -> tuple[_Array, _Array, _Array]:
        """Return the variances of draw, seed and rest that have these expected mean squares."""
        unseen = 1.0 if self.possible is None else 1.0 - self.draws / self.possible
        random_one = 1.0 if self.possible is None else 1.0 - 1.0 / self.possible
        return random_one * (draw - rest) / self.seeds, (seed - unseen * rest) / self.draws, random_one * rest


def _sums_of_squares(values: _Array) -> tuple[float, float, float]:
    """Return those of draws, of seeds and of the rest; what is rounding alone is 0."""
    middle = values - values.mean()
    rows, columns = middle.mean(axis=1), middle.mean(axis=0)
    rest = middle - rows[:, None] - columns[None, :]
    found = (
        float(values.shape[1] * np.square(rows).sum()),
        float(values.shape[0] * np.square(columns).sum()),
        float(np.square(rest).sum()),
    )
    smallest = max(_ROUNDING * max(found), (1e-15 * float(np.abs(values).max())) ** 2 * values.size)
    return tuple(total if total > smallest else 0.0 for total in found)  # type: ignore[return-value]


def _inverted(observed: _Array, freedom: int, chances: _Array) -> _Array:
    """Return the non-centrality at which a chi-square is below ``observed`` with these chances; 0 if even there not."""
    low = np.zeros_like(observed)
    high = observed + 20.0 * np.sqrt(observed) + 100.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = special.chndtr(observed, freedom, middle)
        low, high = np.where(below > chances, middle, low), np.where(below > chances, high, middle)
    return np.where(special.chdtr(freedom, observed) <= chances, 0.0, (low + high) / 2)


def _intervals(found: _Array, parts: _Array, confidence: float) -> list[Component]:
    """Return the components with their intervals, each wide enough to hold its own estimate."""
    total, totals = float(found.sum()), parts.sum(axis=0)
    shares = parts / np.where(totals > 0, totals, 1.0)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    told = []
    for estimate, part, share in zip(found, parts, shares, strict=True):
        low, high = (float(end) for end in np.quantile(part, ends))
        own = float(estimate) / total if total > 0 else math.nan
        share_low, share_high = (float(end) for end in np.quantile(share, ends)) if total > 0 else (math.nan, math.nan)
        told.append(
            Component(
                float(estimate), min(low, float(estimate)), max(high, float(estimate)),
                own, min(share_low, own), max(share_high, own),
            )
        )  # fmt: skip
    return told
