"""The figures of a report; each is drawn if there is something to draw."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.figures.coverage import expected_bests, what_was_tried
from tune_mtl.reporting.figures.groups import best_counts_drawn, lucks_drawn
from tune_mtl.reporting.figures.style import (
    LINES,
    MARKERS,
    Drawing,
    Look,
    Looks,
    band,
    fit_values,
    learning_rate_axis,
    legend_below,
    looks,
    new_figure,
    short,
    style,
)
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.pareto import quality_and_cost
from tune_mtl.results.search_data import SearchData, Trained, without_seed
from tune_mtl.tracking import names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_TASKS = 12


def draw_all(results: Results, styles: Looks | None = None) -> list[Drawing]:
    """Draw all that the data allow, in the order of the page; ``styles`` are those of all strategies on it."""
    search = results.search
    makers: list[Callable[[Results, Looks], Drawing | None]] = [
        learning_rates, what_was_tried, expected_bests, task_learning_rates, group_counts, best_counts_drawn,
        lucks_drawn, learning_curves, paths, quality_and_cost,
    ]  # fmt: skip
    with style():
        drawn = [make(results, styles or looks(search.strategies)) for make in makers]
    return [drawing for drawing in drawn if drawing is not None]


def learning_rates(results: Results, styles: Looks) -> Drawing | None:
    """Draw the best validation value against the learning rate (figures 1 and 2 of the paper)."""
    search = results.search
    metric = names.best_metric(search.objective.metric)
    figure, (axes,) = new_figure()
    said = [
        text
        for strategy in _in_order(search, styles)
        if (text := against_lr(axes, _of(search, strategy), metric, styles[strategy], strategy, search))
    ]
    if not said:
        return None
    axes.set_ylabel(f"validation {search.quality}")
    learning_rate_axis(axes, "learning rate")
    fit_values([axes], search.sign)
    legend_below(figure, axes)
    return Drawing(
        "learning-rates",
        "Quality against the learning rate",
        f"{search.objective.metric} at the best epoch of each trial. Best of each strategy: {'; '.join(said)}.",
        figure,
        f"Validation, at each trial's best epoch. {reading(search)}",
    )


def task_learning_rates(results: Results, styles: Looks) -> Drawing | None:
    """Draw the best value of every task's loss against the learning rate."""
    search = results.search
    tasks = search.tasks[:_MOST_TASKS]
    if len(tasks) < 2:
        return None
    columns = 2 if len(tasks) <= 4 else 3
    figure, axes = new_figure(math.ceil(len(tasks) / columns), columns, height=1.6 if len(tasks) > columns else 2.3)
    drawn = False
    for task, place in zip(tasks, axes, strict=False):
        for strategy in _in_order(search, styles):
            metric = names.best_metric(f"val/loss/{task}")
            drawn |= bool(against_lr(place, _of(search, strategy), metric, styles[strategy], strategy, search))
        place.set_title(short(task, 24 if columns == 2 else 16))
        learning_rate_axis(place)
        fit_values([place], 1)
    for place in axes[len(tasks) :]:
        place.set_visible(False)
    if not drawn:
        return None
    for place in axes[max(0, len(tasks) - columns) : len(tasks)]:
        place.set_xlabel("learning rate")
    figure.supylabel("validation loss", fontsize=9)
    legend_below(figure, *axes)
    more = f" The first {_MOST_TASKS} of {len(search.tasks)} tasks." if len(search.tasks) > _MOST_TASKS else ""
    return Drawing(
        "task-learning-rates",
        "The same, task by task",
        f"Validation loss of {', '.join(tasks)} against the learning rate, for {', '.join(search.strategies)}.{more}",
        figure,
        f"Every task's loss at each trial's best epoch.{more} {reading(search)}",
    )


def group_counts(results: Results, styles: Looks) -> Drawing | None:
    """Draw the best validation value against the learning rate for every group count (figure 3 of the paper)."""
    search = results.search
    metric = names.best_metric(search.objective.metric)
    tried = {
        strategy: sorted({run.groups for run in _of(search, strategy) if run.groups})
        for strategy in _in_order(search, styles)
    }
    grouped = [strategy for strategy, counts in tried.items() if len(counts) > 1]
    if not grouped:
        return None
    every = sorted({count for strategy in grouped for count in tried[strategy]})
    figure, axes = new_figure(math.ceil(len(grouped) / 2), min(2, len(grouped)), height=2.3, sharex=True, sharey=True)
    for strategy, place in zip(grouped, axes, strict=False):
        for count in tried[strategy]:
            index = every.index(count)
            look = replace(styles[strategy], marker=MARKERS[index % len(MARKERS)], line=LINES[index % len(LINES)])
            runs = [run for run in _of(search, strategy) if run.groups == count]
            label = f"{strategy}, {count} group{'s' if count > 1 else ''}"
            against_lr(place, runs, metric, look, label, search)
        place.set_title(strategy)
    for place in axes[: len(grouped)]:
        learning_rate_axis(place, "learning rate")
    axes[0].set_ylabel(f"validation {search.quality}")
    for place in axes[len(grouped) :]:
        place.set_visible(False)
    fit_values(axes[: len(grouped)], search.sign)
    legend_below(figure, *axes[: len(grouped)])
    described = "; ".join(f"{strategy} with {', '.join(map(str, tried[strategy]))} groups" for strategy in grouped)
    return Drawing(
        "groups",
        "How many groups",
        f"Best validation value against the learning rate: {described}.",
        figure,
        f"Validation, at each trial's best epoch. {reading(search)}",
    )


