"""How often is a task marked, or Delta-m told apart, where no strategy differs from another on any task?

`python benchmarks/trade_off_errors.py [SEARCHES]` prints the figures of docs/statistics.md. Values are positive and
skewed (log-normal); strategies share a part of the luck of a tuning, and a strategy's tasks share a part of theirs.
"""

import sys
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.significance import Sample
from tune_mtl.reporting.statistics.tradeoffs import trade_offs

DESIGNS = ((40, 1, 8, 0.05), (40, 2, 8, 0.3), (4, 1, 8, 0.05), (4, 1, 4, 0.05), (4, 2, 4, 0.3))
"""Tasks, metrics of each, tunings, and how much luck there is: the deviation of a value's logarithm."""
STRATEGIES = ("sus", "io", "ius")


class Drawn:
    """What `trade_offs` asks of results, with values that were drawn."""

    by_tuning = tells_strategies = True
    looks = None
    search = SimpleNamespace(name="drawn")

    def __init__(self, tasks: int, metrics: int, tunings: int, luck: float, random: np.random.Generator) -> None:
        self.runs: dict[str, list[Any]] = {name: [] for name in STRATEGIES}
        self.judged_by_task = {f"t{task}": [f"t{task}/{index}" for index in range(metrics)] for task in range(tasks)}
        shape = (tunings, tasks, metrics)
        common, self._values = random.normal(size=shape), {}
        for name in STRATEGIES:
            own = random.normal(size=shape) + random.normal(size=(tunings, 1, 1))
            drawn = np.exp(luck * (0.5 * common + own)).reshape(tunings, -1).T
            metric_names = [metric for found in self.judged_by_task.values() for metric in found]
            self._values[name] = {
                metric: dict(enumerate(map(float, row))) for metric, row in zip(metric_names, drawn, strict=True)
            }

    def units(self, name: str, metric: str) -> dict[int, float]:
        return self._values[name][metric]

    def samples(self, metric: str) -> dict[str, Sample]:
        return {name: Sample.of(list(self.units(name, metric).values())) for name in STRATEGIES}

    def sign(self, metric: str) -> int:  # noqa: ARG002
        return 1

    def lost(self, name: str) -> list[int]:  # noqa: ARG002
        return []


def main(searches: int) -> None:
    random = np.random.default_rng(0)
    for tasks, metrics, tunings, luck in DESIGNS:
        marked = overall = 0
        for _ in range(searches):
            found = trade_offs(cast(Results, Drawn(tasks, metrics, tunings, luck, random)))
            marked += sum(any(one.verdict != "open" for one in changes) for changes in found.changes.values())
            overall += any(one.significant for one in found.delta_m.values())
        share = marked / searches / (len(STRATEGIES) - 1)
        print(
            f"{tasks} tasks of {metrics} metrics, {tunings} tunings, luck {luck}: a strategy has a marked task in"
            f" {100 * share:.1f} %, some Delta-m is told apart in {100 * overall / searches:.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
