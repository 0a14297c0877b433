"""The numbers of a report: which runs speak for a strategy, and on which split."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tune_mtl.report.evidence import Evidence, Trained, shares_trunk
from tune_mtl.report.statistics import Sample, Standing, delta_m, standings
from tune_mtl.tracking import names

REFERENCE = "stl"
_AS_MANY = 0.98
"""Of the most updates: missing labels cost groups a few steps."""


@dataclass(frozen=True)
class Results:
    """What the strategies reached, each with its best config on several seeds.

    Attributes:
        evidence: Where it comes from.
        runs: By strategy, the best first; those without a result are not there.
        prefix: ``test/``, or ``best/val/`` where there is no test split or nothing was confirmed.
        confirmed: Whether these are runs on fresh seeds, or the search's own.
    """

    evidence: Evidence
    runs: Mapping[str, Sequence[Trained]]
    prefix: str
    confirmed: bool
    _standings: dict[str, dict[str, Standing]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, evidence: Evidence) -> "Results":
        """The confirming runs; without any, those of the search with the winning configs."""
        fresh = {strategy: evidence.confirmed(names.CONFIRM, strategy) for strategy in evidence.strategies}
        fresh = {strategy: runs for strategy, runs in fresh.items() if runs}
        tested = any(name.startswith("test/") for runs in fresh.values() for run in runs for name in run.metrics)
        found = fresh or {strategy: _winning_runs(evidence, strategy) for strategy in evidence.winners}
        results = cls(evidence, found, "test/" if tested else "best/val/", bool(fresh))
        sign = evidence.sign
        chosen = {strategy: results.validation(strategy) for strategy in found}
        order = sorted(
            found, key=lambda strategy: sign * chosen[strategy] if not math.isnan(chosen[strategy]) else math.inf
        )
        return cls(evidence, {strategy: found[strategy] for strategy in order}, results.prefix, results.confirmed)

    def validation(self, strategy: str) -> float:
        """The mean of the objective on validation, which alone decides who is best."""
        metric = names.best_metric(self.evidence.objective.metric)
        values = [run.metrics[metric] for run in self.runs[strategy] if metric in run.metrics]
        return statistics.fmean(values) if values else math.nan

    def values(self, strategy: str, metric: str) -> list[float]:
        """A metric (without its split) on every seed that has it."""
        found = (run.metrics.get(self.prefix + metric, math.nan) for run in self.runs.get(strategy, ()))
        return [value for value in found if not math.isnan(value)]

    def samples(self, metric: str) -> dict[str, Sample]:
        """By strategy."""
        values = {strategy: self.values(strategy, metric) for strategy in self.runs}
        return {strategy: Sample.of(found) for strategy, found in values.items() if found}

    def label(self, strategy: str) -> str:
        """Strategy and the winner's groups."""
        return self.runs[strategy][0].variant if self.runs.get(strategy) else strategy

    @property
    def split(self) -> str:
        """For people."""
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
            for task in self.evidence.tasks
        }

    @cached_property
    def judged_by_task(self) -> dict[str, list[str]]:
        """The metrics of each task whose better direction is known; its loss where there are none."""
        directed = {task: [name for name in found if self.evidence.mode(name)] for task, found in self.by_task.items()}
        chosen = {task: found or [f"loss/{task}"] for task, found in directed.items()}
        return {task: [name for name in found if name in self.reported] for task, found in chosen.items()}

    @cached_property
    def judged(self) -> list[str]:
        """The metrics over which ranks are averaged: those that judge a task."""
        return [name for metrics in self.judged_by_task.values() for name in metrics] or [self.evidence.quality]

    def standings(self, metric: str) -> dict[str, Standing]:
        """Who is best on a metric, and who is not told from it."""
        if metric not in self._standings:
            self._standings[metric] = standings(self.samples(metric), self.evidence.mode(metric) or "min")
        return self._standings[metric]

    @property
    def seeds(self) -> int:
        """On how many seeds, at most."""
        return max((len(runs) for runs in self.runs.values()), default=0)

    @property
    def seeds_text(self) -> str:
        """``3 seeds``; ``1 to 3 seeds`` where they differ."""
        fewest = min((len(runs) for runs in self.runs.values()), default=0)
        return seeds_text(self.seeds) if fewest == self.seeds else f"{fewest} to {seeds_text(self.seeds)}"


def seeds_text(count: int, kind: str = "") -> str:
    """``1 seed``, ``3 fresh seeds``."""
    return f"{count} {kind + ' ' if kind else ''}seed{'' if count == 1 else 's'}"


def _winning_runs(evidence: Evidence, strategy: str) -> list[Trained]:
    """All runs of the search with the winner's config, whatever their seed."""
    wanted = {key: value for key, value in evidence.winners[strategy].config.items() if key != "seed"}
    same = [run for run in evidence.trials if {k: v for k, v in run.config.items() if k != "seed"} == wanted]
    return [run for run in same if run.ranked]


def deltas(results: Results) -> dict[str, float | None]:
    """Delta-m of every strategy but the reference itself; empty where the reference was not trained."""
    if REFERENCE not in results.runs:
        return {}
    evidence = results.evidence
    tasks = results.judged_by_task
    modes = {name: evidence.mode(name) or "" for metrics in tasks.values() for name in metrics}
    means = {
        strategy: {name: results.samples(name)[strategy].mean for name in modes if strategy in results.samples(name)}
        for strategy in results.runs
    }
    return {
        strategy: delta_m(means[strategy], means[REFERENCE], modes, tasks)
        for strategy in results.runs
        if strategy != REFERENCE
    }


def equal_updates(results: Results) -> dict[str, list[float]]:
    """The objective's metric on every seed, everyone having taken as many updates.

    Who takes most of them by itself needs no control; who takes fewer and has none is left out.
    """
    evidence, found = results.evidence, {}
    sharing = {name: runs for name, runs in results.runs.items() if shares_trunk(name)}
    most = max((run.metrics.get("updates", 0.0) for runs in sharing.values() for run in runs), default=0.0)
    for strategy, runs in sharing.items():
        enough = all(run.metrics.get("updates", 0.0) >= _AS_MANY * most for run in runs)
        control = runs if enough else evidence.confirmed(names.EQUAL_UPDATES, strategy)
        values = [run.metrics.get(results.prefix + evidence.quality, math.nan) for run in control]
        found[strategy] = [value for value in values if not math.isnan(value)]
    return {strategy: values for strategy, values in found.items() if values}
