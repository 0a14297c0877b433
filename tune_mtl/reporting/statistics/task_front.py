"""Which strategies are beaten by nobody on all tasks at once, and how much of the space between worst and best they
cover together.

The hypervolume is computed by moocore, whose algorithms are those of the field; it is small and needs numpy alone.
Optuna's is private, and Optuna stays out of reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.tradeoffs import task_costs

MOST_TASKS = 10
"""Up to so many tasks the hypervolume is computed: its time doubles with every task or two (10: milliseconds)."""
SCATTERED = 3
"""Up to so many tasks a front is drawn pair by pair."""
BEYOND = 0.1
"""How far the reference point lies beyond the worst mean on each task, as a share of the way from best to worst."""


@dataclass(frozen=True)
class Hypervolume:
    """What a front covers of the box from the reference point to the best mean on every task, as a share of it.

    Attributes:
        value: Of all strategies together.
        contributions: By strategy, what would be missing without it.
        reference: The reference point: by task, the cost that is `BEYOND` the worst one.
    """

    value: float
    contributions: Mapping[str, float]
    reference: Mapping[str, float]


@dataclass(frozen=True)
class TaskFront:
    """The Pareto front over tasks of the strategies' means.

    Attributes:
        tasks: The tasks that count.
        metrics: The metric of each task that has one; others are the mean of their metrics' relative changes.
        costs: By strategy and task, the less the better.
        members: Who is beaten by nobody.
        beaten_by: By strategy that is beaten, those that are as good on every task and better on one.
        hypervolume: None where it is not computed.
        why_not: Why it is not, in a sentence.
        incomplete: The strategies that have no value on some task.
    """

    tasks: Sequence[str]
    metrics: Mapping[str, str]
    costs: Mapping[str, Mapping[str, float]]
    members: Sequence[str]
    beaten_by: Mapping[str, Sequence[str]]
    hypervolume: Hypervolume | None
    why_not: str
    incomplete: Sequence[str]

    def shares(self) -> dict[str, dict[str, float]]:
        """Return by strategy and task how far it is from the worst mean (0) to the best (1)."""
        return {
            name: {task: 1 - value for task, value in zip(self.tasks, point, strict=True)}
            for name, point in zip(self.costs, scaled(list(self._points().values())), strict=True)
        }

    def _points(self) -> dict[str, list[float]]:
        return {name: [found[task] for task in self.tasks] for name, found in self.costs.items()}


def check_tasks(results: Results, tasks: Sequence[str]) -> None:
    """Refuse tasks that no front can be drawn of pair by pair.

    Raises:
        UserError: naming the first thing that is wrong.
    """
    known = results.search.tasks
    for task in tasks:
        if task not in known:
            raise UserError(f"front: search '{results.search.name}' has no task '{task}'. {did_you_mean(task, known)}")
    count = len(set(tasks))
    if not 2 <= count <= SCATTERED:
        raise UserError(
            f"front={','.join(tasks)} names {count} task{'' if count == 1 else 's'}: a front is drawn of 2 or"
            f" {SCATTERED} of them, pair by pair; without it all are drawn side by side."
        )


def task_front(results: Results, tasks: Sequence[str] | None = None, scale: str | None = None) -> TaskFront:
    """Return the front of the strategies' means over ``tasks``; default: all that some strategy has a value on."""
    costs = task_costs(results, scale)
    counted = [task for task in (tasks or results.search.tasks) if costs.get(task)]
    whole = [name for name in results.runs if counted and all(name in costs[task] for task in counted)]
    by_name = {name: {task: costs[task][name] for task in counted} for name in whole}
    points = [[by_name[name][task] for task in counted] for name in whole]
    beaten = {
        name: [rival for rival, other in zip(whole, points, strict=True) if dominates(other, point)]
        for name, point in zip(whole, points, strict=True)
    }
    volume, why_not = _hypervolume(counted, whole, points)
    return TaskFront(
        counted,
        {task: found[0] for task, found in results.judged_by_task.items() if task in counted and len(found) == 1},
        by_name,
        [name for name in whole if not beaten[name]],
        {name: rivals for name, rivals in beaten.items() if rivals},
        volume,
        why_not,
        [name for name in results.runs if name not in whole],
    )


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether ``one`` is nowhere worse than ``other`` and somewhere better; less is better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


def scaled(points: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return points with 0 for the best and 1 for the worst in every column; 0 where all are alike."""
    columns = []
    for column in zip(*points, strict=True):
        low, high = min(column), max(column)
        columns.append([(value - low) / (high - low) if high > low else 0.0 for value in column])
    return [list(point) for point in zip(*columns, strict=True)]


def hypervolume(points: Sequence[Sequence[float]]) -> float:
    """Return what ``points``, scaled to 0 (best) .. 1 (worst), cover of the box that ends `BEYOND` the worst.

    Raises:
        ImportError: without moocore.
    """
    import moocore

    if not points:
        return 0.0
    edge, count = 1 + BEYOND, len(points[0])
    return float(moocore.hypervolume([list(point) for point in points], ref=[edge] * count)) / edge**count


def _hypervolume(
    tasks: Sequence[str], names: Sequence[str], points: Sequence[Sequence[float]]
) -> tuple[Hypervolume | None, str]:
    """Return the hypervolume, or why there is none."""
    if len(names) < 2 or len(tasks) < 2:
        return None, "The hypervolume needs two strategies with results and two tasks."
    if len(tasks) > MOST_TASKS:
        return None, (
            f"The hypervolume is not computed for {len(tasks)} tasks: its time grows exponentially with their number,"
            f" so it is computed for up to {MOST_TASKS}."
        )
    placed = scaled(points)
    try:
        whole = hypervolume(placed)
        rest = {name: hypervolume([*placed[:index], *placed[index + 1 :]]) for index, name in enumerate(names)}
    except ImportError:  # an environment that is older than this package: the rest of the report does without
        return None, "The hypervolume is not computed, as moocore is not installed here: pip install moocore."
    worst = {task: max(column) for task, column in zip(tasks, zip(*points, strict=True), strict=True)}
    best = {task: min(column) for task, column in zip(tasks, zip(*points, strict=True), strict=True)}
    edge = {task: worst[task] + BEYOND * (worst[task] - best[task]) for task in tasks}
    return Hypervolume(whole, {name: max(0.0, whole - value) for name, value in rest.items()}, edge), ""
