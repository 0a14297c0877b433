"""From Ray Tune's events to those who follow a search: the tracker, the progress and who shows it."""

from pathlib import Path
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from trainables.keys import CONTINUED, DIAGNOSIS, OUTCOME, REASON, REPLICATE, TRIAL, proper
from tune_mtl.core.errors import UserError
from tune_mtl.core.outcome import Outcome
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.tracking import names
from tune_mtl.tracking.progress import EndedTrial, Observer, Progress
from tune_mtl.tracking.tracker import Recorded, Tracker


class TrackingCallback(Callback):
    """Hands every event to the tracker. A snapshot keeps nothing of it: a resume gives it a tracker anew."""

    _opened: frozenset[str] = frozenset()  # of the class, since a snapshot brings none back

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tracker, which knows the store's address: that may hold a password."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Open the trial's run, also after a restart; one that is thawed has it open."""
        if trial.config[TRIAL] in self._opened:
            return
        self._opened |= {trial.config[TRIAL]}
        self.tracker.start(trial.config[TRIAL], proper(trial.config), trial.config.get(REPLICATE, 0))

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Trial],  # noqa: ARG002
        trial: Trial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        """Record an evaluation."""
        stopped = result.get(OUTCOME) == Outcome.STOPPED_EARLY
        seen = result.get(DIAGNOSIS)
        paused = result.get(OUTCOME) == Outcome.PAUSED
        self.tracker.report(
            trial.config[TRIAL], int(result["epoch"]), result, last=stopped, paused=paused, diagnosis=seen
        )

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Record outcome, best values and best weights; the resume checkpoint is not needed any more."""
        result = dict(trial.last_result)
        folder = Path(trial.checkpoint.path) if trial.checkpoint else None
        ended = Recorded(outcome_of(result), names.once(result), folder, result.get(REASON), result.get(CONTINUED))
        self.tracker.end(trial.config[TRIAL], ended)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        """Record that the trial failed for good; its traceback is kept, also of one that could not even be made."""
        ordinal = trial.config[TRIAL]
        if ordinal not in self._opened:
            self.on_trial_start(iteration, trials, trial)
        self.tracker.note(ordinal, _traceback(trial) or "no traceback", "error.txt")
        self.tracker.end(ordinal, Recorded(Outcome.FAILED, {}, None, _cause(trial)))


class ProgressCallback(Callback):
    """Counts every event in the progress, and tells the observer of the trials that end."""

    def __init__(self, progress: Progress, observer: Observer) -> None:
        self.progress, self.observer = progress, observer

    def __getstate__(self) -> dict[str, Any]:
        """Leave out both: a resume gives others, and the counts are a part of the callback's state."""
        return {}

    def get_state(self) -> dict[str, Any]:
        """Return what was counted so far."""
        return self.progress.state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.progress.take_up(state)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Count one more that runs."""
        self.progress.start(trial.trial_id)

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Trial],  # noqa: ARG002
        trial: Trial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        """Count an evaluation, perhaps a new best, and whether the trial pauses after it."""
        self.progress.report(trial.config, result.get("best"))
        if result.get(OUTCOME) == Outcome.PAUSED:
            self.progress.pause(trial.trial_id)
            self.observer.paused()

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Count one that has ended."""
        self._end(trial, outcome_of(trial.last_result))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Count one that has failed."""
        self._end(trial, Outcome.FAILED)

    def _end(self, trial: Trial, outcome: Outcome) -> None:
        self.progress.end(trial.trial_id, outcome)
        last = trial.last_result
        cause = _cause(trial) if outcome is Outcome.FAILED else ""
        epoch = int(last.get("epoch", 0))
        self.observer.ended(EndedTrial(trial.config[TRIAL], trial.config, outcome, epoch, last.get("best"), cause))


def _traceback(trial: Trial) -> str:
    """Return the traceback that ended a trial; empty where there is none."""
    if not trial.error_file:
        return ""
    return without_secrets(Path(trial.error_file).read_text(errors="replace")).strip()


def _cause(trial: Trial) -> str:
    """Return the last line of the traceback that ended a trial."""
    last = (_traceback(trial) or "unknown").splitlines()[-1]
    return last.removeprefix(f"{UserError.__module__}.{UserError.__qualname__}: ")[:250]


def outcome_of(result: dict[str, Any]) -> Outcome:
    """Return how a trial ended, as its last result says: the trial itself, or the scheduler's verdict, wrote it.

    A trial that Ray ended without either counts as stopped early: an end that nobody explains must not end the search.
    """
    outcome = Outcome(result.get(OUTCOME, Outcome.RUNNING))
    return outcome if outcome.ended else Outcome.STOPPED_EARLY
