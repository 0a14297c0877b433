"""The figures about groups: quality against their number, and every draw of them with every seed."""

import math
import statistics

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from tune_mtl.reporting.figures.style import Drawing, Looks, band, fit_values, legend_below, new_figure
from tune_mtl.reporting.groups import best_counts, lucks, reached
from tune_mtl.reporting.results import Results

_MOST = 4
"""So many factorials are drawn; a table has all of them."""


def best_counts_drawn(results: Results, styles: Looks) -> Drawing | None:
    """Draw the best validation value against the number of groups, with its band over tunings or seeds."""
    search = results.search
    found = best_counts(search)
    if not found:
        return None
    figure, (axes,) = new_figure()
    every: set[int] = set()
    said = []
    for strategy in (name for name in styles if name in found):
        values = {count: list(units.values()) for count, units in sorted(reached(search, strategy).items())}
        band(axes, list(values), list(values.values()), styles[strategy], strategy)
        every |= set(values)
        best = found[strategy]
        said.append(f"{strategy} is best with {best.best} groups, interval {best.low} to {best.high}")
    axes.set(xscale="log", xlabel="number of groups", ylabel=f"validation {search.quality}")
    axes.xaxis.set_major_locator(FixedLocator(sorted(every)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    fit_values([axes], search.sign)
    legend_below(figure, axes)
    unit = "seeds of the grid" if search.settings.get("algorithm") == "grid" else "tunings"
    return Drawing(
        "group-counts",
        "Quality against the number of groups",
        f"{search.objective.metric} against the number of groups: {'; '.join(said)}.",
        figure,
        f"At the best learning rate of each count. Mean over {unit}; bands: one standard deviation."
        " The table says which counts are told to be worse.",
    )


def lucks_drawn(results: Results, styles: Looks) -> Drawing | None:
    """Draw every run of the factorials: the draw along the axis, a line for each seed, the mean of each draw."""
    search = results.search
    found = [luck for luck in lucks(search) if luck.parts is not None and luck.layout.strategy in styles][:_MOST]
    if not found:
        return None
    columns = min(2, len(found))
    figure, axes = new_figure(math.ceil(len(found) / 2), columns, height=2.3, sharey=True)
    said = []
    for luck, place in zip(found, axes, strict=False):
        rows, color = luck.layout.values(search.quality), styles[luck.layout.strategy].color
        order = sorted(range(len(rows)), key=lambda row: search.sign * statistics.fmean(rows[row]))
        x = list(range(1, len(rows) + 1))
        for seed in range(len(luck.layout.seeds)):
            place.plot(x, [rows[row][seed] for row in order], color=color, alpha=0.35, linewidth=1, label="one seed")
        means = [statistics.fmean(rows[row]) for row in order]
        place.plot(x, means, color=color, marker="D", linewidth=0, markersize=5, label="mean of the draw")
        place.set_title(luck.name)
        place.set_xlabel("draw of groups, the best first")
        place.xaxis.set_major_locator(MaxNLocator(integer=True))
        said.append(luck.sentence)
    for place in axes[len(found) :]:
        place.set_visible(False)
    axes[0].set_ylabel(f"{found[0].metric.removeprefix('best/').partition('/')[0]} {search.quality}")
    legend_below(figure, *axes[: len(found)])
    return Drawing(
        "group-luck",
        "Draws of groups crossed with seeds",
        " ".join(said),
        figure,
        "Every run of one config. Steep means: the draw matters; lines far apart: the seed does; lines that cross:"
        " which draw suits which seed.",
    )
