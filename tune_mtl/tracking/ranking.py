"""Who is best: a config counts with its mean over seeds, among those of its strategy that ran on as many."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from tune_mtl.core.objective import Objective


@dataclass(frozen=True)
class Winner:
    """The best run of a strategy: of its best config, the best seed.

    Attributes:
        run_id: In MLflow.
        value: The mean over seeds of the objective at the best epoch.
        seeds: On how many.
    """

    run_id: str
    value: float
    seeds: int


class Ranking:
    """Finished runs that can win, in whatever order they come."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._configs: dict[str, dict[str, tuple[str, float]]] = {}
        self._strategies: dict[str, str] = {}

    def add(self, trial: str, run_id: str, config: Mapping[str, Any], value: float) -> None:
        """A run of ``config`` with its value of the objective at its best epoch."""
        rest = json.dumps({key: value for key, value in config.items() if key != "seed"}, sort_keys=True)
        self._configs.setdefault(rest, {})[trial] = (run_id, value)
        self._strategies[rest] = str(config["strategy"])

    def remove(self, trial: str) -> None:
        """Forget a trial whose suggestion was redone."""
        for runs in self._configs.values():
            runs.pop(trial, None)

    def winners(self) -> dict[str, Winner]:
        """By strategy, the best first."""
        most: dict[str, int] = {}
        for config, runs in self._configs.items():
            most[self._strategies[config]] = max(most.get(self._strategies[config], 1), len(runs))
        found: dict[str, Winner] = {}
        for config, runs in self._configs.items():
            if len(runs) < most[self._strategies[config]]:
                continue
            mean = statistics.fmean(value for _, value in runs.values())
            held = found.get(self._strategies[config])
            if self.objective.better(mean, None if held is None else held.value):
                found[self._strategies[config]] = Winner(self._best_seed(runs), mean, len(runs))
        sign = 1 if self.objective.mode == "min" else -1
        return dict(sorted(found.items(), key=lambda item: sign * item[1].value))

    def _best_seed(self, runs: Mapping[str, tuple[str, float]]) -> str:
        chosen: tuple[str, float] | None = None
        for trial in sorted(runs):
            if self.objective.better(runs[trial][1], None if chosen is None else chosen[1]):
                chosen = runs[trial]
        assert chosen is not None
        return chosen[0]


def winners_text(winners: Mapping[str, Winner]) -> str:
    """For a tag."""
    return json.dumps({strategy: astuple(winner) for strategy, winner in winners.items()})


def read_winners(text: str) -> dict[str, Winner]:
    """From a tag."""
    return {strategy: Winner(*values) for strategy, values in json.loads(text).items()}
