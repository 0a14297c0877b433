"""What every strategy does to every task, against the reference: a row for each task, a plot for each strategy."""

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from tune_mtl.reporting.figures.style import PALETTE, WIDTH, Drawing, short
from tune_mtl.reporting.statistics.tradeoffs import TaskChange, TradeOffs, Verdict
from tune_mtl.reporting.tables.number_format import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIDE_BY_SIDE = 2
"""Strategies in one figure: a phone is no wider."""
_ROW, _REST = 0.165, 1.05
"""Inches: the height of a row, and of all else."""
_FAR = 4.0
"""How many times the usual size of a change is still drawn in its place."""
_GREY = "#7F7F7F"
_MARKS: dict[Verdict, tuple[str, str]] = {"gains": ("^", PALETTE[0]), "loses": ("v", PALETTE[1]), "open": ("o", _GREY)}
_SAID = {"gains": "gains", "loses": "loses", "open": "not told apart"}


def task_changes(found: TradeOffs) -> list[Drawing]:
    """Draw the changes of all tasks, two strategies at a time; all figures share rows and scale."""
    names = list(found.changes)
    if not names:
        return []
    tasks, reach = found.order, _reach([one for changes in found.changes.values() for one in changes])
    chunks = [names[start : start + _SIDE_BY_SIDE] for start in range(0, len(names), _SIDE_BY_SIDE)]
    return [_drawn(found, chunk, tasks, reach, index) for index, chunk in enumerate(chunks)]


def _drawn(found: TradeOffs, names: Sequence[str], tasks: Sequence[str], reach: float, index: int) -> Drawing:
    figure = Figure(figsize=(WIDTH, _ROW * len(tasks) + _REST))
    places = figure.subplots(1, _SIDE_BY_SIDE, squeeze=False, sharex=True, sharey=True)[0]
    for name, axes in zip(names, places, strict=False):
        _strategy(axes, {one.task: one for one in found.changes[name]}, tasks, reach)
        axes.set_title(short(name))
    for axes in places[len(names) :]:
        axes.remove()
    first = places[0]
    first.set_yticks(range(len(tasks)), [short(task, 22) for task in tasks])
    first.set_ylim(len(tasks) - 0.4, -0.6)
    first.set_xlim(-1.08 * reach, 1.08 * reach)
    _legend(figure, found, names)
    told = "; ".join(_told(found, name) for name in names)
    whom = " and ".join(names)
    return Drawing(
        "task-changes" if index == 0 else f"task-changes-{index + 1}",
        f"What {whom} {'do' if len(names) > 1 else 'does'} to each task, against {found.reference}",
        f"Change of every task in percent of {found.reference}, with intervals: {told}.",
        figure,
        "Rows in the order of the first strategy's changes. Lines: the interval at the corrected level, which excludes"
        " zero just where the change is significant. A number at the edge is a change that lies beyond it.",
    )


def _strategy(axes: "Axes", changes: dict[str, TaskChange], tasks: Sequence[str], reach: float) -> None:
    axes.axvline(0, color=_GREY, linewidth=0.8)
    for row, task in enumerate(tasks):
        if task not in changes:
            continue
        one = changes[task].change
        marker, color = _MARKS[changes[task].verdict]
        if not math.isnan(one.low):
            low, high = (max(-1.2 * reach, min(1.2 * reach, end)) for end in (one.low, one.high))
            axes.plot((low, high), (row, row), color=color, linewidth=1.2, solid_capstyle="butt")
        inside = max(-reach, min(reach, one.difference))
        hollow = "none" if changes[task].verdict == "open" else color
        axes.plot(inside, row, color=color, marker=marker, markersize=4, markerfacecolor=hollow)
        if inside != one.difference:
            side = "right" if one.difference > 0 else "left"
            axes.annotate(
                f"{one.difference:+.3g}", (inside, row), fontsize=7, va="center", ha=side,
                xytext=(-5 if one.difference > 0 else 5, 0), textcoords="offset points",
            )  # fmt: skip
    axes.grid(visible=True, axis="both")


def _legend(figure: Figure, found: TradeOffs, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    drawn = {one.verdict for name in names for one in found.changes[name]}
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="none", markersize=4, label=_SAID[verdict],
               markerfacecolor="none" if verdict == "open" else color)
        for verdict, (marker, color) in _MARKS.items() if verdict in drawn
    ]  # fmt: skip
    title = f"change against {found.reference}, % (right: better)"
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.4, title=title,
        title_fontsize=8.5,
    )  # fmt: skip


def _reach(changes: Sequence[TaskChange]) -> float:
    """Return how far the axis goes: as far as intervals, but not for what is many times larger than is usual."""
    sizes = [abs(one.change.difference) for one in changes]
    ends = [abs(end) for one in changes for end in (one.change.low, one.change.high) if not math.isnan(end)]
    usual = max(statistics.median(sizes), statistics.quantiles(sizes, n=4)[2] if len(sizes) > 1 else 0.0)
    wanted = max([*sizes, min(max(ends, default=0.0), 2 * max(sizes))])
    limit = _FAR * usual
    return (min(wanted, limit) if limit else wanted) or 1.0


def _told(found: TradeOffs, name: str) -> str:
    gains, loses = found.tasks(name, "gains"), found.tasks(name, "loses")
    mean = found.delta_m.get(name)
    overall = "" if mean is None else f", mean {number(mean.difference)} %"
    return f"{name} gains on {len(gains)} and loses on {len(loses)} of {len(found.changes[name])} tasks{overall}"
