"""What a search tried, strategy by strategy, and what trying more would bring."""

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.ticker import LogLocator, MaxNLocator

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.coverage import Coverage
from tune_mtl.reporting.figures.style import (
    Drawing,
    Look,
    Looks,
    fit_values,
    learning_rate_axis,
    legend_below,
    new_figure,
    short,
)
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.tables.number_format import number
from tune_mtl.results.search_data import SearchData, Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 100
"""From so many trials of a strategy on, their points are small."""


def what_was_tried(results: Results, styles: Looks) -> Drawing | None:
    """Draw learning rate and quality of every trial, a panel for each strategy."""
    search = results.search
    tried = _covered(search, styles)
    if len({run.lr for coverage in tried for run in coverage.ended}) < 2 or not any(
        coverage.good for coverage in tried
    ):
        return None
    columns = 1 if len(tried) == 1 else 2 if len(tried) in (2, 4) else 3
    rows = math.ceil(len(tried) / columns)
    figure, axes = new_figure(rows, columns, height=2.3 if rows == 1 else 1.7, sharex=True, sharey=True)
    places = axes[: len(tried)]
    for coverage, place in zip(tried, places, strict=True):
        _points(place, coverage, styles[coverage.strategy])
    fit_values(places, search.sign)
    for coverage, place in zip(tried, places, strict=True):
        _surroundings(place, coverage, styles[coverage.strategy], search.sign)
        above = search.sign > 0 and any(other.lost for other in tried)
        place.set_title(short(coverage.strategy, 18), pad=11 if above else 6)
    for index, place in enumerate(places):
        last = index + columns >= len(tried)
        learning_rate_axis(place, "learning rate" if last else "")
        place.tick_params(labelbottom=last)
        if columns > 2:  # few decades have room for a label, but all have a line
            place.xaxis.set_minor_locator(LogLocator(numticks=_MANY))
            place.grid(which="minor", axis="x")
        if index % columns == 0:
            place.set_ylabel(f"validation {search.quality}")
    for place in axes[len(tried) :]:
        place.set_visible(False)
    _key(places[0], tried)
    legend_below(figure, places[0])
    return Drawing(
        "coverage",
        "What was tried",
        f"Learning rate and {search.objective.metric} of every trial. {'; '.join(map(_in_words, tried))}.",
        figure,
        "Every trial at its best validation epoch, a panel for each strategy."
        " A best at an edge, or alone, may not be the best there is.",
    )


