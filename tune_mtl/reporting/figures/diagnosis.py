"""What trials saw of their tasks' gradients: who agrees with whom, how many conflict, who dominates, what moves."""

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tune_mtl.reporting.figures.style import (
    WIDTH,
    Drawing,
    Looks,
    band,
    fit_values,
    legend_below,
    new_figure,
    short,
    style,
)
from tune_mtl.reporting.part import Part
from tune_mtl.reporting.results import Results
from tune_mtl.results.search_data import SearchData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]

_FEW = 6
"""Up to so many tasks, cosines are written into their fields, and strategies stand side by side."""
_LEAST_SCALE = 0.1
"""The colours' scale ends no sooner: a cosine of 0.01 is no strong colour."""
_LAYER = "path/layer/"


@dataclass(frozen=True)
class Affinities:
    """The cosines of one trial: ``[N, N]`` at the end, and as the mean over all looks; NaN where not defined."""

    strategy: str
    tasks: Sequence[str]
    last: Matrix
    mean: Matrix

    @classmethod
    def of(cls, strategy: str, seen: Mapping[str, Any]) -> "Affinities | None":
        """Read what a trial has kept; None if it has not looked."""
        epochs = sorted(seen.get("cosines", {}), key=int)
        if not epochs:
            return None
        every = np.array([seen["cosines"][epoch] for epoch in epochs], dtype=np.float64)
        defined = np.isfinite(every).sum(axis=0)
        mean = np.where(defined > 0, np.nansum(every, axis=0) / np.maximum(defined, 1), np.nan)
        return cls(strategy, list(seen["tasks"]), every[-1], mean)

    @cached_property
    def joined(self) -> Matrix:
        """Above the diagonal what was at the end, below it the mean."""
        above = np.triu(np.ones(self.last.shape, dtype=bool))
        return np.where(above, self.last, self.mean)

    def in_words(self) -> str:
        """Return the pairs that agree most and least."""
        pairs = {
            (one, other): self.mean[one, other]
            for one in range(len(self.tasks))
            for other in range(one)
            if math.isfinite(self.mean[one, other])
        }
        if not pairs:
            return f"{self.strategy}: no pair is defined"
        (a, b), (c, d) = max(pairs, key=lambda pair: pairs[pair]), min(pairs, key=lambda pair: pairs[pair])
        return (
            f"{self.strategy}: mean cosine from {pairs[c, d]:.2g} ({self.tasks[c]} and {self.tasks[d]})"
            f" to {pairs[a, b]:.2g} ({self.tasks[a]} and {self.tasks[b]})"
        )


def diagnosis_part(results: Results, styles: Looks) -> Part | None:
    """Return what was diagnosed, as a part of the page; None where no trial was."""
    diagnosed = any(name.startswith("diagnosis/") for run in results.search.trials for name in run.metrics)
    if not diagnosed:
        return None
    makers: list[Callable[[Results, Looks], Drawing | None]] = [conflicts, layers]
    with style():
        drawn = [*affinities(results, styles), *(make(results, styles) for make in makers)]
    return Part("Gradients of the tasks", (), drawings=[drawing for drawing in drawn if drawing is not None])


def affinities(results: Results, styles: Looks) -> list[Drawing]:
    """Draw the cosines between tasks of each strategy's best trial: one figure for few tasks, else one for each."""
    search = results.search
    seen = {name: search.diagnosis(search.winners[name].run_id) for name in styles if name in search.winners}
    found = [one for name in seen if (one := Affinities.of(name, seen[name])) is not None]
    if not found:
        return []
    order = _order(found)
    limit = max(_LEAST_SCALE, *(float(np.nanmax(np.abs(one.joined), initial=0.0)) for one in found))
    if len(order) <= _FEW:
        return [_affinity(found, order, limit, search, "affinities", "Do tasks' gradients agree?")]
    titled = [(one, f"Do tasks' gradients agree? {one.strategy}") for one in found]
    return [_affinity([one], order, limit, search, f"affinities-{one.strategy}", title) for one, title in titled]


def _affinity(
    found: Sequence[Affinities], order: Sequence[int], limit: float, search: SearchData, key: str, title: str
) -> Drawing:
    count, columns = len(order), min(2, len(found))
    height = 0.55 + count * (0.115 if count > 20 else 0.16 if count > _FEW else 0.22)
    figure, axes = new_figure(math.ceil(len(found) / columns), columns, height=height + 0.1)
    figure.set_figwidth(WIDTH)
    size = 7 if count > 20 else 8
    colors = mpl.colormaps["RdBu"].with_extremes(bad=(0, 0, 0, 0))
    image = None
    for one, place in zip(found, axes, strict=False):
        fields = one.joined[np.ix_(order, order)] if list(order) == sorted(order) else _joined(one, order)
        image = place.imshow(fields, cmap=colors, vmin=-limit, vmax=limit, aspect="auto", interpolation="none")
        named = [f"{short(one.tasks[task], 20)} {index}" for index, task in enumerate(order, 1)]
        place.set_yticks(range(count), named, fontsize=size)
        place.set_xticks(range(count), map(str, range(1, count + 1)), fontsize=6 if count > 20 else size)
        place.tick_params(length=0, labelrotation=0)
        place.tick_params(axis="x", labelrotation=90 if count > 20 else 0)
        place.grid(visible=False)
        for spine in place.spines.values():
            spine.set_visible(False)
        if len(found) > 1:
            place.set_title(one.strategy)
        if count <= _FEW:
            _write(place, fields, limit)
    for place in axes[len(found) :]:
        place.set_visible(False)
    assert image is not None
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", fraction=0.04, aspect=40)
    bar.outline.set_visible(False)
    bar.set_label("cosine: red conflict, blue agree")
    figure.set_figheight(figure.get_figheight() + 0.35)
    ordered = "" if list(order) == sorted(order) else " Tasks stand beside those that they agree with."
    return Drawing(
        key,
        title,
        f"Cosines between the tasks' gradients. {'; '.join(one.in_words() for one in found)}.",
        figure,
        "Cosines between the gradients of two tasks over the shared weights, on a fixed validation batch, in the best"
        " trial of each strategy. Above the diagonal: at its last look; below: the mean over all looks. Empty: not"
        f" defined.{ordered}{_without(search, [one.strategy for one in found])}",
    )


