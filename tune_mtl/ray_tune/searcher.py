"""Who is tried next: one study per strategy and repetition, served in turn, so that each gets as many trials."""

import json
import math
import pickle
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import optuna
from optuna.trial import TrialState
from ray.tune.search import Searcher

from search_spaces.space import Choice, Space
from trainables.keys import BEST, OUTCOME, REPLICATE, TRIAL, proper
from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import Outcome
from tune_mtl.core.seeds import derive
from tune_mtl.ray_tune.samplers import make_sampler, startup_trials
from tune_mtl.ray_tune.thaw.policy import Begin, Tuning
from tune_mtl.ray_tune.turns import ANY, Turn
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.tracking.replay import Replay
from tune_mtl.training.config import Config
from tune_mtl.training.diagnosis.asked import DIAGNOSIS_KEYS, where_possible


class Starter(Protocol):
    """Who says when a trial begins, and of which tuning; without one, trials begin in their turns."""

    @property
    def over(self) -> bool:
        """Whether no other trial will begin."""

    def to_begin(self) -> Begin | None:
        """Return what is to begin now."""

    def begin(self, trial: str, tuning: Tuning, config: Mapping[str, Any]) -> None:
        """Note that it has got its config."""


class FairSearcher(Searcher):
    """Suggests configs and learns from results, with equal trials for every strategy.

    Every strategy is tuned by itself, and so is every replicate: a study each. Within a replicate all strategies begin
    with the same draws, dimension by dimension, so that none has the luck of a better learning rate; replicates draw
    anew and train with another seed.

    A trial's identity is its ordinal, assigned with the suggestion. A suggestion that a crash lost is made again under
    the same one, and gives the same config if its trial had been started: the replay knows. What ends early is told to
    Optuna as pruned at what it reached of its budget, what diverged as pruned with NaN, what crashed as failed: low and
    full fidelity are never mixed.
    """

    _judged = BEST  # of searches that an earlier version began

    def __init__(
        self,
        space: Space,
        objective: Objective,
        *,
        algorithm: str,
        turns: Sequence[Turn],
        seeds: Mapping[int, int],
        seed: int,
        balanced: bool,
        constant: Mapping[str, Any],
        tasks: int,
        counts: str = "epoch",
        judged: str = BEST,
        starter: Starter | None = None,
    ) -> None:
        """Make a searcher.

        Args:
            space: What may be chosen.
            objective: What decides.
            algorithm: ``optuna``, ``random``, ``grid``, or where a user's sampler is found.
            turns: Whose trials are tried, in their order.
            seeds: The training seed of each replicate.
            seed: Of the searcher itself.
            balanced: Whether each strategy has studies of its own.
            constant: What every config has.
            tasks: How many tasks there are.
            counts: What of a result says how far a trial is.
            judged: Under which key of a result the value is by which Optuna judges a trial.
            starter: Who says when a trial begins; None: each in its turn, as soon as there is room.
        """
        super().__init__(metric=objective.metric, mode=objective.mode)
        self._space, self._objective, self._constant = space, objective, dict(constant)
        self._tasks, self._counts, self._judged = tasks, counts, judged
        self._issued = 0
        self._live: dict[str, tuple[Tuning, optuna.Trial]] = {}
        self._reported: dict[str, int] = {}
        self.turns, self.seeds = list(turns), dict(seeds)
        self._algorithm, self._seed, self._balanced = algorithm, seed, balanced
        self.replay, self.starter = Replay(), starter
        self._studies: dict[Tuning, optuna.Study] = {}
        self._asked: Counter[Tuning] = Counter()
        sizes = Counter(self._tuning(turn) for turn in self.turns)
        self._trials_of_a_tuning = min(sizes.values(), default=1)
        self._startup = startup_trials(algorithm, self._trials_of_a_tuning)
        self._knows_nothing = True
        optuna.logging.set_verbosity(optuna.logging.ERROR)

    @property
    def total(self) -> int:
        """How many trials there are to be."""
        return len(self.turns)

    def _tuning(self, turn: Turn) -> Tuning:
        return (turn.strategy if self._balanced and turn.strategy is not None else ANY), turn.replicate

    def study(self, tuning: Tuning) -> optuna.Study:
        """Return the study of a tuning; made when it is first needed."""
        if tuning not in self._studies:
            seed = derive(self._seed, "search", tuning[1]) % 2**32
            self._studies[tuning] = optuna.create_study(
                sampler=make_sampler(self._algorithm, seed, self._startup, self._trials_of_a_tuning),
                direction="minimize" if self._objective.mode == "min" else "maximize",
            )
        return self._studies[tuning]

    def suggest(self, trial_id: str) -> Any:
        """Return the next config, with its ordinal."""
        if self.starter is not None:
            return self._suggest_for(self.starter, trial_id)
        if self._issued >= self.total:
            return Searcher.FINISHED
        turn = self.turns[self._issued]
        if turn.config is None:
            return self._suggest(trial_id, self._tuning(turn), None)
        return self._issue(turn.config, turn.replicate)

    def _suggest_for(self, starter: Starter, trial_id: str) -> Any:
        """Return the config of the trial that is to begin; None: none is to begin now."""
        wanted = None if starter.over else starter.to_begin()
        if wanted is None:
            return Searcher.FINISHED if starter.over else None
        config = self._suggest(trial_id, wanted.tuning, wanted.values)
        starter.begin(config[TRIAL], wanted.tuning, proper(config))
        return config

    def _suggest(self, trial_id: str, tuning: Tuning, values: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the next config of a tuning: with ``values`` where somebody chose them, else as its study suggests."""
        self._enqueue(tuning, values)
        trial, chosen = self._ask(tuning)
        started = self.replay.started.get(_name(self._issued))
        if started is not None and started != json.loads(json.dumps(self._completed(chosen))):
            self.study(tuning).tell(trial, state=TrialState.FAIL)
            self.study(tuning).enqueue_trial(self._parameters(started))
            trial, chosen = self._ask(tuning)
        self._live[trial_id] = (tuning, trial)
        return self._issue(chosen, tuning[1])

    def _issue(self, chosen: Mapping[str, Any], replicate: int) -> dict[str, Any]:
        """Return a suggestion as the config of the next ordinal."""
        self._issued += 1
        return {**self._completed(chosen), TRIAL: _name(self._issued - 1), REPLICATE: replicate}

    def set_max_concurrency(self, max_concurrent: int) -> bool:  # noqa: ARG002
        """Return whether this searcher limits by itself how many trials run: Ray would count paused ones too."""
        return self.starter is not None

    def _ask(self, tuning: Tuning) -> tuple[optuna.Trial, dict[str, Any]]:
        """Ask Optuna for a config of a tuning, with the replicate's training seed."""
        trial = self.study(tuning).ask()
        strategy = tuning[0] if self._balanced else trial.suggest_categorical("strategy", self._space.strategies)
        return trial, {**self._space.suggest(trial, strategy), "seed": self.seeds[tuning[1]]}

    def _enqueue(self, tuning: Tuning, values: Mapping[str, Any] | None) -> None:
        """Have the study suggest ``values``; else what every strategy of the replicate tries here, as it starts up."""
        index, self._asked[tuning] = self._asked[tuning], self._asked[tuning] + 1
        if values is not None:
            self.study(tuning).enqueue_trial(dict(values))
            return
        if not self._knows_nothing or (self._startup is not None and index >= self._startup):
            return

        def share(dimension: str) -> float:
            return common_draw(self._seed, tuning[1], dimension, index, self._startup)

        strategy = tuning[0] if self._balanced else Choice(self._space.strategies).at(share("strategy"))
        drawn = self._space.choose(strategy, lambda name, dimension: dimension.at(share(name)))
        self.study(tuning).enqueue_trial(drawn if self._balanced else {"strategy": strategy, **drawn})

    def _completed(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return a suggestion as a trial's config."""
        grouped = {"groups": self._tasks} if strategy_info(chosen["strategy"]).has_groups else {}
        return where_possible({**self._constant, **grouped, **chosen})

    def _parameters(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what Optuna would have had to suggest for ``config``."""
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
        fixed = {key: known for key, known in self._constant.items() if key not in (*_OF_A_RUN, *DIAGNOSIS_KEYS)}
        if strategy not in self._space.strategies or any(config.get(key) != known for key, known in fixed.items()):
            return False
        asked = optuna.trial.FixedTrial(self._parameters(config))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # FixedTrial warns of what is out of range
                if not self._balanced:
                    asked.suggest_categorical("strategy", self._space.strategies)
                chosen = self._space.suggest(asked, strategy)  # type: ignore[arg-type]
        except (ValueError, TypeError, UserWarning):  # TypeError: a dimension that the earlier search did not have
            return False
        if any(config.get(key) != known for key, known in chosen.items() if key != "seed"):
            return False
        if any(key not in chosen for key in config if key not in Config.model_fields and key not in (TRIAL, REPLICATE)):
            return False  # an option that trials of this search do not have
        step = self._step({self._counts: reached})
        told = {step + 1: math.nan} if value is None else {step: value}
        complete = whole and value is not None
        self._knows_nothing = False
        self.study((strategy if self._balanced else ANY, 0)).add_trial(
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
        """Intermediate values: the best so far, unless something else is judged."""
        if trial_id in self._live:
            self._report(trial_id, self._live[trial_id][1], result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell Optuna how a trial has ended, once."""
        if trial_id not in self._live:
            return
        name, trial = self._live.pop(trial_id)
        study = self.study(name)
        if error or not result or result.get(OUTCOME) == Outcome.FAILED:
            study.tell(trial, state=TrialState.FAIL)
        elif result.get(OUTCOME) == Outcome.DIVERGED:
            trial.report(math.nan, self._step(result) + 1)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            self._report(trial_id, trial, result)
            if result.get(OUTCOME) == Outcome.COMPLETED:
                study.tell(trial, result[self._judged])
            else:
                study.tell(trial, state=TrialState.PRUNED)
        self._reported.pop(trial_id, None)

    def _report(self, trial_id: str, trial: optuna.Trial, result: Mapping[str, Any]) -> None:
        """Tell Optuna how good a trial is so far; what a resumed trial reports again is known already."""
        value = result.get(self._judged)
        if value is None or self._counts not in result:
            return
        step = self._step(result)
        if step > self._reported.get(trial_id, -1):
            trial.report(float(value), step)
            self._reported[trial_id] = step

    def _step(self, result: Mapping[str, Any]) -> int:
        """Return how far a trial is, for Optuna: whole numbers, so of seconds the thousandths."""
        return int(result[self._counts] * (1000 if self._counts == "seconds" else 1))

    def save(self, checkpoint_path: str) -> None:
        """Save what was learnt, for a resume."""
        learnt = {key: value for key, value in self.__dict__.items() if key not in _GIVEN}
        Path(checkpoint_path).write_bytes(pickle.dumps(learnt))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a snapshot of our own search."""
        self.__dict__.update(pickle.loads(Path(checkpoint_path).read_bytes()))


_OF_A_RUN = ("epochs", "max_updates", "max_seconds", "threads", "device", "metric", "eval_batch_size", "evaluate_every")
"""What trials may have differently and still be of the same function of their parameters."""

_GIVEN = ("turns", "seeds", "replay", "starter")
"""What a resumed searcher is told anew."""


def _name(ordinal: int) -> str:
    return f"{ordinal:04d}"


def common_draw(seed: int, replicate: int, dimension: str, index: int, strata: int | None) -> float:
    """Return the share (0 to 1) of ``dimension`` at which all strategies of a replicate try their trial ``index``.

    ``strata``: so many draws fill a dimension evenly, one in each of as many equal parts, in random order (a Latin
    hypercube); None: every draw is independent of the others.
    """
    if strata is None:
        return float(np.random.default_rng(derive(seed, "draw", replicate, dimension, index)).random())
    return _stratified_draws(seed, replicate, dimension, strata)[index]


@lru_cache(maxsize=4096)
def _stratified_draws(seed: int, replicate: int, dimension: str, strata: int) -> tuple[float, ...]:
    """Return as many shares as there are ``strata``, one in each of as many equal parts, in random order."""
    random = np.random.default_rng(derive(seed, "draws", replicate, dimension))
    return tuple(((random.permutation(strata) + random.random(strata)) / strata).tolist())
