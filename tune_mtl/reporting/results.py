"""The numbers of a report: which runs speak for a strategy, on which split, and who is told from whom."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tune_mtl.reporting.statistics.comparison import Comparison, Looks, Variation, compare_configs, compare_strategies
from tune_mtl.reporting.statistics.significance import ALPHA, Sample
from tune_mtl.results.search_data import SearchData, Trained
from tune_mtl.tracking import names

_AS_MANY = 0.98
"""The share of the most updates that counts as equal: missing labels cost groups a few steps."""


@dataclass(frozen=True)
class Results:
    """What the strategies reached: of every tuning the config that it chose, on fresh seeds.

    The *unit* of all numbers is the tuning: mean and deviation are over replicates. Where strategies were tuned only
    once, it is the seed, and all that can be compared is one config of each.

    Attributes:
        search: Where it comes from.
        runs: The runs by strategy, the best first; those without a result are not there.
        prefix: ``test/``, or ``best/val/`` where there is no test split or nothing was confirmed.
        confirmed: Whether these are runs on fresh seeds, or the search's own.
    """

    search: SearchData
    runs: Mapping[str, Sequence[Trained]]
    prefix: str
    confirmed: bool
    _comparisons: dict[str, list[Comparison]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, search: SearchData) -> "Results":
        """Return the confirming runs; without any, those of the search with the winning configs."""
        cut = search.cut_replicates
        fresh = {
            strategy: [run for run in search.confirmed(names.CONFIRM, strategy) if run.replicate not in cut]
            for strategy in search.strategies
        }
        fresh = {strategy: runs for strategy, runs in fresh.items() if runs}
        tested = any(name.startswith("test/") for runs in fresh.values() for run in runs for name in run.metrics)
        found = fresh or {strategy: _winning_runs(search, strategy) for strategy in search.winners}
        results = cls(search, found, "test/" if tested else "best/val/", bool(fresh))
        sign = search.sign
        chosen = {strategy: results.validation(strategy) for strategy in found}
        order = sorted(
            found, key=lambda strategy: sign * chosen[strategy] if not math.isnan(chosen[strategy]) else math.inf
        )
        return cls(search, {strategy: found[strategy] for strategy in order}, results.prefix, results.confirmed)

    @property
    def by_tuning(self) -> bool:
        """Return whether tunings are compared, and so strategies; else configs are."""
        return self.search.replicated

    @property
    def tells_strategies(self) -> bool:
        """Return whether the design allows to tell strategies apart: repeated tunings, judged on fresh seeds."""
        return self.by_tuning and self.confirmed

    @property
    def looks(self) -> Looks | None:
        """The looks of a search that grew until it could tell."""
        sizes = self.search.facts.get("looks")
        return Looks(tuple(sizes)) if sizes else None

    def validation(self, strategy: str) -> float:
        """Return the mean of the objective on validation, which alone decides who is best."""
        metric = names.best_metric(self.search.objective.metric)
        found = self.by_unit(self.runs[strategy], metric)
        return statistics.fmean(found.values()) if found else math.nan

    def units(self, strategy: str, metric: str) -> dict[int, float]:
        """Return a metric (without its split) by replicate, as the mean over its seeds; by seed with one tuning."""
        return self.by_unit(self.runs.get(strategy, ()), self.prefix + metric)

    def by_unit(self, runs: Sequence[Trained], metric: str) -> dict[int, float]:
        """Return a metric of ``runs`` by replicate, the mean over its seeds; by seed where there is one tuning."""
        found: dict[int, list[float]] = {}
        for run in runs:
            value = run.metrics.get(metric, math.nan)
            if not math.isnan(value):
                found.setdefault(run.replicate if self.by_tuning else int(run.config["seed"]), []).append(value)
        return {unit: statistics.fmean(values) for unit, values in sorted(found.items())}

    def values(self, strategy: str, metric: str) -> list[float]:
        """Return a metric (without its split) of every replicate, or seed, that has it."""
        return list(self.units(strategy, metric).values())

    def samples(self, metric: str) -> dict[str, Sample]:
        """Return the sample of a metric by strategy."""
        values = {strategy: self.values(strategy, metric) for strategy in self.runs}
        return {strategy: Sample.of(found) for strategy, found in values.items() if found}

    def sign(self, metric: str) -> int:
        """Return 1 if less of ``metric`` is better, -1 if more is."""
        return -1 if self.search.mode(metric) == "max" else 1

    def comparisons(self, metric: str | None = None) -> list[Comparison]:
        """Compare all pairs of strategies (or of their configs) on a metric; default: the objective's."""
        metric = metric or self.search.quality
        if metric not in self._comparisons:
            self._comparisons[metric] = self.compared(
                {strategy: self.units(strategy, metric) for strategy in self.runs}, self.sign(metric)
            )
        return self._comparisons[metric]

    def compared(self, values: Mapping[str, Mapping[int, float]], sign: int) -> list[Comparison]:
        """Compare what ``values`` say by strategy and unit, as the design of the search allows."""
        if not self.by_tuning:
            return compare_configs({name: list(found.values()) for name, found in values.items() if found}, sign)
        found = compare_strategies(values, sign, self.looks)
        return [replace(one, told_apart=one.told_apart and self._may_tell(one, sign)) for one in found]

    def _may_tell(self, one: Comparison, sign: int) -> bool:
        """Return whether the better of two may be told to be so: not where lost tunings flatter it."""
        better = one.a if sign * one.difference > 0 else one.b
        return self.tells_strategies and not self.lost(better)

    def against(self, one: str, metric: str | None = None) -> dict[str, Comparison]:
        """Return every other strategy in comparison with ``one``, in the order of the results."""
        found = {
            (each.b if each.a == one else each.a): each.of(one)
            for each in self.comparisons(metric)
            if one in (each.a, each.b)
        }
        return {name: found[name] for name in self.runs if name in found}

    def not_told_from_best(self, metric: str) -> set[str]:
        """Return the strategy with the best mean on ``metric``, and those that no test tells from it."""
        means = self.samples(metric)
        if not means:
            return set()
        best = min(means, key=lambda name: self.sign(metric) * means[name].mean)
        return {best, *(name for name, one in self.against(best, metric).items() if one.p >= ALPHA)}

    def lost(self, strategy: str) -> list[int]:
        """Return the replicates in which ``strategy`` was tuned, but has no result: it diverged or failed."""
        if not self.tells_strategies:
            return []
        tuned = {run.replicate for run in self.search.trials if run.strategy == strategy}
        judged = {run.replicate for runs in self.runs.values() for run in runs}
        return sorted((tuned & judged) - {run.replicate for run in self.runs.get(strategy, ())})

    def label(self, strategy: str) -> str:
        """Return strategy and the groups that its tunings chose; the counts that differ are left out."""
        chosen = {run.variant for run in self.runs.get(strategy, ())}
        return next(iter(chosen)) if len(chosen) == 1 else strategy

    @property
    def split(self) -> str:
        """The split that results are of, in words."""
        return "test" if self.prefix == "test/" else "validation"

    @cached_property
    def reported(self) -> list[str]:
        """Every metric that some run has, without its split."""
        found = (name for runs in self.runs.values() for run in runs for name in run.metrics)
        return list(dict.fromkeys(name.removeprefix(self.prefix) for name in found if name.startswith(self.prefix)))

    @cached_property
    def by_task(self) -> dict[str, list[str]]:
        """The metrics of each task; its loss where it has no other."""
        return {
            task: [name for name in self.reported if name.startswith(f"{task}/")] or [f"loss/{task}"]
            for task in self.search.tasks
        }

    @cached_property
    def judged_by_task(self) -> dict[str, list[str]]:
        """The metrics of each task whose better direction is known; its loss where there are none."""
        directed = {task: [name for name in found if self.search.mode(name)] for task, found in self.by_task.items()}
        chosen = {task: found or [f"loss/{task}"] for task, found in directed.items()}
        return {task: [name for name in found if name in self.reported] for task, found in chosen.items()}

    @cached_property
    def judged(self) -> list[str]:
        """The metrics over which ranks are averaged: those that judge a task."""
        return [name for metrics in self.judged_by_task.values() for name in metrics] or [self.search.quality]

    @property
    def count(self) -> int:
        """The number of replicates, or seeds, at most."""
        return max((len(self._of(runs)) for runs in self.runs.values()), default=0)

    @property
    def count_text(self) -> str:
        """The count in words: ``5 tunings``, ``3 seeds``; ``1 to 3 seeds`` where they differ."""
        fewest = min((len(self._of(runs)) for runs in self.runs.values()), default=0)
        text = unit_text(self.count, "tuning" if self.by_tuning else "seed")
        return text if fewest == self.count else f"{fewest} to {text}"

    def _of(self, runs: Sequence[Trained]) -> set[int]:
        return {run.replicate if self.by_tuning else int(run.config["seed"]) for run in runs}


