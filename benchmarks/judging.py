"""By which value should an epoch be judged, by early stopping and by who chooses configs? Searches on recorded curves.

What a search chooses is judged by the mean over recorded seeds of its best value, between recorded learning rates
interpolated; its regret is how much worse that is than the best of the table.

    PYTHONPATH=. python benchmarks/judging.py --searches 40

prints the table of docs/benchmarks.md: the median and the quartiles over searcher seeds.
"""

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.replay import Design, Replayed, replay

CURVES = Path(__file__).with_name("curves")
STRATEGIES = ("sus", "ius", "io")
JUDGES = {"as now": None, "last": "last", "best": "best", "smoothed": "smoothed"}
DESIGNS = {"8 tunings of 4 trials": Design(), "1 tuning of 15 trials": Design(replicates=1, trials=15)}


@dataclass(frozen=True)
class Truth:
    """How good each config really is: by strategy and group count the learning rates, and the mean best value at each.

    Both are logarithms.
    """

    arms: Mapping[tuple[str, int], tuple[np.ndarray, np.ndarray]]

    @classmethod
    def read(cls, path: Path) -> "Truth":
        """Read a table of recorded curves."""
        found: dict[tuple[str, int], dict[float, list[float]]] = {}
        for row in map(json.loads, path.read_text().splitlines()):
            strategy, groups, lr, _ = row["key"]
            found.setdefault((strategy, groups), {}).setdefault(lr, []).append(min(row["curve"]))
        return cls({
            arm: (np.log(sorted(values)), np.log([statistics.fmean(values[lr]) for lr in sorted(values)]))
            for arm, values in found.items()
        })  # fmt: skip

    def value(self, config: Mapping[str, Any]) -> float:
        """Return the mean over recorded seeds of a config's best value."""
        rates, values = self.arms[config["strategy"], config.get("groups", 0)]
        return math.exp(float(np.interp(math.log(config["lr"]), rates, values)))

    def best(self, strategies: Sequence[str]) -> float:
        """Return the best value of some strategies."""
        return min(math.exp(float(values.min())) for (name, _), (_, values) in self.arms.items() if name in strategies)


def regrets(found: Replayed, truth: Truth) -> dict[str, float]:
    """Return, in percent, the regret of the config that is best of all, and the mean one of all tunings' choices.

    That of a tuning's choice is against the best of its own strategy.
    """
    search = found.results.search
    overall = truth.value(next(iter(search.winners.values())).config) / truth.best(STRATEGIES) - 1
    own = [truth.value(config) / truth.best([name]) - 1 for (name, _), config in search.tunings.items()]
    return {"winner": 100 * overall, "own": 100 * statistics.fmean(own), "epochs": float(found.search_epochs)}


def quartiles(values: Sequence[float]) -> str:
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]" if middle < 100 else f"{middle:.0f} [{low:.0f}, {high:.0f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="multidigits,tabular", help="of benchmarks/curves")
    parser.add_argument("--searches", type=int, default=40)
    arguments = parser.parse_args()
    print("| table | design | judge | winner's regret, % | own choices' regret, % | epochs of the trials |")
    print("|---|---|---|---|---|---|")
    for name in arguments.tables.split(","):
        path = CURVES / f"{name}.jsonl"
        table, truth = Table.read(path), Truth.read(path)
        for design_name, design in DESIGNS.items():
            for judge_name, judge in JUDGES.items():
                found = []
                for seed in range(arguments.searches):
                    world = World(table, {one: Contestant(one) for one in STRATEGIES}, seed=seed)
                    judged = Design(**{**vars(design), "judge": judge})
                    found.append(regrets(replay(world, judged), truth))
                cells = [quartiles([one[key] for one in found]) for key in ("winner", "own", "epochs")]
                print(f"| `{name}` | {design_name} | {judge_name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
