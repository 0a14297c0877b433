"""Draws regret against epochs: the median over searches of each policy, and the band between its quartiles."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")
from matplotlib import pyplot as plt

Bands = tuple[np.ndarray, np.ndarray]
"""Shares of the grid's epochs; the quartiles of the regret at each."""
COLOURS = ("#d1495b", "#00798c", "#9aa5b1", "#edae49", "#30638e", "#8d6a9f", "#444444", "#6b8e23")
BANDED = 2
"""The first so many policies have bands; with all of them nothing could be seen."""


def draw(found: Mapping[str, Mapping[str, Bands]], path: Path) -> None:
    """Draw a panel for each problem, and write a PNG."""
    figure, panels = plt.subplots(1, len(found), figsize=(4.2 * len(found), 3.6), squeeze=False, layout="constrained")
    for panel, (problem, policies) in zip(panels[0], found.items(), strict=True):
        for index, (policy, (share, quartiles)) in enumerate(policies.items()):
            low, median, high = 100 * np.maximum(quartiles, 1e-3)
            colour = COLOURS[index % len(COLOURS)]
            panel.plot(100 * share, median, color=colour, lw=2.2 if index < BANDED else 1.2, label=policy)
            if index < BANDED:
                panel.fill_between(100 * share, low, high, color=colour, alpha=0.18, lw=0)
        for goal in (5, 10):
            panel.axhline(goal, color="#bbbbbb", lw=0.8, ls=":")
        panel.set(title=problem, xlabel="epochs, % of the grid's", xlim=(0, 100), yscale="log", ylim=(0.5, 200))
        panel.set_yticks([1, 5, 10, 50, 100], ["1", "5", "10", "50", "100"])
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("regret of what `best` returns, %")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
