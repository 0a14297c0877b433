"""Whether a search has looked enough around what won: its edges, its gaps, and what more trials would bring."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tune_mtl.reporting.tables.number_format import number
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.search_data import SearchData, Trained, without_seed
from tune_mtl.tracking import names

Side = Literal["lower", "upper"]

_OUTER = 0.05
"""This share of a range, at either end, is its edge."""
_NEAR = 0.1
"""What differs by less than this share from the best is near it."""
_WIDE = 3.0
"""Neighbouring learning rates that differ by more than this factor have a gap between them."""


@dataclass(frozen=True)
class Searched:
    """What was searched in one dimension: numbers from ``low`` to ``high``, or some ``points`` only, in their order."""

    low: float
    high: float
    log: bool = True
    points: tuple[float, ...] = ()

    @classmethod
    def of(cls, extent: Mapping[str, Any]) -> "Searched":
        """Read a dimension as a search wrote it down; see `problem_facts` in `tune_mtl.experiment`."""
        if "points" in extent:
            points = tuple(sorted(map(float, extent["points"])))
            return cls(points[0], points[-1], points=points)
        return cls(float(extent["low"]), float(extent["high"]), bool(extent["log"]))

    def __str__(self) -> str:
        return f"{number(self.low)} to {number(self.high)}"

    def at_edge(self, value: float) -> Side | None:
        """Return the edge at which ``value`` lies: the outermost point, or the outer 5 % of a range; None within."""
        low, high, value = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        margin = (high - low) * (1e-9 if self.points else _OUTER)
        return "lower" if value <= low + margin else "upper" if value >= high - margin else None

    def skipped(self, one: float, other: float) -> bool:
        """Return whether something between two values could have been tried."""
        low, high = sorted((one, other))
        return not self.points or any(low < point < high for point in self.points)


def unexplored(best: float, tried: Sequence[float], searched: Searched) -> list[Side]:
    """Return the sides of ``best`` on which nothing was tried, though it is not at the edge there."""
    at = searched.at_edge(best)
    found: list[Side] = []
    if at != "lower" and not any(value < best for value in tried):
        found.append("lower")
    if at != "upper" and not any(value > best for value in tried):
        found.append("upper")
    return found


def gaps_around(best: float, tried: Sequence[float], searched: Searched) -> list[float]:
    """Return the nearest tried values below and above ``best`` that are more than a factor of 3 away.

    Neighbouring points have no gap between them. A side on which nothing was tried has none either: it is unexplored.
    """
    below, above = [value for value in tried if value < best], [value for value in tried if value > best]
    nearest = [*([max(below)] if below else []), *([min(above)] if above else [])]
    return [value for value in nearest if max(value / best, best / value) > _WIDE and searched.skipped(value, best)]


def near(best: float, others: Sequence[float], mode: str) -> int:
    """Return how many of ``others`` come near ``best``.

    Near is within a tenth of the best, if less is better and it is positive; else within a tenth of the distance from
    it to the median of all.
    """
    sign = 1 if mode == "min" else -1
    scale = best if is_relative(best, mode) else abs(statistics.median([best, *others]) - best)
    return sum(sign * (value - best) <= _NEAR * scale for value in others)


def is_relative(best: float, mode: str) -> bool:
    """Return whether what is near ``best`` is said in percent of it."""
    return mode == "min" and best > 0


def expected_best(values: Sequence[float], *, lost: int = 0, mode: str = "min") -> list[float]:
    """Return the expected best of n = 1, 2, ... trials, up to as many as there are, drawn from them with replacement.

    With the values in order, the best first, the best of n draws is the i-th of N with probability
    ((N - i + 1) / N)^n - ((N - i) / N)^n: no later one is drawn before it, and not all n are later ones
    (Dodge et al. 2019, "Show Your Work").

    Args:
        values: The values of the trials; those that are not finite are lost ones.
        lost: How many further trials diverged or failed. Each counts as the worst finite value, so that it never
            improves the best, and no expectation is infinite.
        mode: ``min`` if less is better, ``max`` if more is.

    Returns:
        One value per n; nothing if no value is finite.
    """
    sign = 1.0 if mode == "min" else -1.0
    finite = sorted(sign * value for value in values if math.isfinite(value))
    if not finite:
        return []
    count = len(values) + lost
    ordered = np.array([*finite, *[finite[-1]] * (count - len(finite))])
    remaining = np.arange(count, -1, -1) / count
    trials = np.arange(1, count + 1)[:, None]
    chances = remaining[:-1] ** trials - remaining[1:] ** trials
    return [float(value) for value in sign * (chances @ ordered)]


@dataclass(frozen=True)
class Coverage:
    """What a search tried with one strategy, all of its tunings together.

    Attributes:
        strategy: The name of the strategy.
        mode: The mode of the objective.
        ended: The trials of the strategy that ended, in whatever way.
        searched: Among which learning rates; None where there was only one.
        metric: The objective at the best epoch, as trials have it.
        best: The trial that won; None where none ended well.
    """

    strategy: str
    mode: str
    ended: Sequence[Trained]
    searched: Searched | None
    metric: str
    best: BestTrial | None

    @classmethod
    def of(cls, search: SearchData, strategy: str) -> "Coverage":
        """Return what was covered of one strategy of a search."""
        return cls(
            strategy,
            search.objective.mode,
            [run for run in search.trials if run.strategy == strategy and _ended(run)],
            searched_rates(search, strategy),
            names.best_metric(search.objective.metric),
            search.winners.get(strategy),
        )

    @property
    def good(self) -> list[Trained]:
        """The trials that have a result."""
        return [run for run in self.ended if run.ranked and math.isfinite(run.metrics.get(self.metric, math.nan))]

    @property
    def lost(self) -> list[Trained]:
        """The trials that ended without a result: diverged, failed, or undefined."""
        good = {run.run_id for run in self.good}
        return [run for run in self.ended if run.run_id not in good]

    def value(self, run: Trained) -> float:
        """Return the value of a good trial."""
        return run.metrics[self.metric]

    def winners(self) -> list[Trained]:
        """Return the best trial of each tuning, in their order."""
        sign, found = 1 if self.mode == "min" else -1, dict[int, Trained]()
        for run in sorted(self.good, key=lambda run: sign * self.value(run)):
            found.setdefault(_replicate(run), run)
        return [found[replicate] for replicate in sorted(found)]

    def expected(self) -> list[float]:
        """Return the expected best of 1, 2, ... of its trials; see `expected_best`."""
        return expected_best([self.value(run) for run in self.good], lost=len(self.lost), mode=self.mode)

    def configs(self) -> dict[str, float]:
        """Return the mean over seeds of every config that ended well at least once."""
        found: dict[str, list[float]] = {}
        for run in self.good:
            found.setdefault(without_seed(run.config), []).append(self.value(run))
        return {config: statistics.fmean(values) for config, values in found.items()}


def searched_rates(search: SearchData, strategy: str) -> Searched | None:
    """Return the learning rates among which ``strategy`` was searched; None if there was only one.

    Where a search did not write it down: from the lowest to the highest that any strategy has tried, or these very ones
    if it was a grid.
    """
    stated = search.facts.get("dimensions")
    if stated is not None:
        extent = stated.get(strategy, {}).get("lr")
        return None if extent is None else Searched.of(extent)
    rates = sorted({run.lr for run in search.trials if _ended(run)})
    if len(rates) < 2:
        return None
    return Searched(rates[0], rates[-1], points=tuple(rates) if _is_grid(search) else ())


def warnings(search: SearchData) -> list[str]:
    """Say where too little was tried, each with the way out; nothing while the search is running: it is trying more."""
    if search.state == "running":
        return []
    more = f"tune-mtl extend {search.name} --samples {max(1, len(search.trials))} tries more"
    grid = _is_grid(search)
    return [
        text
        for strategy in search.strategies
        for text in (
            *_warnings(Coverage.of(search, strategy), more, "add values to --lr" if grid else more),
            *_at_other_edges(search, strategy),
        )
    ]


def _at_other_edges(search: SearchData, strategy: str) -> list[str]:
    """Say which ranges that the user chose, besides learning rates, have the best trial of a strategy at an end."""
    best = search.winners.get(strategy)
    if best is None:
        return []
    own_space = search.settings.get("space_content") is not None
    found = []
    for key, extent in search.facts.get("dimensions", {}).get(strategy, {}).items():
        value = best.config.get(key)
        chosen = own_space or key in search.settings.get("vary", {})
        if key == "lr" or not chosen or "low" not in extent or not isinstance(value, int | float):
            continue
        edge = Searched.of(extent).at_edge(value)
        if edge is not None:
            varied = key in search.settings.get("vary", {})
            where = f"--search {key}" if varied else "it in the file of the space"
            found.append(
                f"{strategy} did best at {key} {number(value)}, at the {edge} edge of what was searched"
                f" ({Searched.of(extent)}): widen {where}."
            )
    return found


def _warnings(coverage: Coverage, more: str, finer: str) -> list[str]:
    """Warn of one strategy; ``more`` brings more trials of what was searched, ``finer`` some in between."""
    if coverage.best is None:
        return []
    searched, rates = coverage.searched, sorted({run.lr for run in coverage.ended})
    if searched is not None and len(rates) == 1:
        return [f"Only one learning rate of {coverage.strategy} was tried, {number(rates[0])}, of {searched}: {more}."]
    best_rate = float(coverage.best.config["lr"])
    found = [] if searched is None else _around(coverage.strategy, best_rate, rates, searched, more)
    return [*found, *_alone(coverage, coverage.best, finer)]


def _around(strategy: str, best: float, rates: Sequence[float], searched: Searched, more: str) -> list[str]:
    """Say what is not known around the best learning rate."""
    found = []
    did_best = f"{strategy} did best at learning rate {number(best)}"
    edge = searched.at_edge(best)
    if edge is not None:
        found.append(f"{did_best}, at the {edge} edge of what was searched ({searched}): widen --lr.")
    for side in unexplored(best, rates, searched):
        last = "lowest" if side == "lower" else "highest"
        found.append(f"{did_best}, the {last} of its trials, though {searched} was searched: {more}.")
    far = gaps_around(best, rates, searched)
    if far:
        ends = " or ".join(f"{number(rate)} (a factor of {max(rate / best, best / rate):.3g})" for rate in far)
        found.append(f"{did_best}, and nothing between that and {ends} was tried: {more}.")
    return found


def _alone(coverage: Coverage, best: BestTrial, finer: str) -> list[str]:
    """Say whether nothing else came near the best."""
    tried = len({without_seed(run.config) for run in coverage.ended})
    others = [value for config, value in coverage.configs().items() if config != without_seed(best.config)]
    if tried < 2 or near(best.value, others, coverage.mode):
        return []
    following = min(others) if coverage.mode == "min" and others else max(others, default=math.nan)
    comes_next = f"the next reached {number(following)}" if others else "no other ended well"
    what = "trials" if tried == len(coverage.ended) else "configs"
    relative = is_relative(best.value, coverage.mode)
    reach, how = ("within 10 % of", "") if relative else ("near", "within 10 % of the way to its median; ")
    return [
        f"Only one of {tried} {what} of {coverage.strategy} came {reach} its best, {number(best.value)}"
        f" ({how}{comes_next}): what it can reach is not settled; {finer}."
    ]


def _ended(run: Trained) -> bool:
    return run.ended


def _replicate(run: Trained) -> int:
    return int(getattr(run, "replicate", 0))


def _is_grid(search: SearchData) -> bool:
    return bool(search.settings.get("algorithm") == "grid")
