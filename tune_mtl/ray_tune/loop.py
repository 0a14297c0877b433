"""The loop of a search, as Ray Tune asks for it: who is next, until when, and when its state can be saved."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler

from trainables.keys import OUTCOME, REASON, TRIAL
from tune_mtl.core.outcome import Outcome
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.slots import Slots
from tune_mtl.ray_tune.verdict import GO_ON, Judge, Verdict
from tune_mtl.tracking.replay import Replay

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

TIME_IS_UP = "the time budget of the search is spent"


class TimeBudget:
    """The seconds that a search may take, from its first trial's start and not counting interruptions.

    Ray's own budget cuts trials off without a last checkpoint or an outcome.

    Attributes:
        seconds: How many; None: as many as it takes.
        spent_before: How many were spent before a resume.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.spent_before = 0.0
        self._started: float | None = None

    def start(self) -> None:
        """Begin to count; once is enough."""
        if self._started is None:
            self._started = time.monotonic()

    @property
    def started(self) -> bool:
        """Whether the time runs."""
        return self._started is not None

    @property
    def spent(self) -> float:
        """Seconds so far, those before a resume included."""
        return self.spent_before + (0.0 if self._started is None else time.monotonic() - self._started)

    @property
    def is_up(self) -> bool:
        """Whether the budget is spent: then trials end at their next evaluation, and no other starts."""
        return self.seconds is not None and self.spent >= self.seconds