def unit_text(count: int, what: str = "seed") -> str:
    """Return a count in words: ``1 seed``, ``3 fresh seeds``, ``5 tunings``."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _winning_runs(search: SearchData, strategy: str) -> list[Trained]:
    """Return the runs of the search with the chosen configs: of every tuning its own, else of the winner all seeds."""
    found = []
    for run in search.trials:
        chosen = search.tunings.get((strategy, run.replicate))
        if chosen is not None and run.ranked and _without_seed(run.config) == _without_seed(chosen):
            found.append(run)
    return found


def _without_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "seed"}


def takes_fewer_updates(results: Results, strategy: str, others: Iterable[str]) -> bool:
    """Return whether some run of ``strategy`` takes fewer updates than a like one of ``others`` on its seed."""
    rivals = [run for name in others for run in results.runs[name]]
    return any(
        run.metrics.get("updates", 0.0) < _AS_MANY * rival.metrics.get("updates", 0.0)
        for run in results.runs[strategy]
        for rival in rivals
        if rival.config["seed"] == run.config["seed"] and rival.shared == run.shared
    )


def equal_updates(results: Results) -> dict[str, dict[int, float]]:
    """Return the objective's metric by replicate (or seed), everyone having taken as many updates.

    Who takes most of them by itself needs no control; who takes fewer and has none is left out. Only what has the same
    network, batch size and so on is there: controls are compared like with like, or not at all.
    """
    search = results.search
    sharing = {name: runs for name, runs in results.runs.items() if search.shares_trunk(name)}
    controls = {name: search.confirmed(names.EQUAL_UPDATES, name) for name in sharing}
    found: dict[str, list[Trained]] = {}
    for strategy, runs in sharing.items():
        for run in runs:
            rivals = [one for others in sharing.values() for one in others if one.config["seed"] == run.config["seed"]]
            most = max(rivals, key=lambda one: one.metrics.get("updates", 0.0))
            if run.shared != most.shared:
                continue
            if run.metrics.get("updates", 0.0) >= _AS_MANY * most.metrics.get("updates", 0.0):
                found.setdefault(strategy, []).append(run)
            else:
                again = (one for one in controls[strategy] if one.config["seed"] == run.config["seed"])
                found.setdefault(strategy, []).extend(again)
    seeds = {run.config["seed"] for runs in controls.values() for run in runs}
    if seeds:
        found = {name: [run for run in runs if run.config["seed"] in seeds] for name, runs in found.items()}
    units = {name: results.by_unit(runs, results.prefix + search.quality) for name, runs in found.items()}
    return {name: values for name, values in units.items() if values}


def at_common_rate(results: Results) -> dict[str, dict[int, float]]:
    """Return the objective's metric by seed at the common learning rate, for each variant that was trained there."""
    search = results.search
    prefix = "best/val/" if search.grid_has_paths else results.prefix
    found = {
        name: {int(run.config["seed"]): run.metrics.get(prefix + search.quality, math.nan) for run in runs}
        for name, runs in search.paths().items()
    }
    return {name: {s: v for s, v in values.items() if not math.isnan(v)} for name, values in found.items()}