def learning_curves(results: Results, styles: Looks) -> Drawing | None:
    """Draw the objective over epochs, and over updates."""
    search = results.search
    figure, axes = new_figure(1, 2, height=2.3, sharey=True)
    said, several = [], False
    for strategy in (name for name in styles if name in results.runs):
        runs = results.runs[strategy]
        curves = [search.history(run, search.objective.metric) for run in runs]
        epochs = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
        if not epochs:
            continue
        values = [[curve[epoch] for curve in curves] for epoch in epochs]
        updates = search.history(runs[0], "updates")
        label = results.label(strategy)
        band(axes[0], epochs, values, styles[strategy], label)
        band(axes[1], [updates.get(epoch, math.nan) for epoch in epochs], values, styles[strategy], label)
        said.append(f"{label} ends at {statistics.fmean(values[-1]):.4g}")
        several |= len(runs) > 1
    if not said:
        return None
    axes[0].set(xlabel="epoch", ylabel=f"validation {search.quality}")
    axes[1].set(xlabel="updates")
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[1].xaxis.set_major_locator(MaxNLocator(5))
    fit_values(axes, search.sign)
    legend_below(figure, axes[0])
    over = f"over {'fresh seeds' if results.confirmed else 'seeds of the search'}"
    return Drawing(
        "learning-curves",
        "Learning curves of the best configs",
        f"{search.objective.metric} over epochs and over updates, mean and deviation over seeds: {'; '.join(said)}.",
        figure,
        "Left as passes over the data, right as optimizer steps."
        + (f" Mean {over}; bands: one standard deviation." if several else ""),
    )


def paths(results: Results, styles: Looks) -> Drawing | None:
    """Draw the distance covered against the distance from the start, by epoch, at the common learning rate."""
    search = results.search
    found = search.paths()
    figure, (axes,) = new_figure()
    said, farthest = [], 0.0
    counts = sorted({runs[0].groups or 0 for runs in found.values()}, reverse=True)
    for name, runs in found.items():
        total, away = (search.history(runs[0], metric) for metric in ("path/total", "path/from_start"))
        epochs = sorted(total.keys() & away.keys())
        if not epochs:
            continue
        look = styles[runs[0].strategy]
        axes.plot(
            [0.0, *(away[epoch] for epoch in epochs)],
            [0.0, *(total[epoch] for epoch in epochs)],
            color=look.color, marker=look.marker, markersize=3.5, label=name,
            linestyle=LINES[counts.index(runs[0].groups or counts[0]) % len(LINES)],
        )  # fmt: skip
        farthest = max(farthest, away[epochs[-1]])
        said.append(f"{name} covers {total[epochs[-1]]:.4g} and ends {away[epochs[-1]]:.4g} away")
    if not said:
        return None
    axes.plot([0.0, farthest], [0.0, farthest], color="0.5", linewidth=1, linestyle=":", label="straight line")
    axes.set(xlabel="distance from the start", ylabel="distance covered")
    legend_below(figure, axes)
    seed = next(iter(found.values()))[0].config["seed"]
    return Drawing(
        "paths",
        f"The path of the shared weights at learning rate {search.common_lr:.4g}",
        f"Distance covered against distance from the start, one seed: {'; '.join(said)}.",
        figure,
        f"One point per epoch, seed {seed}, the same initial weights for all.",
    )


def reading(search: SearchData) -> str:
    """Say how points, lines and bands are to be read."""
    if search.settings.get("algorithm") == "grid":
        return "Lines: the mean over seeds of the config that does best there; bands: one standard deviation."
    early = any(run.outcome == Outcome.STOPPED_EARLY for run in search.trials)
    return "Hollow: stopped early." if early else ""


def _in_order(search: SearchData, styles: Looks) -> list[str]:
    """Return the search's strategies, in the same order everywhere."""
    return [name for name in styles if name in search.strategies]


def _of(search: SearchData, strategy: str) -> list[Trained]:
    return [run for run in search.trials if run.strategy == strategy and run.ranked]


def against_lr(
    axes: "Axes", runs: Sequence[Trained], metric: str, look: Look, label: str, search: SearchData
) -> str | None:
    """Draw ``metric`` against the learning rate; returns the best in words, or None if there is nothing.

    Learning rates that several configs share are joined to a line, with a band over seeds: at each of them stands the
    config that does best there on average. Others are points, hollow where the trial was stopped early.
    """
    known = [run for run in runs if metric in run.metrics]
    if not known:
        return None
    sign = -1 if search.mode(metric.removeprefix("best/val/")) == "max" else 1
    configs: dict[float, dict[str, list[float]]] = {}
    for run in known:
        configs.setdefault(run.lr, {}).setdefault(without_seed(run.config), []).append(run.metrics[metric])
    if search.settings.get("algorithm") == "grid":
        rates = sorted(configs)
        best = [min(configs[rate].values(), key=lambda found: sign * statistics.fmean(found)) for rate in rates]
        band(axes, rates, best, look, label)
    else:
        drawn: Any = {"linestyle": "none", "marker": look.marker, "markersize": 4.5, "color": look.color}
        for early in (True, False):
            chosen = [run for run in known if (run.outcome == Outcome.STOPPED_EARLY) is early]
            face = "none" if early else look.color
            axes.plot(
                [run.lr for run in chosen], [run.metrics[metric] for run in chosen], markerfacecolor=face, **drawn
            )
        axes.plot([], [], label=label, **drawn)
    rate, value = min(
        ((rate, statistics.fmean(found)) for rate, several in configs.items() for found in several.values()),
        key=lambda pair: sign * pair[1],
    )
    return f"{label} {value:.4g} at {rate:.4g}"