def expected_bests(results: Results, styles: Looks) -> Drawing | None:
    """Draw the expected best of n trials against n."""
    search = results.search
    curves = {coverage.strategy: curve for coverage in _covered(search, styles) if (curve := coverage.expected())}
    if max(map(len, curves.values()), default=0) < 2:
        return None
    figure, (axes,) = new_figure()
    for strategy, curve in curves.items():
        look = styles[strategy]
        every = max(1, len(curve) // 10)
        drawn: Any = {"linestyle": look.line, "marker": look.marker, "markersize": 3.5, "color": look.color}
        axes.plot(range(1, len(curve) + 1), curve, label=strategy, markevery=every, **drawn)
    axes.set(xlabel="trials of a strategy", ylabel=f"expected best validation {search.quality}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    fit_values([axes], search.sign)
    legend_below(figure, axes)
    said = [
        f"{strategy} from {number(curve[0])} with one trial to {number(curve[-1])} with {len(curve)}"
        for strategy, curve in curves.items()
    ]
    return Drawing(
        "expected-best",
        "Expected best against number of trials",
        f"Expected best {search.objective.metric} of so many trials: {'; '.join(said)}.",
        figure,
        "On validation, of n trials drawn at random from all trials of a strategy; diverged and failed ones count as"
        " its worst. A line that still moves at its end asks for more trials; lines that cross say that the ranking"
        " depends on how many there are.",
    )


def _covered(search: SearchData, styles: Looks) -> list[Coverage]:
    """Return the strategies of which a trial has ended, in the same order as everywhere."""
    every = [Coverage.of(search, name) for name in styles if name in search.strategies]
    return [coverage for coverage in every if coverage.ended]


def _points(place: "Axes", coverage: Coverage, look: Look) -> None:
    """Draw the trials that have a result: hollow where they were stopped early."""
    size = 4.5 if len(coverage.good) < _MANY else 2.5
    for early in (True, False):
        chosen = [run for run in coverage.good if (run.outcome == Outcome.STOPPED_EARLY) is early]
        place.plot(
            [run.lr for run in chosen], [coverage.value(run) for run in chosen],
            linestyle="none", marker="o", markersize=size, color=look.color, alpha=0.8,
            markerfacecolor="none" if early else look.color, markeredgewidth=0.9 if early else 0,
        )  # fmt: skip


def _surroundings(place: "Axes", coverage: Coverage, look: Look, sign: int) -> None:
    """Draw the edges of what was searched, lost trials and the best; when the axes have their scale."""
    for edge in () if coverage.searched is None else (coverage.searched.low, coverage.searched.high):
        place.axvline(edge, color=_ink(), linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)
    if coverage.lost:
        worst = 1.06 if sign > 0 else 0.05  # of the axes: just above them, or just above their lower end
        across = place.get_xaxis_transform()
        rates = [run.lr for run in coverage.lost]
        place.plot(rates, [worst] * len(rates), color=look.color, transform=across, clip_on=False, **_CROSS)
    _rings(place, coverage)


def _rings(place: "Axes", coverage: Coverage) -> None:
    """Draw rings around the winner of every tuning, and a stronger one around the best of all."""
    won = coverage.winners()
    if len(won) > 1:
        _ring(place, won, coverage, **_THIN)
    best = [run for run in coverage.good if coverage.best is not None and run.run_id == coverage.best.run_id]
    _ring(place, best, coverage, **_THICK)


def _ring(place: "Axes", runs: list[Trained], coverage: Coverage, **drawn: Any) -> None:
    low, high = place.get_ylim()
    seen = [run for run in runs if low <= coverage.value(run) <= high]  # whole at the frame, but not beyond it
    if seen:
        place.plot(
            [run.lr for run in seen], [coverage.value(run) for run in seen], color=_ink(), clip_on=False, **drawn
        )


def _key(place: "Axes", tried: list[Coverage]) -> None:
    """Draw what the signs mean, in no strategy's colour."""
    dot: Any = {"linestyle": "none", "marker": "o", "markersize": 4.5, "color": _ink()}
    place.plot([], [], label="trial", markeredgewidth=0, **dot)
    if any(run.outcome == Outcome.STOPPED_EARLY for coverage in tried for run in coverage.good):
        place.plot([], [], label="stopped early", markerfacecolor="none", **dot)
    if any(coverage.lost for coverage in tried):
        place.plot([], [], label="diverged or failed", color=_ink(), **_CROSS)
    place.plot([], [], label="best", color=_ink(), **_THICK)
    if any(len(coverage.winners()) > 1 for coverage in tried):
        place.plot([], [], label="best of each tuning", color=_ink(), **_THIN)
    if any(coverage.searched for coverage in tried):
        place.plot([], [], label="edges of the search", color=_ink(), linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)


def _in_words(coverage: Coverage) -> str:
    counted = f"{coverage.strategy}: {len(coverage.ended)} trials"
    counted += f", {len(coverage.lost)} of them diverged or failed" if coverage.lost else ""
    if coverage.searched is not None:
        counted += f", searched from {coverage.searched}"
    if coverage.best is None:
        return f"{counted}, none ended well"
    return f"{counted}, the best {number(coverage.best.value)} at {number(float(coverage.best.config['lr']))}"


def _ink() -> str:
    """Return the page's own text colour."""
    return str(mpl.rcParams["text.color"])


_CROSS: Any = {"linestyle": "none", "marker": "x", "markersize": 4.5, "markeredgewidth": 1.1}
_THICK: Any = {"linestyle": "none", "marker": "o", "markersize": 8.5, "markerfacecolor": "none", "markeredgewidth": 1.3}
_THIN: Any = {"linestyle": "none", "marker": "o", "markersize": 7, "markerfacecolor": "none", "markeredgewidth": 0.7}
