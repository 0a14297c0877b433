"""The Pareto front over tasks: two or three of them pair by pair, more of them side by side."""

from collections.abc import Sequence
from itertools import combinations, pairwise

from matplotlib.figure import Figure

from tune_mtl.reporting.figures.style import WIDTH, Drawing, Look, Looks, legend_below, new_figure, short
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.task_front import SCATTERED, TaskFront

_ROW, _REST = 0.165, 1.3
"""Inches: the height of a task's row, and of all else."""


def front_figure(
    results: Results, front: TaskFront, order: Sequence[str], styles: Looks, key: str = "task-front"
) -> Drawing | None:
    """Draw the front; tasks side by side stand in ``order``. None with fewer than two strategies or tasks."""
    if len(front.costs) < 2 or len(front.tasks) < 2:
        return None
    if len(front.tasks) <= SCATTERED:
        return _scatter(results, front, styles, key)
    return _parallel(front, [*(task for task in order if task in front.tasks)] or front.tasks, styles, key)


def _said(front: TaskFront) -> str:
    beaten = [f"{name} (by {rivals[0]})" for name, rivals in front.beaten_by.items()]
    rest = f"; beaten: {', '.join(beaten)}" if beaten else ""
    return f"On the front: {', '.join(front.members)}{rest}."


def _scatter(results: Results, front: TaskFront, styles: Looks, key: str) -> Drawing:
    """Draw every pair of tasks: means filled, tunings small."""
    pairs = list(combinations(front.tasks, 2))
    figure, places = new_figure(len(pairs), 1, height=2.6)
    for axes, (first, second) in zip(places, pairs, strict=True):
        for name in front.costs:
            look = styles[name]
            for x, y in _of_units(results, front, name, first, second):
                axes.plot(x, y, color=look.color, marker=look.marker, markersize=3, alpha=0.35, linestyle="none")
            x, y = (_value(results, front, name, task) for task in (first, second))
            face = look.color if name in front.members else "none"
            axes.plot(
                x, y, color=look.color, marker=look.marker, markersize=7, markerfacecolor=face, linestyle="none",
                label=name,
            )  # fmt: skip
        on_front = sorted(
            (
                tuple(front.costs[name][task] for task in (first, second))
                for name in front.costs
                if not any(_beats(front, rival, name, first, second) for rival in front.costs)
            ),
        )
        signs = [_sign(results, front, task) for task in (first, second)]
        corners = [corner for a, b in pairwise(on_front) for corner in (a, (b[0], a[1]))] + on_front[-1:]
        axes.plot(
            [signs[0] * x for x, _ in corners], [signs[1] * y for _, y in corners], color="0.5", linewidth=1,
            linestyle="--",
        )  # fmt: skip
        axes.set(xlabel=_label(results, front, first), ylabel=_label(results, front, second))
    legend_below(figure, *places)
    unit = "tunings" if results.by_tuning else "seeds"
    return Drawing(
        key,
        f"The Pareto front over {', '.join(front.tasks)}",
        f"{', '.join(front.tasks)} against each other, the mean of each strategy. {_said(front)}",
        figure,
        f"Large: the mean of each strategy, filled where no other is as good on all tasks and better on one; small: its"
        f" {unit}. Dashed: the front of the two tasks of a plot. By means alone: no test stands behind a front.",
    )


def _parallel(front: TaskFront, order: Sequence[str], styles: Looks, key: str) -> Drawing:
    """Draw a line for each strategy down all tasks, from the worst mean on a task to the best."""
    shares = front.shares()
    figure = Figure(figsize=(WIDTH, _ROW * len(order) + _REST))
    axes = figure.subplots()
    beaten_last = [*front.members, *front.beaten_by]
    for place, name in enumerate(reversed(beaten_last)):
        look: Look = styles[name]
        on_front = name in front.members
        axes.plot(
            [shares[name][task] for task in order], range(len(order)), color=look.color, marker=look.marker,
            linestyle="-" if on_front else ":", linewidth=1.3 if on_front else 0.9, markersize=4, label=name,
            alpha=1.0 if on_front else 0.6, markerfacecolor=look.color if on_front else "none", zorder=2 + place,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), [short(task, 22) for task in order])
    axes.set(ylim=(len(order) - 0.4, -0.6), xlim=(-0.05, 1.05))
    axes.set_xticks([0, 0.5, 1], ["worst", "halfway", "best"])
    legend_below(figure, axes)
    return Drawing(
        key,
        "The Pareto front over tasks, side by side",
        f"The mean of each strategy on {len(order)} tasks, from the worst to the best of them. {_said(front)}",
        figure,
        "A row for each task, from the worst strategy's mean to the best one's. Whole lines, filled: no other strategy"
        " is as good on all tasks and better on one; dotted, hollow: another is. Lines that cross are a trade-off. By"
        " means alone: no test stands behind a front.",
    )


def _sign(results: Results, front: TaskFront, task: str) -> int:
    return results.sign(front.metrics[task]) if task in front.metrics else -1


def _value(results: Results, front: TaskFront, name: str, task: str) -> float:
    return _sign(results, front, task) * front.costs[name][task]


def _label(results: Results, front: TaskFront, task: str) -> str:
    metric = front.metrics.get(task)
    if metric is None:
        return short(f"{task}: mean of its metrics (more is better)", 48)
    better = "more" if results.sign(metric) < 0 else "less"
    return short(f"{metric} ({better} is better)", 48)


def _beats(front: TaskFront, rival: str, name: str, first: str, second: str) -> bool:
    ours, theirs = ([front.costs[one][task] for task in (first, second)] for one in (name, rival))
    return all(a <= b for a, b in zip(theirs, ours, strict=True)) and theirs != ours


def _of_units(results: Results, front: TaskFront, name: str, first: str, second: str) -> list[tuple[float, float]]:
    """Return the points of single tunings, or seeds, where both tasks have one metric each."""
    if first not in front.metrics or second not in front.metrics:
        return []
    x, y = (results.units(name, front.metrics[task]) for task in (first, second))
    return [(x[unit], y[unit]) for unit in x if unit in y] if len(x) > 1 else []
