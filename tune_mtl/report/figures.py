"""The figures of a report; each is drawn if there is something to draw."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from tune_mtl.report.drawing import LINES, Drawing, Look, band, legend_below, looks, new_figure, short, style
from tune_mtl.report.evidence import Evidence, Trained
from tune_mtl.report.results import Results
from tune_mtl.tracking import names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_TASKS = 12


def draw_all(evidence: Evidence, results: Results) -> list[Drawing]:
    """All that the evidence allows, in the order of the page."""
    makers: list[Callable[[Evidence, Results], Drawing | None]] = [
        learning_rates, task_learning_rates, group_counts, learning_curves, paths, quality_and_cost,
    ]  # fmt: skip
    with style():
        drawn = [make(evidence, results) for make in makers]
    return [drawing for drawing in drawn if drawing is not None]


def learning_rates(evidence: Evidence, results: Results) -> Drawing | None:  # noqa: ARG001
    """The best validation value against the learning rate (figures 1 and 2 of the paper)."""
    metric = names.best_metric(evidence.objective.metric)
    figure, (axes,) = new_figure()
    said = [
        text
        for strategy, look in looks(evidence.strategies).items()
        if (text := _against_lr(axes, _of(evidence, strategy), metric, look, strategy, evidence))
    ]
    if not said:
        return None
    axes.set(xscale="log", xlabel="learning rate", ylabel=f"best {evidence.objective.metric}")
    _clip(axes, 1 if evidence.objective.mode == "min" else -1)
    legend_below(figure, axes)
    return Drawing(
        "learning-rates",
        f"Best validation value against the learning rate{_hollow(evidence)}",
        f"{evidence.objective.metric} at the best epoch of each trial. Best of each strategy: {'; '.join(said)}.",
        figure,
    )


def task_learning_rates(evidence: Evidence, results: Results) -> Drawing | None:  # noqa: ARG001
    """The same for every task's loss."""
    tasks = evidence.tasks[:_MOST_TASKS]
    if len(tasks) < 2:
        return None
    columns = 2 if len(tasks) <= 4 else 3
    figure, axes = new_figure(math.ceil(len(tasks) / columns), columns, height=2.4)
    drawn = False
    for task, place in zip(tasks, axes, strict=False):
        for strategy, look in looks(evidence.strategies).items():
            metric = names.best_metric(f"val/loss/{task}")
            drawn |= bool(_against_lr(place, _of(evidence, strategy), metric, look, strategy, evidence))
        place.set(xscale="log", title=short(task))
        _clip(place, 1)
    for place in axes[len(tasks) :]:
        place.set_visible(False)
    if not drawn:
        return None
    for place in axes[max(0, len(tasks) - columns) : len(tasks)]:
        place.set_xlabel("learning rate")
    figure.supylabel("validation loss at the best epoch", fontsize=10)
    legend_below(figure, axes[0])
    more = f" The first {_MOST_TASKS} of {len(evidence.tasks)} tasks." if len(evidence.tasks) > _MOST_TASKS else ""
    return Drawing(
        "task-learning-rates",
        "The same, task by task" + more,
        f"Validation loss of {', '.join(tasks)} against the learning rate, for {', '.join(evidence.strategies)}.{more}",
        figure,
    )


def group_counts(evidence: Evidence, results: Results) -> Drawing | None:  # noqa: ARG001
    """The best validation value against the learning rate for every group count (figure 3 of the paper)."""
    metric = names.best_metric(evidence.objective.metric)
    tried = {
        strategy: sorted({run.groups for run in _of(evidence, strategy) if run.groups})
        for strategy in evidence.strategies
    }
    grouped = [strategy for strategy, counts in tried.items() if len(counts) > 1]
    if not grouped:
        return None
    figure, axes = new_figure(1, len(grouped)) if len(grouped) < 4 else new_figure(math.ceil(len(grouped) / 2), 2)
    for strategy, place in zip(grouped, axes, strict=False):
        styles = looks([str(count) for count in tried[strategy]])
        for count in tried[strategy]:
            runs = [run for run in _of(evidence, strategy) if run.groups == count]
            _against_lr(place, runs, metric, styles[str(count)], f"{count} groups", evidence)
        place.set(xscale="log", title=strategy, xlabel="learning rate", ylabel=f"best {evidence.objective.metric}")
        _clip(place, 1 if evidence.objective.mode == "min" else -1)
        place.legend()
    for place in axes[len(grouped) :]:
        place.set_visible(False)
    described = "; ".join(f"{strategy} with {', '.join(map(str, tried[strategy]))} groups" for strategy in grouped)
    return Drawing(
        "groups", "How many groups", f"Best validation value against the learning rate: {described}.", figure
    )


