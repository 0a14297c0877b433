"""How figures look: one palette, one width, colours that everybody can tell apart, and both light and dark pages."""

import io
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from tune_mtl.strategies.registry import registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B58900", "#2E9BD6", "#8C6BB1", "#7F7F7F")
"""Okabe's and Ito's hues, the light ones darker: all stand out from a white page and from a dark one."""
MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
WIDTH = 4.8
"""Inches: a column of a paper, half a desktop's window, and still legible on a phone."""
_LEGEND_LETTERS = 68
_LOG_FROM = 5.0
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""
_FAR = 1e3
_INK = "#010203"
"""Stands for the page's own text colour until the figure is set into a page."""

_STYLE: Any = {
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tune-mtl",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.grid": True,
    "grid.alpha": 0.15,
    "grid.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with what it says.

    Attributes:
        key: The name of its files.
        title: The title, in a line.
        alternative: What it shows, for those who do not see it.
        figure: The figure of Matplotlib.
        note: How to read it.
    """

    key: str
    title: str
    alternative: str
    figure: Figure
    note: str = ""

    @cached_property
    def svg(self) -> str:
        """The drawing as SVG, without a background."""
        return self._saved("svg", facecolor="none").decode()

    def inline(self) -> str:
        """Return the drawing for a page, in the page's own text colour."""
        return re.sub(r"^.*?(?=<svg)", "", self.svg, flags=re.DOTALL).replace(_INK, "currentColor")

    def file(self, kind: str) -> bytes:
        """Return the drawing for papers and slides: ``svg``, ``pdf`` or ``png``, black; the latter two on white."""
        return self.svg.encode() if kind == "svg" else self._saved(kind, facecolor="white")

    def _saved(self, kind: str, facecolor: str) -> bytes:
        written = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        with style():
            self.figure.savefig(written, format=kind, dpi=200, facecolor=facecolor, metadata=metadata)
            self.figure.set_layout_engine("none")  # it is laid out by now: once is enough for all forms
        return written.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """Have figures drawn in our look for the length of a ``with``."""
    with mpl.rc_context(_STYLE):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, height: float = 2.6, sharex: bool = False, sharey: bool = False
) -> "tuple[Figure, list[Axes]]":
    """Return a figure with a grid of axes, row by row; ``height`` is that of a row, legends come on top of it."""
    figure = Figure(figsize=(WIDTH, height * rows + 0.3))
    made = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, [axes for line in made for axes in line]


@dataclass(frozen=True)
class Look:
    """How one strategy is drawn, everywhere in a report."""

    color: str
    marker: str
    line: str


Looks = Mapping[str, Look]


def looks(drawn: Iterable[str]) -> dict[str, Look]:
    """Return a look for each, the same for the same ones in any order; colours repeat after eight, with other lines."""
    order = {name: index for index, name in enumerate(registry)}
    known = sorted(set(drawn), key=lambda name: (order.get(name, len(order)), name))
    return {
        name: Look(PALETTE[index % 8], MARKERS[(index + index // 8) % 8], LINES[index // 8 % 4])
        for index, name in enumerate(known)
    }


def band(axes: "Axes", x: Sequence[float], values: Sequence[Sequence[float]], look: Look, label: str) -> None:
    """Draw the mean over seeds at each ``x``, with a band of one standard deviation where there are several."""
    means = np.array([statistics.fmean(found) for found in values])
    axes.plot(x, means, color=look.color, marker=look.marker, linestyle=look.line, markersize=3.5, label=label)
    if any(len(found) > 1 for found in values):
        spread = np.array([statistics.stdev(found) if len(found) > 1 else 0.0 for found in values])
        axes.fill_between(x, means - spread, means + spread, color=look.color, alpha=0.2, linewidth=0)


def legend_below(figure: Figure, *axes: "Axes") -> None:
    """Put one legend for the whole figure under it."""
    found = [pair for place in axes for pair in zip(*reversed(place.get_legend_handles_labels()), strict=True)]
    if found:
        unique = dict(found)
        fits = sum(len(name) + 6 for name in unique) <= _LEGEND_LETTERS
        most = len(unique) if fits else max(1, _LEGEND_LETTERS // (max(map(len, unique)) + 7))
        rows = math.ceil(len(unique) / most)
        columns = math.ceil(len(unique) / rows)
        figure.set_figheight(figure.get_figheight() + 0.19 * (rows - 1))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=columns, columnspacing=1.4)


def learning_rate_axis(axes: "Axes", label: str = "") -> None:
    """Make an axis logarithmic; within one decade its ticks are written out, and they never touch."""
    lines = [np.asarray(line.get_xdata(), dtype=float) for line in axes.get_lines()]
    rates = np.concatenate([*lines, np.empty(0)])
    axes.set(xscale="log", xlabel=label)
    axes.xaxis.set_minor_formatter(NullFormatter())
    if len(rates) and rates.max() < 10 * rates.min():
        axes.set_xlim(rates.min() / 1.3, rates.max() * 1.3)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def fit_values(places: "Sequence[Axes]", sign: int) -> None:
    """Scale the values' axis of ``places``, which share it. ``sign``: 1 if less is better, -1 if more is.

    Positive values of very different size get a logarithmic one. What is many times worse than the rest is left out,
    and that is said: it would flatten all else.
    """
    lines = [line for place in places for line in place.get_lines()]
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in lines] or [np.empty(0)])
    values = drawn[np.isfinite(drawn)]
    if not len(values):
        return
    if sign > 0 and values.min() > 0 and values.max() >= _LOG_FROM * values.min():
        _logarithmic(places, float(values.min()), float(values.max()))
        limit = _FAR * float(np.median(values))
        if values.max() > limit:
            low = float(values.min())
            _cut(places, low / _margin(low, limit), limit, "higher")
        return
    ordered = sign * values
    best, middle = float(ordered.min()), float(np.median(ordered))
    limit = middle + 3 * (middle - best)
    if len(values) >= 4 and ordered.max() - best > 2 * (limit - best) > 0:
        low, high = sorted((sign * (best - 0.05 * (limit - best)), sign * limit))
        _cut(places, low, high, "higher" if sign > 0 else "lower")


def _logarithmic(places: "Sequence[Axes]", low: float, high: float) -> None:
    """Make axes logarithmic from ``low`` to ``high``, with room for bands."""
    decades = math.log10(high / low)
    for place in places:
        place.set_yscale("log", nonpositive="clip")
        if decades < 4:
            place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5) if decades < 1.5 else (1, 2, 5)))
            place.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            place.yaxis.set_minor_locator(NullLocator())
        place.set_ylim(low / _margin(low, high), high * _margin(low, high))


