"""How figures look: one palette, one size, colours that everybody can tell apart, and both light and dark pages."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tune_mtl.strategies.registry import registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#7F7F7F")
MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
_LEGEND_LETTERS = 80
_INK = "#010203"
"""Stands for the page's own text colour until the figure is set into a page."""

_STYLE: Any = {
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "tune-mtl",
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.grid": True,
    "grid.alpha": 0.15,
    "grid.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with what it says.

    Attributes:
        key: Its files' name.
        title: In a line.
        alternative: What it shows, for those who do not see it.
        figure: Matplotlib's.
    """

    key: str
    title: str
    alternative: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """Vector, without a background."""
        return self._saved("svg", facecolor="none").decode()

    def inline(self) -> str:
        """For a page: in the page's own text colour."""
        return re.sub(r"^.*?(?=<svg)", "", self.svg, flags=re.DOTALL).replace(_INK, "currentColor")

    def file(self, kind: str) -> bytes:
        """For papers and slides: ``svg``, ``pdf`` or ``png``, black; the latter two on white."""
        return self.svg.encode() if kind == "svg" else self._saved(kind, facecolor="white")

    def _saved(self, kind: str, facecolor: str) -> bytes:
        written = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        with style():
            self.figure.savefig(written, format=kind, dpi=160, facecolor=facecolor, metadata=metadata)
        return written.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """Our look, for as long as it lasts."""
    with mpl.rc_context(_STYLE):
        yield


def new_figure(rows: int = 1, columns: int = 1, *, height: float = 3.4) -> "tuple[Figure, list[Axes]]":
    """A figure of the page's width with a grid of axes, row by row."""
    figure = Figure(figsize=(8.4 if columns > 1 else 6.4, height * rows))
    return figure, [axes for line in figure.subplots(rows, columns, squeeze=False) for axes in line]


@dataclass(frozen=True)
class Look:
    """How one strategy is drawn, everywhere in a report."""

    color: str
    marker: str
    line: str


def looks(drawn: Sequence[str]) -> dict[str, Look]:
    """One look each, the same for the same ones in whatever order; colours repeat after eight, with other lines."""
    order = {name: index for index, name in enumerate(registry)}
    known = sorted(drawn, key=lambda name: order.get(name, len(order)))
    return {
        name: Look(PALETTE[index % 8], MARKERS[(index + index // 8) % 8], LINES[index // 8 % 4])
        for index, name in enumerate(known)
    }


def band(axes: "Axes", x: Sequence[float], values: Sequence[Sequence[float]], look: Look, label: str) -> None:
    """The mean over seeds at each ``x``, with a band of one standard deviation where there are several."""
    means = np.array([np.mean(found) for found in values])
    axes.plot(x, means, color=look.color, marker=look.marker, linestyle=look.line, markersize=4, label=label)
    if any(len(found) > 1 for found in values):
        spread = np.array([np.std(found, ddof=1) if len(found) > 1 else 0.0 for found in values])
        axes.fill_between(x, means - spread, means + spread, color=look.color, alpha=0.2, linewidth=0)


def legend_below(figure: Figure, axes: "Axes") -> None:
    """One legend for the whole figure, under it."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        unique = dict(zip(labels, handles, strict=True))
        columns = max(1, min(5, len(unique), _LEGEND_LETTERS // (max(map(len, unique)) + 6)))
        figure.set_figheight(figure.get_figheight() + 0.2 * (math.ceil(len(unique) / columns) - 1))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=columns)


def short(name: str, most: int = 24) -> str:
    """A name that fits above a small plot."""
    return name if len(name) <= most else f"{name[: most - 3]}..."