def _joined(one: Affinities, order: Sequence[int]) -> Matrix:
    """Return the fields in another order of the tasks, the end still above the diagonal."""
    at = np.ix_(order, order)
    return Affinities(one.strategy, one.tasks, one.last[at], one.mean[at]).joined


def _write(place: "Axes", fields: Matrix, limit: float) -> None:
    for (row, column), value in np.ndenumerate(fields):
        if math.isfinite(value):
            ink = "#ffffff" if abs(value) > 0.6 * limit else "#111111"
            place.text(column, row, f"{round(value, 2) + 0:.2f}", ha="center", va="center", fontsize=6.5, color=ink)


def _order(found: Sequence[Affinities]) -> list[int]:
    """Return the order of the tasks: as the problem has them where they are few, else by affinity."""
    count = len(found[0].tasks)
    if count <= _FEW:
        return list(range(count))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    mean = np.nan_to_num(np.mean([np.nan_to_num(one.mean) for one in found], axis=0))
    distance = 1 - (mean + mean.T) / 2
    np.fill_diagonal(distance, 0.0)
    return [int(leaf) for leaf in leaves_list(linkage(squareform(distance), "average", optimal_ordering=True))]


def conflicts(results: Results, styles: Looks) -> Drawing | None:
    """Draw the share of conflicting pairs and the spread of norms over epochs, for each strategy."""
    search = results.search
    metrics = ("diagnosis/conflict_share", "diagnosis/norm_spread")
    figure, axes = new_figure(1, 2, height=2.3)
    said: dict[str, str] = {}
    for strategy in (name for name in styles if name in results.runs):
        for metric, place in zip(metrics, axes, strict=True):
            curves = [curve for run in results.runs[strategy] if (curve := search.history(run, metric))]
            epochs = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
            if not epochs:
                continue
            values = [[curve[epoch] for curve in curves] for epoch in epochs]
            band(place, epochs, values, styles[strategy], results.label(strategy))
            if metric == metrics[0]:
                mean = statistics.fmean(value for several in values for value in several)
                said[strategy] = f"{results.label(strategy)} {mean:.0%} of pairs"
    if not said:
        return None
    axes[0].set(xlabel="epoch", ylabel="conflicting pairs", ylim=(-0.03, 1.03))
    axes[1].set(xlabel="epoch", ylabel="largest / smallest norm")
    for place in axes:
        place.xaxis.set_major_locator(MaxNLocator(integer=True))
    fit_values([axes[1]], 1)
    legend_below(figure, *axes)
    return Drawing(
        "conflicts",
        "Conflicts and domination over epochs",
        f"Share of task pairs whose gradients point against each other, mean over epochs: {'; '.join(said.values())}.",
        figure,
        "Left: the share of task pairs with a negative cosine. Right: the largest of the tasks' gradient norms over the"
        " smallest, weighted as training weighs their losses. Measured at the weights where each strategy is, so"
        f" differences may follow from how far it has come.{_without(search, said)}",
    )


def layers(results: Results, styles: Looks) -> Drawing | None:
    """Draw how far each layer of the trunk moved, for each strategy."""
    found: dict[str, dict[str, float]] = {}
    for strategy in (name for name in styles if name in results.runs):
        values: dict[str, list[float]] = {}
        for run in results.runs[strategy]:
            for name, value in run.metrics.items():
                if name.startswith(_LAYER):
                    values.setdefault(name.removeprefix(_LAYER), []).append(value)
        if values:
            found[strategy] = {name: statistics.fmean(several) for name, several in values.items()}
    names = sorted({name for own in found.values() for name in own}, key=_natural)
    if not names:
        return None
    figure, (axes,) = new_figure(height=0.9 + 0.17 * len(names))
    for strategy, own in found.items():
        look, at = styles[strategy], [names.index(name) for name in own]
        axes.plot(
            list(own.values()), at, linestyle="none", marker=look.marker, markersize=4.5, color=look.color,
            label=results.label(strategy),
        )  # fmt: skip
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("path length until the end")
    lengths = [value for own in found.values() for value in own.values()]
    if min(lengths) > 0 and max(lengths) > 5 * min(lengths):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    legend_below(figure, axes)
    most = {strategy: max(own, key=lambda name: own[name]) for strategy, own in found.items()}
    return Drawing(
        "layer-paths",
        "How far each layer moved",
        "Path length of each layer of the shared trunk. Farthest: "
        + "; ".join(f"{strategy} {found[strategy][name]:.3g} in {name}" for strategy, name in most.items())
        + ".",
        figure,
        "The sum over all updates of how far a layer's weights moved, until the end of each run, each at its own"
        " learning rate: a larger rate alone makes a longer path. BatchNorm aside.",
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts ``block.10`` after ``block.9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def _without(search: SearchData, shown: Sequence[str] | Mapping[str, str]) -> str:
    """Say who has no shared trunk, and so no gradients that meet."""
    alone = [name for name in search.strategies if name not in shown and not search.shares_trunk(name)]
    return f" {', '.join(alone)}: no shared trunk, so nothing to compare." if alone else ""