@dataclass(frozen=True)
class PoorTuning:
    """A strategy that does better at the common learning rate than with what its tunings chose, on the same seeds.

    Attributes:
        strategy: The name of the strategy.
        lr: The common learning rate.
        there, chosen: The mean of the objective's metric there, and of its own choices.
        seeds: The number of seeds.
    """

    strategy: str
    lr: float
    there: float
    chosen: float
    seeds: int


def poorly_tuned(results: Results) -> list[PoorTuning]:
    """Return the strategies whose reruns at the common learning rate beat what their tunings chose."""
    search, found = results.search, []
    if search.grid_has_paths or search.common_lr is None or not results.confirmed:
        return []
    metric = results.prefix + search.quality
    for strategy, runs in results.runs.items():
        again = {r.config["seed"]: r.metrics.get(metric) for r in search.confirmed(names.COMMON_PATH, strategy)}
        own = {run.config["seed"]: run.metrics.get(metric) for run in runs}
        pairs = [(again[seed], own[seed]) for seed in again if again[seed] is not None and own.get(seed) is not None]
        if not pairs:
            continue
        there, chosen = (statistics.fmean(float(pair[side] or 0.0) for pair in pairs) for side in (0, 1))
        if search.sign * there < search.sign * chosen:
            found.append(PoorTuning(strategy, search.common_lr, there, chosen, len(pairs)))
    return found


def variation(results: Results) -> Variation:
    """Return what of the luck is that of seeds and what that of the search, on the objective's metric."""
    metric = results.prefix + results.search.quality
    seeds = [list(values.values()) for values in at_common_rate(results).values()]
    for runs in results.runs.values():
        for replicate in {run.replicate for run in runs}:
            several = [run.metrics.get(metric, math.nan) for run in runs if run.replicate == replicate]
            seeds.append([value for value in several if not math.isnan(value)])
    tunings = [results.values(strategy, results.search.quality) for strategy in results.runs]
    return Variation(seeds, tunings)