def _margin(low: float, high: float) -> float:
    """Return the factor that leaves room at both ends of a logarithmic axis."""
    return max(1.2, math.pow(high / low, 0.05))


def _cut(places: "Sequence[Axes]", low: float, high: float, side: str) -> None:
    far = (low - (high - low), high + (high - low)) if places[0].get_yscale() == "linear" else (low / 10, high * 10)
    for place in places:
        place.set_ylim(low, high)
        _keep_near(place, *far)
        place.annotate(
            f"{side} values are cut off", (1, 1), xycoords="axes fraction", ha="right", va="top", fontsize=7,
            xytext=(-2, -2), textcoords="offset points",
        )  # fmt: skip


def _keep_near(place: "Axes", low: float, high: float) -> None:
    """Move what lies far outside of the picture next to it: viewers do not draw coordinates without limit."""
    for line in place.get_lines():
        line.set_ydata(np.clip(np.asarray(line.get_ydata(), dtype=float), low, high))
    for drawn in place.collections:
        for path in drawn.get_paths():
            x, y = np.asarray(path.vertices, dtype=float).T
            path.vertices = np.column_stack([x, np.clip(y, low, high)])


def label_points(axes: "Axes", points: Sequence[tuple[float, float, str]]) -> None:
    """Write beside each point what it is, on the first side where nothing else stands."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    unit = figure.dpi / 72  # sizes are in points, places in pixels
    frame = _Box(*axes.get_window_extent().bounds)
    places = [tuple(axes.transData.transform((x, y))) for x, y, _ in points]
    taken = [_Box(x - 4 * unit, y - 4 * unit, 8 * unit, 8 * unit) for x, y in places]
    for (x, y, text), (left, low) in zip(points, places, strict=True):
        wide = 4.6 * len(text)
        sides = [(6.0, 2.0), (-6.0 - wide, 2.0), (6.0, -10.0), (-6.0 - wide, -10.0)]
        boxes = [_Box(left + right * unit, low + up * unit, wide * unit, 9 * unit) for right, up in sides]
        free = (index for index, box in enumerate(boxes) if not any(map(box.hits, taken)) and box.within(frame))
        chosen = next(free, 0)
        taken.append(boxes[chosen])
        axes.annotate(text, (x, y), textcoords="offset points", xytext=sides[chosen], fontsize=7.5)


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    wide: float
    high: float

    def hits(self, other: "_Box") -> bool:
        """Return whether two boxes overlap."""
        beside = abs(2 * (self.x - other.x) + self.wide - other.wide) >= self.wide + other.wide
        above = abs(2 * (self.y - other.y) + self.high - other.high) >= self.high + other.high
        return not (beside or above)

    def within(self, frame: "_Box") -> bool:
        """Return whether the box is seen whole, but for a little at the right, where there is room."""
        return self.x >= frame.x and self.y >= frame.y and self.y + self.high <= frame.y + frame.high


def short(name: str, most: int = 24) -> str:
    """Return a name that fits above a small plot."""
    return name if len(name) <= most else f"{name[: most - 3]}..."
