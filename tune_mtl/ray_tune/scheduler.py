"""Who is stopped: Ray's asynchronous successive halving, with rungs of their own for each strategy."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

from trainables.base import TRIAL
from tune_mtl.core.objective import Objective
from tune_mtl.tracking.replay import Diary

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

REDUCTION = 3


class FairHalving(FIFOScheduler):
    """Delegates each trial to its strategy's ASHA, unless the diary knows already how it was decided.

    Replicates share the rungs of their strategy: with few trials each, rungs of their own would stop hardly anyone.
    Rungs say how long a trial may train; who wins a tuning is decided among its own trials.

    A trial that lost its worker, or whose search was killed, reports some epochs again: it goes on where it went on and
    is stopped where it was stopped.

    Args:
        strategies: Who gets rungs; trials of one strategy compete among themselves only. None: nobody is stopped.
        counts: What of a result the rungs count: ``epoch``, ``updates`` or ``seconds``.
        length, grace: Of them: a whole trial, and what every trial gets before it can be stopped.
        balanced: Whether each strategy has its own rungs (else all share one set).
        time_budget: Seconds, from the first trial's start and not counting interruptions, after which trials end at
            their next evaluation and no other starts. Ray's own budget cuts trials off without a last checkpoint or an
            outcome.
    """

    def __init__(
        self,
        strategies: tuple[str, ...] | None,
        objective: Objective,
        *,
        counts: str = "epoch",
        length: float,
        grace: float,
        balanced: bool,
        time_budget: float | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.time_budget = time_budget
        self._started: float | None = None
        self.spent_before = 0.0
        self._balanced = balanced
        keys = () if strategies is None else strategies if balanced else ("",)
        self.rungs = {
            key: ASHAScheduler(
                time_attr=counts,
                metric=objective.metric,
                mode=objective.mode,
                max_t=length,  # type: ignore[arg-type]  # seconds need not be whole
                grace_period=grace,  # type: ignore[arg-type]
                reduction_factor=REDUCTION,
            )
            for key in keys
        }
        self._ended = False
        self._waiting: dict[str, Trial] = {}
        self.diary = Diary()
        self.at_rest: Callable[[TuneController, bool], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "at_rest": None, "_waiting": {}}

    @property
    def time_is_up(self) -> bool:
        """Whether the time budget is spent."""
        return self.time_budget is not None and self.spent >= self.time_budget

    @property
    def spent(self) -> float:
        """Seconds so far, those before a resume included."""
        return self.spent_before + (0.0 if self._started is None else time.monotonic() - self._started)

    def _of(self, trial: Trial) -> ASHAScheduler | None:
        return self.rungs.get(trial.config["strategy"] if self._balanced else "")

    def on_trial_add(self, tune_controller: "TuneController", trial: Trial) -> None:
        """A trial enters its strategy's bracket; again after a resume, where its rungs know it already."""
        self._waiting.pop(trial.trial_id, None)
        self._waiting[trial.trial_id] = trial  # at the end of the queue, also if it comes back
        scheduler = self._of(trial)
        if scheduler is not None and trial.trial_id not in scheduler._trial_info:
            scheduler.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: "TuneController", trial: Trial, result: dict[str, Any]) -> str:
        """Stop what is in the lower part of its rung, and everything once the time is up."""
        scheduler, decision = self._of(trial), str(FIFOScheduler.CONTINUE)
        if result.get("done"):
            return decision
        if scheduler is not None:
            decision = str(scheduler.on_trial_result(tune_controller, trial, result))
        name, epoch = trial.config[TRIAL], int(result["epoch"])
        was_stopped = self.diary.verdict(name, epoch)
        if was_stopped is not None:
            return str(FIFOScheduler.STOP if was_stopped else FIFOScheduler.CONTINUE)
        if self.time_is_up:
            decision = str(FIFOScheduler.STOP)
        self.diary.reach(name, epoch, last=decision == FIFOScheduler.STOP)
        return decision

    def on_trial_complete(self, tune_controller: "TuneController", trial: Trial, result: dict[str, Any]) -> None:
        """Leave the bracket."""
        self._leave(tune_controller, trial, result)

    def on_trial_error(self, tune_controller: "TuneController", trial: Trial) -> None:
        """Leave the bracket."""
        self._leave(tune_controller, trial, None)

    def on_trial_remove(self, tune_controller: "TuneController", trial: Trial) -> None:
        """Leave the bracket."""
        self._leave(tune_controller, trial, None)

    def _leave(self, controller: "TuneController", trial: Trial, result: dict[str, Any] | None) -> None:
        self._ended = True
        scheduler = self._of(trial)
        if scheduler is None or trial.trial_id not in scheduler._trial_info:
            return
        if result is None:
            scheduler.on_trial_remove(controller, trial)
        else:
            scheduler.on_trial_complete(controller, trial, result)
            scheduler._trial_info.pop(trial.trial_id, None)

    def choose_trial_to_run(self, tune_controller: "TuneController") -> Trial | None:
        """First come, first served. Between two events, here, the experiment is at rest: it can be saved."""
        if self.at_rest is not None:
            self.at_rest(tune_controller, self._ended)
            self._ended = False
        live: list[Trial] = list(tune_controller.get_live_trials())  # type: ignore[no-untyped-call]
        if self._started is None and any(trial.status == Trial.RUNNING for trial in live):
            self._started = time.monotonic()
        if self.time_is_up:
            tune_controller._search_alg.set_finished()  # type: ignore[no-untyped-call]
            for trial in live:
                if trial.status == Trial.PENDING:
                    trial.init_local_path()  # type: ignore[no-untyped-call]  # Ray's results want a folder
                    tune_controller._schedule_trial_stop(trial)
            return None
        while self._waiting:  # Ray's own way looks at all trials, ended ones too
            first = next(iter(self._waiting.values()))
            if first.status == Trial.PENDING:
                return first
            del self._waiting[first.trial_id]
        return None


class RungKeeper(Callback):
    """Carries the rungs, and the time that was spent, through a resume: Ray saves callbacks, but not schedulers."""

    def __init__(self, scheduler: FairHalving) -> None:
        self._scheduler = scheduler

    def get_state(self) -> dict[str, Any]:
        """As plain values."""
        rungs = {
            key: {
                "rungs": [[dict(recorded) for _, recorded in bracket._rungs] for bracket in asha._brackets],
                "stopped": asha._num_stopped,
            }
            for key, asha in self._scheduler.rungs.items()
        }
        return {"rungs": rungs, "spent": self._scheduler.spent}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put them back."""
        self._scheduler.spent_before = state["spent"]
        for key, saved in state["rungs"].items():
            asha = self._scheduler.rungs[key]
            asha._num_stopped = saved["stopped"]
            for bracket, rungs in zip(asha._brackets, saved["rungs"], strict=True):
                for (_, recorded), values in zip(bracket._rungs, rungs, strict=True):
                    recorded.clear()
                    recorded.update(values)