class TrialLoop(FIFOScheduler):
    """Serves trials first come, first served; ``judge`` decides who is stopped early.

    A trial that lost its worker, or whose search was killed, reports some epochs again: the replay of the journal knows
    how it was decided, so it goes on where it went on and is stopped where it was stopped.

    Args:
        judge: Who decides about early stopping.
        time_budget: Seconds, or None.
        slots: The room for trials, which is filled at once; None: as Ray does it. Where it knows no number of trials
            at once, it starts a worker only when the one before has started, which takes seconds for each.

    Attributes:
        judge: Who decides about early stopping.
        time: The time budget.
        replay: What was decided before a resume.
        at_rest: Called between two events, when the state of the experiment can be saved, with the controller and
            whether a trial has ended since the last call.
    """

    _room: Slots | None = None  # a loop that an earlier version has saved knows none

    def __init__(self, judge: Judge, time_budget: float | None = None, slots: Slots | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.judge = judge
        self.time = TimeBudget(time_budget)
        self._room = slots
        self.replay = Replay()
        self.at_rest: Callable[[TuneController, bool], None] | None = None
        self._ended = False
        self._waiting: dict[str, Trial] = {}
        self._verdicts: dict[str, Verdict] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "at_rest": None, "_waiting": {}, "_verdicts": {}}

    @property
    def over(self) -> bool:
        """Whether the loop itself has ended the search; here it ends with its last trial."""
        return False

    def on_trial_add(self, tune_controller: "TuneController", trial: Trial) -> None:  # noqa: ARG002
        """Queue a trial: at the end, also if it comes back."""
        self._waiting.pop(trial.trial_id, None)
        self._waiting[trial.trial_id] = trial
        self.judge.enter(trial)

    def on_trial_result(self, tune_controller: "TuneController", trial: Trial, result: dict[str, Any]) -> str:  # noqa: ARG002
        """Decide whether a trial goes on, and keep the verdict for :class:`Decisions`."""
        if result.get("done"):
            return str(FIFOScheduler.CONTINUE)
        verdict = self._verdict(trial, result)
        self._verdicts[trial.trial_id] = verdict
        if verdict.pauses:
            return str(FIFOScheduler.PAUSE)
        return str(FIFOScheduler.STOP if verdict.stops else FIFOScheduler.CONTINUE)

    def _verdict(self, trial: Trial, result: dict[str, Any]) -> Verdict:
        """Return what was decided before, else what the judge says now, unless the time is up."""
        verdict = self.judge.judge(trial, result)
        name, epoch = trial.config[TRIAL], int(result["epoch"])
        stopped_before = self.replay.stopped(name, epoch)
        if stopped_before:
            return Verdict.stop(verdict.reason or "as before the interruption")
        if stopped_before is not None:
            return GO_ON if verdict.stops else verdict
        if self.time.is_up:
            verdict = Verdict.stop(TIME_IS_UP)
        self.replay.reach(name, epoch, last=verdict.stops)
        return verdict

    def last_verdict(self, trial: Trial) -> Verdict:
        """Return what was decided after the trial's last evaluation; it is asked for once."""
        return self._verdicts.pop(trial.trial_id, GO_ON)

    def on_trial_complete(self, tune_controller: "TuneController", trial: Trial, result: dict[str, Any]) -> None:  # noqa: ARG002
        """Note that a trial has ended."""
        self._ended = True
        self.judge.leave(trial, result)

    def on_trial_error(self, tune_controller: "TuneController", trial: Trial) -> None:  # noqa: ARG002
        """Note that a trial has failed."""
        self._ended = True
        self.judge.leave(trial)

    def on_trial_remove(self, tune_controller: "TuneController", trial: Trial) -> None:  # noqa: ARG002
        """Note that a trial is gone."""
        self._ended = True
        self.judge.leave(trial)

    def choose_trial_to_run(self, tune_controller: "TuneController") -> Trial | None:
        """Return the trial that came first. Between two events, here, the experiment is at rest: it can be saved."""
        if self.at_rest is not None:
            self.at_rest(tune_controller, self._ended)
            self._ended = False
        if not self.time.started and any(
            trial.status == Trial.RUNNING for trial in compat.live_trials(tune_controller)
        ):
            self.time.start()
        if self.time.is_up:
            compat.ask_for_no_more(tune_controller)
            for trial in compat.live_trials(tune_controller):
                if trial.status in (Trial.PENDING, Trial.PAUSED):
                    self.end_waiting(tune_controller, trial, TIME_IS_UP)
            return None
        if self._room is not None:
            running = sum(trial.status == Trial.RUNNING for trial in compat.live_trials(tune_controller))
            compat.let_start(tune_controller, max(1, self._room.count() - running))
        return self.next_trial(tune_controller)

    def end_waiting(self, tune_controller: "TuneController", trial: Trial, reason: str) -> None:
        """End a trial that does not run: with what it has reached, if it ever ran."""
        if trial.has_reported_at_least_once:
            compat.end_paused(tune_controller, trial, {OUTCOME: str(Outcome.STOPPED_EARLY), REASON: reason})
        else:
            compat.end_unstarted(tune_controller, trial)

    def next_trial(self, tune_controller: "TuneController") -> Trial | None:  # noqa: ARG002
        """Return the trial that is to be started next."""
        while self._waiting:  # Ray's own way looks at all trials, ended ones too
            first = next(iter(self._waiting.values()))
            if first.status == Trial.PENDING:
                return first
            del self._waiting[first.trial_id]
        return None


class Decisions(Callback):
    """Writes the scheduler's verdict into the result, where searcher, tracker and screen read it.

    It is the first of the callbacks: Ray lets callbacks change a result, and hands it on as the trial's last one.
    """

    def __init__(self, loop: TrialLoop) -> None:
        self._loop = loop

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Trial],  # noqa: ARG002
        trial: Trial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        """Say in the result that the trial is stopped, and why, or that it pauses."""
        verdict = self._loop.last_verdict(trial)
        if verdict.pauses:
            result[OUTCOME] = str(Outcome.PAUSED)
        if verdict.stops:
            result[OUTCOME], result[REASON] = str(Outcome.STOPPED_EARLY), verdict.reason


class LoopState(Callback):
    """Carries the judge's state and the time that was spent through a resume: Ray saves callbacks, not schedulers."""

    def __init__(self, loop: TrialLoop) -> None:
        self._loop = loop

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {"rungs": self._loop.judge.state(), "spent": self._loop.time.spent}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put the state back."""
        self._loop.time.spent_before = state["spent"]
        self._loop.judge.take_up(state["rungs"])
