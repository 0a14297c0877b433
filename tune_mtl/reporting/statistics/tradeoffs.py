"""What one task pays for another: every task's change against a reference strategy, with its uncertainty, and Delta-m.

The change of a task is relative: the difference of a metric to the reference's, as a share of the reference's mean,
turned so that more is better, and averaged over the task's metrics, in percent. Delta-m is the mean over tasks.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tune_mtl.core.errors import UserError
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.comparison import Comparison, compare_differences, compare_samples
from tune_mtl.reporting.statistics.significance import ALPHA, holm

REFERENCES = ("stl", "sus")
"""With whom strategies are compared task by task, if nobody says: the first of them that has results."""

Verdict = Literal["gains", "loses", "open"]
_Pair = tuple[Mapping[int, float], Mapping[int, float]]
"""The values of the reference and of a strategy by unit, each relative to the reference's mean, in percent."""


@dataclass(frozen=True)
class TaskChange:
    """What becomes of one task under a strategy, against the reference.

    Attributes:
        task: The name of the task.
        change: The comparison, in percent of the reference; positive is better.
        verdict: Whether the task gains or loses significantly, as far as the design of the search allows to say so.
    """

    task: str
    change: Comparison
    verdict: Verdict


@dataclass(frozen=True)
class TradeOffs:
    """What every strategy does to every task.

    Attributes:
        reference: With whom all are compared; None: neither of those that could be has results.
        changes: By strategy, the tasks in their order; tasks without a relative change are not there.
        delta_m: By strategy, the mean over all tasks; those that lack a task are not there.
        best_on: By strategy, the tasks on which its mean is the best; equal ones share.
        without: Why a task has no relative change, by task.
    """

    reference: str | None
    changes: Mapping[str, Sequence[TaskChange]]
    delta_m: Mapping[str, Comparison]
    best_on: Mapping[str, Sequence[str]]
    without: Mapping[str, str]

    def tasks(self, strategy: str, verdict: Verdict) -> list[str]:
        """Return the tasks of ``strategy`` with a verdict."""
        return [one.task for one in self.changes.get(strategy, ()) if one.verdict == verdict]

    @property
    def order(self) -> list[str]:
        """The tasks by what the first strategy does to them, the largest gain first."""
        first = next(iter(self.changes.values()), ())
        known = sorted(first, key=lambda one: -one.change.difference)
        others = (one.task for found in self.changes.values() for one in found)
        return list(dict.fromkeys([*(one.task for one in known), *others]))


def reference_of(results: Results, asked: str | None = None) -> str | None:
    """Return the reference strategy: the one asked for, or the first that there is of those that usually are.

    Raises:
        UserError: if the one asked for has no results.
    """
    if asked is None:
        return next((name for name in REFERENCES if name in results.runs), None)
    if asked not in results.runs:
        known = ", ".join(results.runs) or "no strategy"
        raise UserError(
            f"reference '{asked}' has no results in search '{results.search.name}': {known} can be the reference."
        )
    return asked


def trade_offs(results: Results, reference: str | None = None) -> TradeOffs:
    """Compare every strategy with the reference, task by task.

    Tests are those of the search's design: of repeated tunings, t-tests of the changes paired by replicate; of one
    tuning of each, Welch's over seeds. Each strategy's tests are Holm-corrected for the number of its tasks, those of
    Delta-m for the number of strategies.

    Raises:
        UserError: if the reference asked for has no results.
    """
    chosen = reference_of(results, reference)
    if chosen is None:
        return TradeOffs(None, {}, {}, _best_on(task_costs(results)), {})
    tasks, others = results.judged_by_task, [name for name in results.runs if name != chosen]
    pairs = {name: {task: _pair(results, chosen, name, task) for task in tasks} for name in others}
    changes = {}
    for name, found in pairs.items():
        known = {task: pair for task, pair in found.items() if pair is not None and all(pair)}
        compared = _compared(results, [(chosen, name, pair) for pair in known.values()])
        changes[name] = [
            TaskChange(task, one, _verdict(results, one)) for task, one in zip(known, compared, strict=True)
        ]
    means = {name: _mean_over_tasks(list(found.values())) for name, found in pairs.items()}
    whole = {name: pair for name, pair in means.items() if pair is not None and all(pair)}
    overall = _compared(results, [(chosen, name, pair) for name, pair in whole.items()])
    return TradeOffs(
        chosen,
        {name: found for name, found in changes.items() if found},
        dict(zip(whole, overall, strict=True)),
        _best_on(task_costs(results, chosen)),
        _without(results, chosen, tasks),
    )


