"""Trade-offs between tasks: the part of the page, and the same figures for programs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tune_mtl.reporting.part import Part
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.comparison import Comparison
from tune_mtl.reporting.statistics.task_front import SCATTERED, TaskFront, check_tasks, task_front
from tune_mtl.reporting.statistics.tradeoffs import REFERENCES, TradeOffs, trade_offs
from tune_mtl.reporting.tables.number_format import difference_text, number, p_text

_NAMED = 5
"""Up to so many tasks are named in a sentence."""
_STRATEGIES = 5
"""Of so many strategies each has its sentence; of more, the first, and the table says the rest."""
_SHOWN = 2
"""Figures of changes that are shown at once; those of further strategies are folded away."""


@dataclass(frozen=True)
class Found:
    """What a search says of its tasks.

    Attributes:
        results: Where it comes from.
        changes: Against the reference, task by task.
        front: Over all tasks.
        chosen: Over the tasks that were asked for; None: nobody asked.
    """

    results: Results
    changes: TradeOffs
    front: TaskFront
    chosen: TaskFront | None = None


def find_trade_offs(results: Results, reference: str | None = None, front: Sequence[str] | None = None) -> Found:
    """Compare strategies task by task.

    Args:
        results: Of the search.
        reference: With which strategy; default: ``stl``, else ``sus``.
        front: Two or three tasks whose front is drawn pair by pair, besides that of all.

    Raises:
        UserError: if the reference has no results, or the tasks are unknown or too many.
    """
    if front is not None:
        check_tasks(results, front)
    changes = trade_offs(results, reference)
    drawn = None if front is None else task_front(results, list(dict.fromkeys(front)), changes.reference)
    return Found(results, changes, task_front(results, scale=changes.reference), drawn)


def plain(found: Found) -> dict[str, Any]:
    """Return it as plain values, for programs; changes are in percent, positive is better, None is not known."""
    changes, front = found.changes, found.front
    volume = front.hypervolume
    return {
        "reference": changes.reference,
        "metrics": {task: list(metrics) for task, metrics in found.results.judged_by_task.items()},
        "changes": {
            name: {one.task: {**_numbers(one.change), "verdict": one.verdict} for one in several}
            for name, several in changes.changes.items()
        },
        "delta_m": {name: _numbers(one) for name, one in changes.delta_m.items()},
        "best_on": {name: list(tasks) for name, tasks in changes.best_on.items()},
        "front": {
            "tasks": list(front.tasks),
            "members": list(front.members),
            "beaten_by": {name: list(rivals) for name, rivals in front.beaten_by.items()},
            "hypervolume": None if volume is None else asdict(volume),
            "why_not": front.why_not or None,
        },
        "missing": missing(found),
    }


def _numbers(one: Comparison) -> dict[str, Any]:
    numbers = {"change": one.difference, "low": one.low, "high": one.high, "p": one.p}
    return {**{key: value if math.isfinite(value) else None for key, value in numbers.items()}, "units": one.units}


def missing(found: Found) -> list[str]:
    """Say what cannot be said of the tasks, and why."""
    results, changes, front = found.results, found.changes, found.front
    if not results.runs:
        return []
    if len(results.runs) < 2:
        return [f"Only {next(iter(results.runs))} has results: there is nothing to compare it with, task by task."]
    said = []
    if changes.reference is None:
        said.append(
            f"Neither {' nor '.join(REFERENCES)} has results, so there is no reference to measure changes and Δm"
            f" against: tune-mtl report {results.search.name} --reference {next(iter(results.runs))} takes another."
        )
    said += [f"Task {task} has no relative change: {why}." for task, why in changes.without.items()]
    if changes.without and changes.reference is not None:
        said.append("So there is no Δm: it is the mean over all tasks.")
    for name, tasks in _unmeasured(results, changes).items():
        named = ", ".join(tasks[:_NAMED]) + (" and others" if len(tasks) > _NAMED else "")
        said.append(f"{name} has no change of {named}, as it has no value there; so it has no Δm.")
    if front.incomplete:
        said.append(f"Not on the front, as some task has no value: {', '.join(front.incomplete)}.")
    if front.why_not:
        said.append(front.why_not)
    return said


def _unmeasured(results: Results, changes: TradeOffs) -> dict[str, list[str]]:
    """Return by strategy the tasks on which it cannot be compared with the reference, though others could be."""
    if changes.reference is None:
        return {}
    measured = {name: {one.task for one in changes.changes.get(name, ())} for name in results.runs}
    tasks = [task for task in results.judged_by_task if task not in changes.without]
    found = {name: [task for task in tasks if task not in known] for name, known in measured.items()}
    return {name: absent for name, absent in found.items() if absent and name != changes.reference}


def trade_offs_part(found: Found, styles: "Any") -> Part | None:
    """Return the part of the page; None for a search with one task or without results."""
    results, changes, front = found.results, found.changes, found.front
    if len(results.search.tasks) < 2 or not results.runs:
        return None
    title = "Trade-offs between tasks"
    if len(results.runs) < 2:
        return Part(title, missing(found))
    from tune_mtl.reporting.figures.style import style
    from tune_mtl.reporting.figures.task_changes import task_changes
    from tune_mtl.reporting.figures.task_front import front_figure
    from tune_mtl.reporting.tables.tradeoffs import changes_table, overview_table

    with style():
        drawn = task_changes(changes)
        over_all = front_figure(results, front, changes.order, styles)
        of_chosen = None
        if found.chosen is not None and (len(front.tasks) > SCATTERED or set(found.chosen.tasks) != set(front.tasks)):
            of_chosen = front_figure(results, found.chosen, (), styles, "task-front-chosen")
    fronts = [one for one in (over_all, of_chosen) if one is not None]
    every_task = changes_table(results, changes)
    return Part(
        title,
        [*_sentences(found), *missing(found)],
        [overview_table(results, changes, front)],
        [*drawn[:_SHOWN], *fronts],
        [*drawn[_SHOWN:], *([] if every_task is None else [every_task])],
    )


def _sentences(found: Found) -> list[str]:
    """Say who pays, strategy by strategy: first what is gained in all, then who loses."""
    changes, front = found.changes, found.front
    said = []
    for name, several in list(changes.changes.items())[:_STRATEGIES]:
        overall = changes.delta_m.get(name)
        gains, loses = changes.tasks(name, "gains"), changes.tasks(name, "loses")
        mean = "" if overall is None else f": Δm {_mean(overall)}"
        what = (
            f"{_several(gains, 'gain')}, {_several(loses, 'lose')}" if gains or loses else "no task is told to change"
        )
        said.append(f"{name} against {changes.reference}{mean}. Of {len(several)} tasks {what}.")
    more = len(changes.changes) - _STRATEGIES
    if more > 0:
        said.append(f"The other {more} strategies are in the table." if more > 1 else "The last one is in the table.")
    won = {name: len(tasks) for name, tasks in changes.best_on.items() if tasks}
    if won:
        best = ", ".join(f"{name} on {count}" for name, count in sorted(won.items(), key=lambda pair: -pair[1]))
        said.append(f"Best of all: {best} task{'s' if sum(won.values()) > 1 else ''}.")
    if front.costs:
        rest = ", ".join(front.beaten_by)
        beaten = f"; beaten, as another is as good on every task and better on one: {rest}" if rest else ""
        said.append(f"On the Pareto front over tasks: {', '.join(front.members)}{beaten}.")
    return said


def _mean(one: Comparison) -> str:
    if math.isnan(one.p):
        return f"{one.difference:+.2f} %"
    low, high = (difference_text(one, end) for end in (one.low, one.high))
    return f"{one.difference:+.2f} % (interval {low} to {high}, {p_text(one.p)}, corrected)"


def _several(tasks: Sequence[str], verb: str) -> str:
    if not tasks:
        return f"none {verb}s"
    named = f" ({', '.join(tasks)})" if len(tasks) <= _NAMED else ""
    return f"{number(len(tasks))} {verb}{'s' if len(tasks) == 1 else ''}{named}"
