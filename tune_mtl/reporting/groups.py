"""Groups, understood: how many are best, and how much of the luck is the draw of them."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.statistics.best_count import BestCount, best_count
from tune_mtl.reporting.statistics.crossed import Component, Components, components
from tune_mtl.results.factorial import Layout, layouts
from tune_mtl.results.search_data import SearchData, variant
from tune_mtl.strategies.group_draws import count_groupings
from tune_mtl.tracking import names
from tune_mtl.tracking.store import check_name


@dataclass(frozen=True)
class Luck:
    """Whose luck the variance between runs of one strategy with one group count is.

    Attributes:
        layout: The runs.
        metric: The metric that they are compared by.
        parts: Its variance, split; None where too few runs ended well.
    """

    layout: Layout
    metric: str
    parts: Components | None

    @property
    def name(self) -> str:
        """The strategy and its groups: ``io (2 groups)``."""
        return variant(self.layout.strategy, self.layout.groups)

    @property
    def quality(self) -> str:
        """The metric without its split."""
        return self.metric.removeprefix("best/val/").removeprefix("test/")

    @property
    def crossed(self) -> str:
        """What was crossed: ``3 draws, all there are, x 4 seeds``."""
        draws, possible = len(self.layout.draws), self.layout.possible
        of = "" if possible is None else ", all there are," if draws == possible else f" of {possible:,}"
        return f"{draws} draws{of} x {len(self.layout.seeds)} seeds"

    def ordered(self, sign: int) -> list[int]:
        """Return the seeds of the draws, that with the best mean over seeds first; ``sign`` as everywhere."""
        means = dict(zip(self.layout.draws, map(statistics.fmean, self.layout.values(self.quality)), strict=True))
        return sorted(means, key=lambda draw: sign * means[draw])

    @property
    def sentence(self) -> str:
        """What a page says of it."""
        if self.parts is None:
            return f"Too few runs of {self.name} ended well for a split of their variance: {self.crossed}."
        if not self.parts.variance:
            return f"Runs of {self.name} do not differ at all: {self.crossed}."
        parts = self.parts
        return (
            f"Of the variance between runs of {self.name}, {share_text(parts.draw)} is the draw of groups,"
            f" {share_text(parts.seed)} the seed, and {share_text(parts.rest)} which draw suits which seed"
            f" ({self.crossed})."
        )


@dataclass(frozen=True)
class GroupFindings:
    """What a search tells of groups.

    Attributes:
        best: By strategy, the best number of groups; those that tried several alone.
        luck: Whose luck the variance between runs is; empty without ``tune-mtl factorial``.
    """

    best: Mapping[str, BestCount]
    luck: Sequence[Luck]

    def plain(self) -> dict[str, Any]:
        """Return the same as plain values, without NaN."""
        return {
            "best": {
                strategy: {
                    "groups": found.best,
                    "low": found.low,
                    "high": found.high,
                    "shares": {str(count): share for count, share in found.shares.items()},
                    "means": {str(count): sample.mean for count, sample in found.samples.items()},
                    "units": found.units,
                }
                for strategy, found in self.best.items()
            },
            "luck": [
                {
                    "strategy": luck.layout.strategy,
                    "groups": luck.layout.groups,
                    "draws": list(luck.layout.draws),
                    "values": luck.layout.values(luck.quality),
                    "possible_draws": luck.layout.possible,
                    "seeds": list(luck.layout.seeds),
                    "lost": luck.layout.lost,
                    "metric": luck.metric,
                    "parts": None if luck.parts is None else _plain(luck.parts),
                }
                for luck in self.luck
            ],
        }


def group_findings(name: str, *, tracking_uri: str | None = None) -> GroupFindings:
    """Return what search ``name`` tells of groups: the best number of them, and whose luck their draw is.

    Raises:
        UserError: if there is no such search.
    """
    return group_findings_of(SearchData.read(check_name(name), tracking_uri))


def group_findings_of(search: SearchData) -> GroupFindings:
    """Return what a search that was read tells of groups."""
    return GroupFindings(best_counts(search), lucks(search))


def lucks(search: SearchData) -> list[Luck]:
    """Return the splits of variance that a factorial allows."""
    return [
        Luck(
            layout,
            layout.metric(search.quality),
            components(np.array(layout.values(search.quality)), layout.possible) if layout.whole else None,
        )
        for layout in layouts(search)
    ]


def best_counts(search: SearchData) -> dict[str, BestCount]:
    """Return the best number of groups of every strategy that has tried several."""
    found = {strategy: best_count(reached(search, strategy), search.sign) for strategy in search.strategies}
    return {strategy: best for strategy, best in found.items() if best is not None}


def reached(search: SearchData, strategy: str) -> dict[int, dict[int, float]]:
    """Return by group count and replicate the best value on validation.

    Of a grid, whose replicates are its seeds, only whole runs count; else all trials, with what they had reached.
    """
    grid = search.settings.get("algorithm") == "grid"
    metric = names.best_metric(search.objective.metric)
    found: dict[int, dict[int, float]] = {}
    for run in search.trials:
        counts = run.outcome == Outcome.COMPLETED if grid else run.ranked
        value = run.metrics.get(metric, math.nan)
        if run.strategy != strategy or not counts or not run.groups or not math.isfinite(value):
            continue
        held = found.setdefault(run.groups, {})
        if search.objective.better(value, held.get(run.replicate)):
            held[run.replicate] = value
    return found


def missing_factorial(search: SearchData) -> list[str]:
    """Say how to get the split where there is none: of strategies whose groups can be drawn in several ways."""
    if search.tags.get(names.CROSSING, "complete") != "complete" and search.crossed:
        return [f"Draws of groups are not all crossed with seeds: tune-mtl factorial {search.name} goes on with it."]
    split = {layout.strategy for layout in layouts(search) if layout.whole}
    tasks, unknown = len(search.tasks), []
    for strategy, won in search.winners.items():
        groups = won.config.get("groups")
        drawn = won.config.get("groups_by") in (None, "random")
        if drawn and isinstance(groups, int) and 1 < groups < tasks and count_groupings(tasks, groups) > 1:
            unknown += [] if strategy in split else [strategy]
    if not unknown or search.state != "complete":
        return []
    return [
        f"How much of the luck of {', '.join(unknown)} is the draw of groups is not known:"
        f" tune-mtl factorial {search.name} crosses draws with seeds."
    ]


def share_text(part: Component) -> str:
    """Return a share with its interval: ``34 % [5, 80]``."""
    low, high = (f"{100 * end:.0f}" for end in (part.share_low, part.share_high))
    return f"{100 * part.share:.0f} % [{low}, {high}]"


def _plain(parts: Components) -> dict[str, Any]:
    named = {"draw": parts.draw, "seed": parts.seed, "rest": parts.rest}
    told = {name: {key: _number(value) for key, value in asdict(part).items()} for name, part in named.items()}
    return {"variance": parts.variance, **told}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
