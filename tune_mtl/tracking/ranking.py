"""Who is best: on a grid a config counts with its mean over seeds, elsewhere every trial counts by itself."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import is_ranked
from tune_mtl.tracking import names


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
    """Finished runs that can win, in whatever order they come; who does is known at any time without looking at all.

    Args:
        objective: What decides.
        by_mean: Whether a config counts with its mean over seeds, among those of its strategy that ran on as many, as
            on a grid; else every trial counts by itself: a guided search tries some configs more often than others.
    """

    def __init__(self, objective: Objective, *, by_mean: bool = True) -> None:
        self.objective, self._by_mean = objective, by_mean
        self._strategies: dict[str, _Standing] = {}
        self._order: dict[str, int] = {}
        self._of_trial: dict[str, tuple[str, str]] = {}

    def add(self, trial: str, run_id: str, config: Mapping[str, Any], value: float) -> None:
        """Count a run of ``config`` with its value of the objective at its best epoch; a trial counts once."""
        rest = json.dumps({key: value for key, value in config.items() if key != "seed"}, sort_keys=True)
        place = str(config["strategy"]), rest if self._by_mean else f"{trial} {rest}"
        if self._of_trial.get(trial, place) != place:
            self.remove(trial)
        self._of_trial[trial] = place
        order = self._order.setdefault(place[1], len(self._order))
        self._strategies.setdefault(place[0], _Standing(self.objective)).put(place[1], order, trial, (run_id, value))

    def add_run(self, run_id: str, tags: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """Count a recorded run, unless its outcome cannot win or it has no value of the objective."""
        value = metrics.get(names.best_metric(self.objective.metric))
        if is_ranked(tags.get(names.OUTCOME)) and value is not None:
            self.add(tags[names.TRIAL_ID], run_id, json.loads(tags[names.CONFIG]), value)

    def remove(self, trial: str) -> None:
        """Forget a trial whose suggestion was redone."""
        if trial in self._of_trial:
            strategy, rest = self._of_trial.pop(trial)
            self._strategies[strategy].drop(rest, trial)

    def winners(self) -> dict[str, Winner]:
        """Return the winners by strategy, the best first."""
        sign = 1 if self.objective.mode == "min" else -1
        found = [
            (sign * standing.winner.value, standing.first, strategy, standing.winner)
            for strategy, standing in self._strategies.items()
            if standing.winner is not None
        ]
        return {strategy: winner for *_, strategy, winner in sorted(found, key=lambda entry: entry[:2])}


def new_ranking(tags: Mapping[str, str]) -> Ranking:
    """Return an empty ranking of a search, as the tags of its run ask for it."""
    by_mean = tags.get(names.RANKED_BY, names.BY_MEAN) == names.BY_MEAN
    return Ranking(Objective.parse(tags[names.OBJECTIVE]), by_mean=by_mean)


class _Standing:
    """The configs of one strategy, in the order in which they came.

    Attributes:
        winner: The best of those that ran on most seeds, the earliest of equals; None: none has run.
        first: The place of the earliest of them.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._configs: dict[str, tuple[int, dict[str, tuple[str, float]]]] = {}
        self._forget_winner()

    def _forget_winner(self) -> None:
        self.winner: Winner | None = None
        self.first, self._seeds, self._leader = 0, 0, 0

    def put(self, config: str, order: int, trial: str, run: tuple[str, float]) -> None:
        """Take in a run and its value; one that is known already may have changed."""
        order, runs = self._configs.setdefault(config, (order, {}))
        known, runs[trial] = runs.get(trial), run
        if known is None:
            self._consider(order, runs)
        elif known != run:
            self._consider_all()

    def drop(self, config: str, trial: str) -> None:
        """Forget a run, as if it had not been made."""
        self._configs[config][1].pop(trial)
        self._consider_all()

    def _consider_all(self) -> None:
        self._forget_winner()
        for order, runs in self._configs.values():
            self._consider(order, runs)

    def _consider(self, order: int, runs: Mapping[str, tuple[str, float]]) -> None:
        """Let a config win that has just come to as many runs as it has."""
        if len(runs) < max(1, self._seeds):
            return
        if len(runs) > self._seeds:
            self._forget_winner()
            self._seeds = len(runs)
        mean = statistics.fmean(value for _, value in runs.values())
        held = None if self.winner is None else self.winner.value
        if self._objective.better(mean, None) and (held is None or order < self.first):
            self.first = order
        if self._objective.better(mean, held) or (mean == held and order < self._leader):
            self.winner, self._leader = Winner(self._best_seed(runs), mean, len(runs)), order

    def _best_seed(self, runs: Mapping[str, tuple[str, float]]) -> str:
        chosen: tuple[str, float] | None = None
        for trial in sorted(runs):
            if self._objective.better(runs[trial][1], None if chosen is None else chosen[1]):
                chosen = runs[trial]
        assert chosen is not None
        return chosen[0]


def winners_text(winners: Mapping[str, Winner]) -> str:
    """Return winners as the text of a tag."""
    return json.dumps({strategy: astuple(winner) for strategy, winner in winners.items()})


def read_winners(text: str) -> dict[str, Winner]:
    """Return the winners that the text of a tag says."""
    return {strategy: Winner(*values) for strategy, values in json.loads(text).items()}