def learning_curves(evidence: Evidence, results: Results) -> Drawing | None:
    """The objective over epochs, and over updates."""
    figure, axes = new_figure(1, 2)
    styles, said = looks(evidence.strategies), []
    for strategy, runs in results.runs.items():
        curves = [evidence.history(run, evidence.objective.metric) for run in runs]
        epochs = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
        if not epochs:
            continue
        values = [[curve[epoch] for curve in curves] for epoch in epochs]
        updates = evidence.history(runs[0], "updates")
        label = results.label(strategy)
        band(axes[0], epochs, values, styles[strategy], label)
        band(axes[1], [updates.get(epoch, math.nan) for epoch in epochs], values, styles[strategy], label)
        said.append(f"{label} ends at {statistics.fmean(values[-1]):.4g}")
    if not said:
        return None
    axes[0].set(xlabel="epoch", ylabel=evidence.objective.metric)
    axes[1].set(xlabel="updates")
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    for place in axes:
        _clip(place, 1 if evidence.objective.mode == "min" else -1)
    legend_below(figure, axes[0])
    return Drawing(
        "learning-curves",
        "Learning curves of the best configs",
        f"{evidence.objective.metric} over epochs and over updates, mean and deviation over seeds: {'; '.join(said)}.",
        figure,
    )


def paths(evidence: Evidence, results: Results) -> Drawing | None:  # noqa: ARG001
    """The distance covered against the distance from the start, epoch by epoch, at the common learning rate."""
    found = evidence.paths()
    if not found:
        return None
    figure, (axes,) = new_figure()
    styles, said = looks(evidence.strategies), []
    counts = sorted({runs[0].groups or 0 for runs in found.values()}, reverse=True)
    for name, runs in found.items():
        total, away = (evidence.history(runs[0], metric) for metric in ("path/total", "path/from_start"))
        epochs = sorted(total.keys() & away.keys())
        if not epochs:
            continue
        look = styles[runs[0].strategy]
        axes.plot(
            [0.0, *(away[epoch] for epoch in epochs)],
            [0.0, *(total[epoch] for epoch in epochs)],
            color=look.color, marker=look.marker, markersize=4, label=name,
            linestyle=LINES[counts.index(runs[0].groups or counts[0]) % len(LINES)],
        )  # fmt: skip
        said.append(f"{name} covers {total[epochs[-1]]:.4g} and ends {away[epochs[-1]]:.4g} away")
    if not said:
        return None
    axes.set(xlabel="distance from the start", ylabel="distance covered")
    legend_below(figure, axes)
    title = f"The path of the shared weights at learning rate {evidence.common_lr:.4g}, one point per epoch"
    return Drawing(
        "paths", title, f"Distance covered against distance from the start, one seed: {'; '.join(said)}.", figure
    )


