"""What a schedule changes about learning curves: two recorded tables, on the configs that both have.

    PYTHONPATH=. python benchmarks/schedules.py multidigits multidigits-cosine

prints the table of docs/benchmarks.md: of each strategy the learning rate with the best mean over seeds, and there the
best value, the test value and the deviation between seeds; and over the learning rates within 20 % of it, how much the
value moves from one epoch to the next in the second half of a run, and how much worse the last epoch is than the best;
over all learning rates and seeds, the rank correlation of the second epoch's value with the best one.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

CURVES = Path(__file__).with_name("curves")
NEAR = 1.2


def rows(name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return a table by the keys of its trials."""
    return {tuple(row["key"]): row for row in map(json.loads, (CURVES / f"{name}.jsonl").read_text().splitlines())}


def moves(curve: Sequence[float]) -> list[float]:
    """Return how much the value changes, relatively, between two epochs of the second half."""
    return [abs(after / before - 1) for before, after in pairwise(curve[len(curve) // 2 - 1 :])]


def line(found: dict[tuple[Any, ...], dict[str, Any]], arm: tuple[Any, ...]) -> list[str]:
    """Return the figures of a strategy and group count in one table."""
    by_rate: dict[float, list[dict[str, Any]]] = {}
    for key, row in found.items():
        if key[:2] == arm:
            by_rate.setdefault(key[2], []).append(row)
    reached = {rate: statistics.fmean(min(row["curve"]) for row in runs) for rate, runs in by_rate.items()}
    best = min(reached, key=lambda rate: reached[rate])
    near = [row for rate, runs in by_rate.items() if reached[rate] <= NEAR * reached[best] for row in runs]
    jitter = np.percentile([move for row in near for move in moves(row["curve"])], (50, 90))
    last = statistics.median(row["curve"][-1] / min(row["curve"]) - 1 for row in near)
    values = [
        [min(row["curve"]) for row in runs] for rate, runs in by_rate.items() if reached[rate] <= NEAR * reached[best]
    ]
    spread = statistics.median(statistics.stdev(some) / statistics.fmean(some) for some in values if len(some) > 1)
    test = statistics.fmean(row["test"] for row in by_rate[best])
    pairs = [(row["curve"][1], min(row["curve"])) for runs in by_rate.values() for row in runs]
    early = float(spearmanr(*zip(*pairs, strict=True)).statistic)
    figures = [
        f"{100 * jitter[0]:.1f} / {100 * jitter[1]:.1f} %",
        f"{100 * last:.1f} %",
        f"{100 * spread:.1f} %",
        f"{early:.2f}",
    ]
    return [f"{best:g}", f"{reached[best]:.4f}", f"{test:.4f}", *figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs=2, help="of benchmarks/curves")
    tables = {name: rows(name) for name in parser.parse_args().tables}
    both = set.intersection(*(set(table) for table in tables.values()))
    print(
        "| strategy | groups | table | learning rate | best value | test value | epoch to epoch, median / 90th"
        " | last against best | between seeds | epoch 2 with best |"
    )
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for arm in sorted({key[:2] for key in both}):
        for name, table in tables.items():
            cells = line({key: row for key, row in table.items() if key in both}, arm)
            print(f"| {arm[0]} | {arm[1] or '-'} | `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
