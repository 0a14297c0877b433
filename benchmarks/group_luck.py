"""Whose luck is it? What recorded curves can tell of draws of groups and seeds, and whether intervals hold.

    PYTHONPATH=. python benchmarks/group_luck.py curves --table benchmarks/curves/tabular.jsonl --tasks a,b,c
    PYTHONPATH=. python benchmarks/group_luck.py coverage --layouts 300

``curves``: recorded runs have one seed for groups and for all else, so no draw meets two seeds: the part of the seed
cannot be told from that of which draw suits which seed. Where seeds happen to draw the same grouping, the variance
within groupings is that of both, and what is more between groupings is the draw's. A count that can be drawn in one way
only has no draw in its variance.

``coverage``: layouts are simulated with known components; printed is how often the 95 % intervals hold them.
"""

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tune_mtl.reporting.statistics.crossed import components
from tune_mtl.strategies.group_draws import count_groupings
from tune_mtl.strategies.grouping import make_groups

LAYOUTS = ((None, 4, 4), (None, 3, 6), (None, 8, 8), (3, 3, 4), (3, 3, 8), (10, 4, 4), (10, 10, 4), (35, 6, 6))
"""Groupings there are (None: no end of them), draws and seeds."""

TRUTHS = ((1.0, 1.0, 1.0), (0.0, 1.0, 1.0), (1.0, 0.0, 0.5), (4.0, 1.0, 1.0))
"""Variances of draw, seed and rest."""


def curves(table: Path, tasks: Sequence[str]) -> None:
    """Print, by strategy and group count, the deviation between seeds of the logarithm of the best value."""
    found: dict[tuple[str, int], dict[float, dict[int, float]]] = {}
    for row in map(json.loads, table.read_text().splitlines()):
        strategy, groups, lr, seed = row["key"]
        if groups and row["outcome"] == "completed":
            found.setdefault((strategy, groups), {}).setdefault(lr, {})[seed] = math.log(min(row["curve"]))
    for (strategy, groups), rates in found.items():
        seeds = sorted({seed for values in rates.values() for seed in values})
        drawn = {seed: str(make_groups(tasks, groups, seed)) for seed in seeds}
        within = [
            (a - b) ** 2 / 2
            for values in rates.values()
            for one, a in values.items()
            for other, b in values.items()
            if one < other and drawn[one] == drawn[other]
        ]
        across = [
            (a - b) ** 2 / 2
            for values in rates.values()
            for one, a in values.items()
            for other, b in values.items()
            if one < other and drawn[one] != drawn[other]
        ]
        possible = count_groupings(len(tasks), groups)
        said = [f"{len(set(drawn.values()))} of {possible:,} groupings on {len(seeds)} seeds"]
        for name, squares in (("same grouping", within), ("different ones", across)):
            said.append(f"{name}: {math.sqrt(statistics.fmean(squares)):.3f}" if squares else f"{name}: no pair")
        print(f"{strategy} ({groups} groups), {len(rates)} learning rates: {'; '.join(said)}")


def coverage(layouts: int, seed: int) -> None:
    """Print how often intervals of shares hold the truth, and the mean estimates."""
    random = np.random.default_rng(seed)
    for possible, draws, seeds in LAYOUTS:
        effects = random.normal(size=possible or 1)
        effects = (effects - effects.mean()) / (effects.std() or 1.0)
        for truth in TRUTHS:
            of_draw, of_seed, of_rest = map(math.sqrt, truth)
            held, estimates = np.zeros(3), np.zeros(3)
            for _ in range(layouts):
                both = random.normal(size=(possible or draws, seeds))
                rows = random.normal(size=draws) if possible is None else effects
                if possible is not None:
                    both = (both - both.mean(axis=0)) / math.sqrt(1 - 1 / possible)
                chosen = random.permutation(possible or draws)[:draws]
                values = of_draw * rows[chosen, None] + of_seed * random.normal(size=seeds) + of_rest * both[chosen]
                split = components(values, possible, simulated=600)
                for place, part in enumerate((split.draw, split.seed, split.rest)):
                    held[place] += part.share_low - 1e-9 <= truth[place] / sum(truth) <= part.share_high + 1e-9
                    estimates[place] += part.variance
            shares = ", ".join(f"{share:.1%}" for share in held / layouts)
            print(
                f"{draws} of {possible or 'endless'} draws x {seeds} seeds, variances {truth}: held {shares};"
                f" mean estimates {np.round(estimates / layouts, 2)}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    recorded = modes.add_parser("curves")
    recorded.add_argument("--table", type=Path, default=Path(__file__).with_name("curves") / "multidigits.jsonl")
    recorded.add_argument("--tasks", default="left,right,sum,segment", help="in the problem's order")
    simulated = modes.add_parser("coverage")
    simulated.add_argument("--layouts", type=int, default=300)
    simulated.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.mode == "curves":
        curves(given.table, given.tasks.split(","))
    else:
        coverage(given.layouts, given.seed)


if __name__ == "__main__":
    main()