def quality_and_cost(evidence: Evidence, results: Results) -> Drawing | None:  # noqa: ARG001
    """Quality against training time with its Pareto front, group counts labelled."""
    metric, sign = names.best_metric(evidence.objective.metric), 1 if evidence.objective.mode == "min" else -1
    points: list[tuple[float, float, str, str]] = []
    whole = [run for run in [*evidence.trials, *evidence.confirmed(names.CONFIRM)] if run.outcome == "completed"]
    by_variant: dict[tuple[str, str], list[Trained]] = {}
    for run in whole:
        if metric in run.metrics and "seconds" in run.metrics:
            by_variant.setdefault((run.strategy, run.variant), []).append(run)
    for (strategy, name), runs in by_variant.items():
        best = min(runs, key=lambda run: sign * run.metrics[metric])
        points.append((best.metrics["seconds"], best.metrics[metric], strategy, name))
    if not points:
        return None
    figure, (axes,) = new_figure()
    styles = looks(evidence.strategies)
    for seconds, value, strategy, name in points:
        look = styles[strategy]
        axes.plot(seconds, value, color=look.color, marker=look.marker, linestyle="none", label=strategy)
        groups = name.partition(" (")[2].rstrip(")")
        axes.annotate(groups, (seconds, value), textcoords="offset points", xytext=(6, 4), fontsize=8)
    front = pareto([(seconds, sign * value) for seconds, value, *_ in points])
    axes.step(
        [x for x, _ in front],
        [sign * y for _, y in front],
        where="post",
        color="0.5",
        linewidth=1,
        label="Pareto front",
    )
    axes.set(xlabel="seconds of training", ylabel=f"best {evidence.objective.metric}")
    legend_below(figure, axes)
    on_front = [name for seconds, value, _, name in points if (seconds, sign * value) in front]
    return Drawing(
        "quality-and-cost",
        "Quality against cost",
        f"Best {evidence.objective.metric} of whole runs against their seconds; on the front: {', '.join(on_front)}.",
        figure,
    )


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other beats in both (less is better), by the first."""
    front: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _hollow(evidence: Evidence) -> str:
    return " (hollow: stopped early)" if any(run.outcome == "stopped_early" for run in evidence.trials) else ""


def _of(evidence: Evidence, strategy: str) -> list[Trained]:
    return [run for run in evidence.trials if run.strategy == strategy and run.ranked]


def _against_lr(
    axes: "Axes", runs: Sequence[Trained], metric: str, look: Look, label: str, evidence: Evidence
) -> str | None:
    """Draw ``metric`` against the learning rate; returns the best in words, or None if there is nothing.

    Learning rates that several configs share are joined to a line, with a band over seeds: at each of them stands the
    config that does best there on average. Others are points, hollow where the trial was stopped early.
    """
    known = [run for run in runs if metric in run.metrics]
    if not known:
        return None
    sign = -1 if evidence.mode(metric.removeprefix("best/val/")) == "max" else 1
    configs: dict[float, dict[str, list[float]]] = {}
    for run in known:
        rest = repr(sorted((key, repr(value)) for key, value in run.config.items() if key != "seed"))
        configs.setdefault(run.lr, {}).setdefault(rest, []).append(run.metrics[metric])
    grid = evidence.settings.get("algorithm") == "grid"
    if grid:
        rates = sorted(configs)
        best = [min(configs[rate].values(), key=lambda found: sign * statistics.fmean(found)) for rate in rates]
        band(axes, rates, best, look, label)
    else:
        for early in (True, False):
            chosen = [run for run in known if (run.outcome == "stopped_early") is early]
            axes.plot(
                [run.lr for run in chosen],
                [run.metrics[metric] for run in chosen],
                linestyle="none", marker=look.marker, markersize=5, color=look.color,
                markerfacecolor="none" if early else look.color,
                label=label if chosen and (not early or len(chosen) == len(known)) else None,
            )  # fmt: skip
    rate, value = min(
        ((rate, statistics.fmean(found)) for rate, several in configs.items() for found in several.values()),
        key=lambda pair: sign * pair[1],
    )
    return f"{label} {value:.4g} at {rate:.4g}"


def _clip(axes: "Axes", sign: int) -> None:
    """Leave out what is many times worse than the rest: it would flatten all else. ``sign``: 1 if less is better."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()] or [np.empty(0)])
    values = sign * drawn[np.isfinite(drawn)]
    if len(values) < 4:
        return
    best, middle = float(values.min()), float(np.median(values))
    limit = middle + 3 * (middle - best)
    if limit > best and values.max() > limit:
        axes.set_ylim(*sorted((sign * (best - 0.05 * (limit - best)), sign * limit)))
        axes.set_title(f"{'higher' if sign > 0 else 'lower'} values are cut off", loc="right", fontsize=8)
