"""Who is tried next: one study per strategy, served in turn, so that each gets the same number of trials."""

import math
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState
from ray.tune.search import Searcher

from search_spaces.space import Space
from trainables.base import OUTCOME, TRIAL
from tune_mtl.core.objective import Objective
from tune_mtl.core.seeds import derive
from tune_mtl.strategies.registry import strategy_info

ANY = "any strategy"
"""The name of the one study in which strategy is a dimension like any other."""


class FairSearcher(Searcher):
    """Suggests configs and learns from results, with equal trials for every strategy.

    A trial's identity is its ordinal, assigned with the suggestion: a suggestion that a crash lost is made again under
    the same one. What ends early is told to Optuna as pruned at what it reached of its budget, what diverged as pruned
    with NaN, what crashed as failed: low and full fidelity are never mixed.
    """

    def __init__(
        self,
        space: Space,
        objective: Objective,
        *,
        algorithm: str,
        samples: int | None,
        seed: int,
        balanced: bool,
        constant: Mapping[str, Any],
        tasks: int,
        counts: str = "epoch",
    ) -> None:
        super().__init__(metric=objective.metric, mode=objective.mode)
        self._space, self._objective, self._constant = space, objective, dict(constant)
        self._tasks, self._counts = tasks, counts
        self._issued = 0
        self._live: dict[str, tuple[str, optuna.Trial]] = {}
        self._grid = interleaved_grid(space) if algorithm == "grid" else None
        available = len(self._grid) if self._grid is not None else math.inf
        self.total = int(min(available, samples)) if samples is not None else int(available)
        self._balanced = balanced
        self._studies: dict[str, optuna.Study] = {}
        if self._grid is None:
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            for name in space.strategies if balanced else (ANY,):
                share = self.total // (len(space.strategies) if balanced else 1)
                self._studies[name] = optuna.create_study(
                    sampler=make_sampler(algorithm, derive(seed, "search", name) % 2**32, share),
                    direction="minimize" if objective.mode == "min" else "maximize",
                )

    def suggest(self, trial_id: str) -> Any:
        """The next config, with its ordinal."""
        if self._issued >= self.total:
            return Searcher.FINISHED
        ordinal = self._issued
        self._issued += 1
        if self._grid is not None:
            chosen = self._grid[ordinal]
        else:
            strategies = self._space.strategies
            study = strategies[ordinal % len(strategies)] if self._balanced else ANY
            trial = self._studies[study].ask()
            strategy = study if self._balanced else trial.suggest_categorical("strategy", strategies)
            chosen = self._space.suggest(trial, strategy)
            self._live[trial_id] = (study, trial)
        if strategy_info(chosen["strategy"]).has_groups:
            chosen.setdefault("groups", self._tasks)
        return {**self._constant, **chosen, TRIAL: f"{ordinal:04d}"}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Intermediate values: the best so far."""
        if trial_id in self._live:
            self._report(self._live[trial_id][1], result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """The final word, once."""
        if trial_id not in self._live:
            return
        name, trial = self._live.pop(trial_id)
        study = self._studies[name]
        if error or not result or result.get(OUTCOME) == "failed":
            study.tell(trial, state=TrialState.FAIL)
        elif result.get(OUTCOME) == "diverged":
            trial.report(math.nan, self._step(result) + 1)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            self._report(trial, result)
            if result.get(OUTCOME) == "completed":
                study.tell(trial, result["best"])
            else:
                study.tell(trial, state=TrialState.PRUNED)

    def _report(self, trial: optuna.Trial, result: Mapping[str, Any]) -> None:
        value = result.get("best")
        if value is None or self._counts not in result:
            return
        step = self._step(result)
        if step not in trial.study._storage.get_trial(trial._trial_id).intermediate_values:
            trial.report(float(value), step)

    def _step(self, result: Mapping[str, Any]) -> int:
        """How far a trial is, for Optuna: whole numbers, so of seconds the thousandths."""
        return int(result[self._counts] * (1000 if self._counts == "seconds" else 1))

    def save(self, checkpoint_path: str) -> None:
        """Everything, for a resume."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.__dict__))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a snapshot of our own search."""
        self.__dict__.update(pickle.loads(Path(checkpoint_path).read_bytes()))


def make_sampler(algorithm: str, seed: int, trials: int) -> BaseSampler:
    """TPE (with a start-up phase that leaves it most of the trials), or pure chance."""
    if algorithm == "random":
        return RandomSampler(seed=seed)
    startup = min(10, max(4, trials // 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True, group=True, constant_liar=True)


def interleaved_grid(space: Space) -> list[dict[str, Any]]:
    """Every config of every strategy, the strategies taking turns."""
    queues = [list(space.grid(strategy)) for strategy in space.strategies]
    longest = max(len(queue) for queue in queues)
    return [queue[index] for index in range(longest) for queue in queues if index < len(queue)]
