"""The loop of a search that pauses and thaws trials: what a conductor decides, as Ray Tune carries it out."""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial

from trainables.keys import OUTCOME, TRIAL
from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import Outcome
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.loop import TrialLoop
from tune_mtl.ray_tune.paused import PausedCheckpoints, drop, has_lost_weights
from tune_mtl.ray_tune.slots import Slots
from tune_mtl.ray_tune.thaw.conductor import Conductor
from tune_mtl.ray_tune.thaw.policy import Begin, GoOn, Step, Tuning
from tune_mtl.ray_tune.verdict import GO_ON, PAUSE, Verdict

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

NOT_THAWED = "paused when its budget was spent: others promised more"
"""Why a trial that is still paused at the end was not trained in full."""

PATIENCE = 30.0
"""Seconds that a trial waits for resources of its own, before it gets the next worker that another one gives back."""


class Thawing:
    """The judge of a search that pauses trials: it tells the conductor what was seen, and a trial pauses at its goal.

    Args:
        conductor: Who knows how far each trial goes.
        objective: What is compared.
        counts: What of a result says how far a trial is.
        judged: Under which key of a result the value is that is compared; default: the objective's own.
    """

    def __init__(
        self, conductor: Conductor, objective: Objective, *, counts: str = "epoch", judged: str | None = None
    ) -> None:
        self.conductor, self.objective, self.counts = conductor, objective, counts
        self._judged = judged or objective.metric

    def enter(self, trial: Trial) -> None:
        """Nothing: the conductor knows a trial since it got its config."""

    def judge(self, trial: Trial, result: dict[str, Any]) -> Verdict:
        """Have a trial that has reached its goal pause, unless it is its own successor."""
        reached = self._see(trial, result)
        return GO_ON if self.conductor.goes_on(trial.config[TRIAL], reached) else PAUSE

    def _see(self, trial: Trial, result: Mapping[str, Any]) -> float:
        value, reached = result.get(self._judged), float(result[self.counts])
        self.conductor.seen(trial.config[TRIAL], reached, math.nan if value is None else float(value))
        return reached

    def leave(self, trial: Trial, result: dict[str, Any] | None = None) -> None:
        """Have the conductor know that a trial has ended, with its last evaluation."""
        outcome = (result or {}).get(OUTCOME)
        if result is not None and self._judged in result:
            self._see(trial, result)
        self.conductor.ended(
            trial.config[TRIAL], diverged=outcome == Outcome.DIVERGED, failed=outcome == Outcome.FAILED
        )

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return self.conductor.state()

    def take_up(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.conductor.take_up(state)


class ThawLoop(TrialLoop):
    """Serves trials as a conductor says: a slot that is free trains a paused trial on, or begins a new one.

    Ray knows paused trials, but not how many trials may run while others pause: that is counted here.

    Args:
        judge: Who tells the conductor.
        time_budget: Seconds, or None.
        slots: How many trials run at once.
    """

    def __init__(self, judge: Thawing, slots: Slots, time_budget: float | None = None) -> None:
        super().__init__(judge, time_budget)
        self.conductor, self._counts, self._slots = judge.conductor, judge.counts, slots
        self._checkpoints = PausedCheckpoints(judge.objective)
        self._here: dict[str, Trial] = {}
        self._new: set[str] = set()
        self._mended: set[str] = set()
        self._started_at: dict[str, float] = {}
        self._controller: TuneController | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is known of this process alone."""
        unknown: dict[str, Any] = {"_here": {}, "_new": set(), "_mended": set(), "_started_at": {}, "_controller": None}
        return {**super().__getstate__(), **unknown}

    @property
    def over(self) -> bool:
        """Whether every budget is spent and nothing runs: what is paused ends."""
        return self.conductor.over

    # --- what the searcher asks ----------------------------------------------------------------------------------

    def to_begin(self) -> Begin | None:
        """Return the trial that a free slot is to begin; None: none now, or, when all is ``over``, ever."""
        step = self._next_step()
        return step if isinstance(step, Begin) else None

    def begin(self, trial: str, tuning: Tuning, config: Mapping[str, Any]) -> None:
        """Note that a trial has got its config and is to be started."""
        self.conductor.begin(trial, tuning, config)
        self._new.add(trial)

    # --- what Ray tells and asks ---------------------------------------------------------------------------------

    def on_trial_add(self, tune_controller: "TuneController", trial: Trial) -> None:  # noqa: ARG002
        """Take a new trial; one that is there after a resume pauses, until it is its turn.

        A trial whose checkpoint is older than what it has reported has to catch up: it may never be thawed.
        """
        name = trial.config[TRIAL]
        back, self._here[name] = name in self._here, trial
        self._started_at.pop(name, None)
        if name in self._new:
            self._new.discard(name)
        elif trial.status == Trial.PENDING:
            if not back:  # else its worker was lost, and Ray starts it again by itself
                trial.set_status(Trial.PAUSED)  # type: ignore[no-untyped-call]
            if back or compat.saved_at(trial, self._counts) < self.conductor.reached[name]:
                self.conductor.owe(name)

    def on_trial_error(self, tune_controller: "TuneController", trial: Trial) -> None:  # noqa: ARG002
        """Note that a trial has failed; whether for good shows later."""
        self._ended = True

    def next_trial(self, tune_controller: "TuneController") -> Trial | None:
        """Return the trial that is to be started, or thawed, next; end those that will never be."""
        self._controller = tune_controller
        step = self._next_step()
        self._end_hopeless(tune_controller)
        paused = self._of(Trial.PAUSED)
        self._checkpoints.drop_hopeless(paused, self.conductor.needed)
        if self.over and not paused:
            compat.ask_for_no_more(tune_controller)
            return None
        if self._has_room():
            for trial in paused:
                if trial.config[TRIAL] in self.conductor.until:
                    return self._to_start(trial)
            if isinstance(step, GoOn) and self._here[step.trial] in paused:  # else its checkpoint is being saved
                return self._to_start(self._here[self.conductor.go_on()])
        for trial in self._of(Trial.PENDING):
            if trial.config[TRIAL] not in self._started_at:
                return self._to_start(trial)
        return None

    def _end_hopeless(self, tune_controller: "TuneController") -> None:
        """End paused trials that will never go on; those whose best weights are lost train again up to where they were.

        Whatever becomes of them then, they end.
        """
        paused = self._of(Trial.PAUSED)
        hopeless = self.conductor.hopeless() if paused else ()
        for trial in paused:
            name = trial.config[TRIAL]
            if name not in hopeless:
                continue
            if name not in self._mended and has_lost_weights(trial):
                self._mended.add(name)
                drop(trial)
                self.conductor.owe(name)
            else:
                self.end_waiting(tune_controller, trial, NOT_THAWED)

    def _to_start(self, trial: Trial) -> Trial:
        """Return a trial that Ray is to start, once: it gets the worker that another one has just given back.

        Asked for a second time, it would be taken from a worker of its own that is starting; with short pauses such a
        worker would never come to be.
        """
        self._started_at[trial.config[TRIAL]] = time.monotonic()
        return trial

    def _next_step(self) -> Step | None:
        """Return what a free slot does next; None where none is free, or those that have to catch up come first."""
        self._let_go()
        waiting = any(trial.config[TRIAL] in self.conductor.until for trial in self._of(Trial.PAUSED))
        if self.over or self.time.is_up or waiting or not self._has_room():
            return None
        step = self.conductor.step()
        if step is None and not self._of(Trial.PENDING, Trial.RUNNING):
            self.conductor.over = True
        return step

    def _has_room(self) -> bool:
        waiting, now = self._of(Trial.PENDING), time.monotonic()
        for_long = any(now - self._started_at.get(trial.config[TRIAL], now) > PATIENCE for trial in waiting)
        if for_long and self._controller is not None and compat.waits_for_room(self._controller):
            return False
        return len(waiting) + len(self._of(Trial.RUNNING)) < self._slots.count()

    def _of(self, *statuses: str) -> list[Trial]:
        return [trial for trial in self._here.values() if trial.status in statuses]

    def _let_go(self) -> None:
        """Let go of trials that have ended; one that has failed for good is known by its state alone."""
        for name, trial in list(self._here.items()):
            if trial.status != Trial.PENDING:
                self._started_at.pop(name, None)
            if trial.status in (Trial.TERMINATED, Trial.ERROR):
                self.conductor.ended(name, failed=trial.status == Trial.ERROR)
                del self._here[name]
