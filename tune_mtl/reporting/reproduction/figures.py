"""The paper's three figures: validation losses against the learning rate, of all tasks, of each, and by group count."""

import math
from dataclasses import replace

from tune_mtl.reporting.claims import BASE, INDIVIDUAL
from tune_mtl.reporting.figures.plots import against_lr, reading
from tune_mtl.reporting.figures.style import (
    LINES,
    MARKERS,
    Drawing,
    Looks,
    fit_values,
    learning_rate_axis,
    legend_below,
    new_figure,
    short,
    style,
)
from tune_mtl.reporting.reproduction.places import METHODS, Place, method
from tune_mtl.tracking import names

_MOST_TASKS = 11
_SHOWN = (BASE, *INDIVIDUAL)


def losses_figure(place: Place, styles: Looks) -> Drawing | None:
    """Draw figure 1 or 2: the averaged loss, then every task's, of SUS, IUS and IO."""
    search = place.found.search
    averaged = names.best_metric(search.objective.metric)
    panels = {} if place.tasks else {f"all tasks: {search.quality}": averaged}
    panels |= {short(task): names.best_metric(f"val/loss/{task}") for task in place.shown[:_MOST_TASKS]}
    columns = min(2 if len(panels) <= 6 else 3, len(panels))
    with style():
        figure, axes = new_figure(math.ceil(len(panels) / columns), columns, height=2.0)
        said = []
        for panel, (title, metric) in zip(axes, panels.items(), strict=False):
            for name in _SHOWN:
                runs = [run for run in search.trials if run.strategy == name and run.ranked]
                told = against_lr(panel, runs, metric, styles[name], method(name), search) if runs else None
                said += [f"{title}: {told}"] if told else []
            panel.set_title(title)
            learning_rate_axis(panel, "learning rate")
            fit_values([panel], search.sign if metric == averaged else 1)
        for panel in axes[len(panels) :]:
            panel.set_visible(False)
        if not said:
            return None
        figure.supylabel("validation loss", fontsize=9)
        legend_below(figure, *axes[: len(panels)])
    return Drawing(
        f"figure-{place.number}",
        f"Figure {place.number}: best averaged and task-specific validation losses, {place.title}",
        f"Best values against the learning rate: {'; '.join(said)}.",
        figure,
        f"At each trial's best epoch. {reading(search)}",
    )


def groups_figure(place: Place, styles: Looks) -> Drawing | None:
    """Draw figure 3: the averaged loss of IUS (left) and of IO (right) by their number of groups, beside SUS."""
    search = place.found.search
    metric = names.best_metric(search.objective.metric)
    ranked = [run for run in search.trials if run.ranked]
    counts = sorted({run.groups for run in ranked if run.strategy in INDIVIDUAL and run.groups})
    if not counts:
        return None
    with style():
        figure, axes = new_figure(1, 2, height=2.5, sharex=True, sharey=True)
        said = []
        for panel, strategy in zip(axes, INDIVIDUAL, strict=True):
            base = [run for run in ranked if run.strategy == BASE]
            told = [against_lr(panel, base, metric, styles[BASE], method(BASE), search)] if base else []
            for index, count in enumerate(counts):
                runs = [run for run in ranked if run.strategy == strategy and run.groups == count]
                look = replace(styles[strategy], marker=MARKERS[index % len(MARKERS)], line=LINES[index % len(LINES)])
                label = f"{method(strategy)}, {count} group{'s' if count > 1 else ''}"
                told += [against_lr(panel, runs, metric, look, label, search)] if runs else []
            panel.set_title(METHODS[strategy])
            learning_rate_axis(panel, "learning rate")
            said += [text for text in told if text]
        axes[0].set_ylabel(f"validation {search.quality}")
        fit_values(axes, search.sign)
        legend_below(figure, *axes)
    return Drawing(
        f"figure-{place.number}",
        f"Figure {place.number}: best averaged validation losses by number of task groups, {place.title}",
        f"Best values against the learning rate: {'; '.join(dict.fromkeys(said))}.",
        figure,
        f"Left IUS, right IO, both beside SUS. At each trial's best epoch. {reading(search)}",
    )
