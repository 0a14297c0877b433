"""Who is tried next: one study per strategy, served in turn, so that each gets the same number of trials."""

import json
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
from tune_mtl.tracking.diary import Diary

ANY = "any strategy"
"""The name of the one study in which strategy is a dimension like any other."""


class FairSearcher(Searcher):
    """Suggests configs and learns from results, with equal trials for every strategy.

    A trial's identity is its ordinal, assigned with the suggestion. A suggestion that a crash lost is made again under
    the same one, and gives the same config if its trial had been started: the diary knows. What ends early is told to
    Optuna as pruned at what it reached of its budget, what diverged as pruned with NaN, what crashed as failed: low and
    full fidelity are never mixed.
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
        self.diary = Diary()
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
            trial, chosen = self._ask(study)
            started = self.diary.started.get(_name(ordinal))
            if started is not None and started != json.loads(json.dumps(self._completed(chosen))):
                self._studies[study].tell(trial, state=TrialState.FAIL)
                self._studies[study].enqueue_trial(self._parameters(started))
                trial, chosen = self._ask(study)
            self._live[trial_id] = (study, trial)
        return {**self._completed(chosen), TRIAL: _name(ordinal)}

    def _ask(self, study: str) -> tuple[optuna.Trial, dict[str, Any]]:
        trial = self._studies[study].ask()
        strategy = study if self._balanced else trial.suggest_categorical("strategy", self._space.strategies)
        return trial, self._space.suggest(trial, strategy)

    def _completed(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """A suggestion as a trial's config."""
        grouped = {"groups": self._tasks} if strategy_info(chosen["strategy"]).has_groups else {}
        return {**self._constant, **grouped, **chosen}

    def _parameters(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """What Optuna would have had to suggest for ``config``."""
        strategy = {} if self._balanced else {"strategy": config["strategy"]}
        return {**strategy, **self._space.values(config)}

    def learn(self, config: Mapping[str, Any], *, value: float | None, reached: float, whole: bool) -> bool:
        """Take in a trial of another search; returns whether it is one that this search could have tried.

        Args:
            config: What was tried.
            value: Its best value; None: it diverged.
            reached: How far it came, in what this search counts.
            whole: Whether that is as far as this search goes.
        """
        strategy = config["strategy"]
        fixed = {key: known for key, known in self._constant.items() if key not in _OF_A_RUN}
        if strategy not in self._space.strategies or any(config.get(key) != known for key, known in fixed.items()):
            return False
        asked = optuna.trial.FixedTrial(self._parameters(config))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # FixedTrial warns of what is out of range
                if not self._balanced:
                    asked.suggest_categorical("strategy", self._space.strategies)
                chosen = self._space.suggest(asked, strategy)  # type: ignore[arg-type]
        except (ValueError, UserWarning):
            return False
        if any(config.get(key) != known for key, known in chosen.items() if key != "seed"):
            return False
        step = self._step({self._counts: reached})
        told = {step + 1: math.nan} if value is None else {step: value}
        complete = whole and value is not None
        self._studies[strategy if self._balanced else ANY].add_trial(
            optuna.trial.create_trial(
                params={name: asked.params[name] for name in asked.distributions},
                distributions=asked.distributions,
                intermediate_values=told,
                value=value if complete else None,
                state=TrialState.COMPLETE if complete else TrialState.PRUNED,
            )
        )
        return True

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
        """What was learnt, for a resume."""
        learnt = {key: value for key, value in self.__dict__.items() if key not in _GIVEN}
        Path(checkpoint_path).write_bytes(pickle.dumps(learnt))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a snapshot of our own search."""
        self.__dict__.update(pickle.loads(Path(checkpoint_path).read_bytes()))


_OF_A_RUN = ("epochs", "max_updates", "max_seconds", "threads", "device", "metric", "eval_batch_size", "evaluate_every")
"""What trials may have differently and still be of the same function of their parameters."""

_GIVEN = ("total", "diary")
"""What a resumed searcher is told anew."""


def _name(ordinal: int) -> str:
    return f"{ordinal:04d}"


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