def _pair(results: Results, reference: str, strategy: str, task: str) -> _Pair | None:
    """Return the relative values of both on a task, by unit; None where the reference's mean is zero or unknown."""
    theirs: list[Mapping[int, float]] = []
    ours: list[Mapping[int, float]] = []
    for metric in results.judged_by_task[task]:
        base, own = results.units(reference, metric), results.units(strategy, metric)
        if results.by_tuning:
            shared = base.keys() & own.keys()
            base, own = ({unit: found[unit] for unit in sorted(shared)} for found in (base, own))
        middle = statistics.fmean(base.values()) if base else 0.0
        if not middle or not own:
            continue
        factor = -100 * results.sign(metric) / abs(middle)
        theirs.append({unit: factor * (value - middle) for unit, value in base.items()})
        ours.append({unit: factor * (value - middle) for unit, value in own.items()})
    if not ours or not all(math.isfinite(value) for found in (*theirs, *ours) for value in found.values()):
        return None
    return _averaged(theirs), _averaged(ours)


def _mean_over_tasks(pairs: Sequence[_Pair | None]) -> _Pair | None:
    known = [pair for pair in pairs if pair is not None]
    if not pairs or len(known) < len(pairs):
        return None
    return _averaged([base for base, _ in known]), _averaged([own for _, own in known])


def _averaged(several: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the mean over several by unit, of the units that all have."""
    units = set.intersection(*map(set, several)) if several else set()
    return {unit: statistics.fmean(found[unit] for found in several) for unit in sorted(units)}


def _compared(results: Results, family: Sequence[tuple[str, str, _Pair]]) -> list[Comparison]:
    """Compare as the design of the search allows, corrected for the number of comparisons."""
    if not results.by_tuning:
        return compare_samples([(a, b, [*base.values()], [*own.values()]) for a, b, (base, own) in family], holm)
    paired = [(a, b, [own[unit] - base[unit] for unit in base if unit in own]) for a, b, (base, own) in family]
    return compare_differences(paired, holm, results.looks)


def _verdict(results: Results, one: Comparison) -> Verdict:
    """Say what may be said: strategies only where fresh seeds judged them, and nothing where lost tunings flatter."""
    if not one.p < ALPHA:
        return "open"
    better = one.b if one.difference > 0 else one.a
    if results.by_tuning and (not results.tells_strategies or results.lost(better)):
        return "open"
    return "gains" if one.difference > 0 else "loses"


def _without(results: Results, reference: str, tasks: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Say why tasks have no relative change."""
    found = {}
    for task, metrics in tasks.items():
        means = {name: results.samples(name).get(reference) for name in metrics}
        if any(sample is not None and sample.mean for sample in means.values()):
            continue
        zero = [name for name, sample in means.items() if sample is not None]
        found[task] = f"the mean {zero[0]} of {reference} is 0" if zero else f"{reference} has no value of it"
    return found


def task_costs(results: Results, scale: str | None = None) -> dict[str, dict[str, float]]:
    """Return by task and strategy a number, the less the better, by which strategies can be ordered on the task.

    Of a task with one metric it is the mean of that, turned where more is better; of one with several, the mean of
    their relative changes against ``scale`` (default: the first strategy), turned.
    """
    if not results.runs:
        return {}
    base = scale or next(iter(results.runs))
    found: dict[str, dict[str, float]] = {}
    for task, metrics in results.judged_by_task.items():
        samples = {metric: results.samples(metric) for metric in metrics}
        if len(metrics) == 1:
            (metric,) = metrics
            found[task] = {name: results.sign(metric) * sample.mean for name, sample in samples[metric].items()}
            continue
        known = [metric for metric in metrics if base in samples[metric] and samples[metric][base].mean]
        everyone = [name for name in results.runs if known and all(name in samples[metric] for metric in known)]
        found[task] = {
            name: statistics.fmean(
                results.sign(metric) * (samples[metric][name].mean / abs(samples[metric][base].mean))
                for metric in known
            )
            for name in everyone
        }
    return {
        task: {name: costs[name] for name in results.runs if math.isfinite(costs.get(name, math.nan))}
        for task, costs in found.items()
    }


def _best_on(costs: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Return by strategy the tasks on which it is the best."""
    names = list(dict.fromkeys(name for found in costs.values() for name in found))
    best = {task: min(found.values()) for task, found in costs.items() if found}
    return {name: [task for task, least in best.items() if costs[task].get(name) == least] for name in names}
