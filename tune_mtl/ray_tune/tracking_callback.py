"""From Ray Tune's events to MLflow runs."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from trainables.base import OUTCOME, REPLICATE, TRIAL, proper
from tune_mtl.core.errors import StoreLostError
from tune_mtl.core.objective import Objective
from tune_mtl.core.secrets import without_secrets
from tune_mtl.tracking import names
from tune_mtl.tracking.delivery import Recorder
from tune_mtl.tracking.journal import Spool, kept_records
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.story import Story
from tune_mtl.training.trial import BEST

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


@dataclass
class Tracker(Callback):
    """Records every trial of a search; holds nothing that a snapshot would have to keep.

    Attributes:
        uri: The MLflow store.
        problem: Names the experiment.
        search: Names the parent run.
        varied: The config keys that differ between trials: they become params.
        tags: Versions, device, data fingerprint: on every run.
        kind: ``trial``, or ``confirm``.
        folder: Where what was not delivered yet is kept.
    """

    uri: str
    problem: str
    search: str
    varied: tuple[str, ...]
    tags: dict[str, str] = field(default_factory=dict)
    kind: str = "trial"
    folder: Path = Path()

    def __post_init__(self) -> None:
        self._delivered: list[Path] = []

    def __getstate__(self) -> dict[str, Any]:
        """For a resume, which is told the store's address anew: it may hold a password."""
        kept = {key: value for key, value in self.__dict__.items() if key not in ("_recorder", "_runs", "_story")}
        return {**kept, "uri": "", "_delivered": []}

    def delivered(self) -> list[Path]:
        """The checkpoints of trials whose runs are closed, best weights included; each is named once."""
        found, self._delivered = self._delivered, []
        return found

    def open(
        self,
        tags: Mapping[str, str],
        files: Mapping[str, Mapping[str, Any]],
        params: Mapping[str, Any] | None = None,
    ) -> str:
        """Start delivering; returns the id of the search's run. ``files``: JSON that it holds."""
        self._runs = SearchRuns(self.uri, self.problem, self.search, self.kind)
        run_id = self._runs.open_search({**self.tags, **tags}, files, params)
        objective = Objective.parse(tags[names.OBJECTIVE]) if names.OBJECTIVE in tags else None
        group = "search" if self.kind == "trial" else "confirmation"
        self._story = Story(objective, group).read(kept_records(self.folder))
        calls: dict[str, Callable[..., None]] = {
            "open": self._runs.open_trial, "log": self._log, "note": self._runs.note, "end": self._end_trial,
        }  # fmt: skip
        self._recorder = Recorder(Spool(self.folder), calls, self._runs.answers)
        return run_id

    def flush(self) -> None:
        """Wait until everything is delivered.

        Raises:
            StoreLostError: if the store does not answer: what waits is delivered by a resume.
        """
        waiting = self._recorder.close()
        if waiting:
            raise StoreLostError(
                f"the tracking store does not answer: {waiting} records of search '{self.search}' wait in"
                f" {self.folder}. No result is lost: tune-mtl resume {self.search} delivers them once it is back."
            )

    def close(
        self, *, complete: bool, tags: Mapping[str, str], table: "pd.DataFrame", best: Mapping[str, Any] | None = None
    ) -> None:
        """End the search's run, with the table of its trials and its best config."""
        self._runs.close_search(complete=complete, tags=tags, table=table, best=best)

    def describe(self, answer: Sequence[str]) -> None:
        """Say in the description of the search's run what is known."""
        try:
            self._runs.describe(answer)
        except Exception:  # words are not worth a search; what it has found is kept elsewhere
            logger.exception("the search could not be described")

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Open its run; also after a restart."""
        config = proper(trial.config)
        varied = {key: config[key] for key in self.varied if key in config}
        ordinal, replicate = trial.config[TRIAL], trial.config.get(REPLICATE, 0)
        self._story.start(ordinal, config)
        self._recorder.submit("open", trial=ordinal, config=config, varied=varied, replicate=replicate, at=now())

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Trial],  # noqa: ARG002
        trial: Trial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        """One batch per evaluation."""
        ordinal, epoch, values = trial.config[TRIAL], int(result["epoch"]), names.per_epoch(result)
        stopped = bool(result.get("done")) and result.get(OUTCOME) == "running"
        if values:
            told = self._story.reach(ordinal, epoch, values)
            self._recorder.submit("log", trial=ordinal, epoch=epoch, values=values, last=stopped, story=told, at=now())

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Outcome, best values and best weights; the resume checkpoint is not needed any more."""
        result = dict(trial.last_result)
        outcome = outcome_of(result)
        folder = Path(trial.checkpoint.path) if trial.checkpoint else None
        self._finish(trial, outcome, names.once(result), folder, result.get("reason"))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Failed for good: its traceback is kept."""
        text = ""
        if trial.error_file:
            text = without_secrets(Path(trial.error_file).read_text(errors="replace"))
        ordinal = trial.config[TRIAL]
        self._recorder.submit("note", trial=ordinal, text=text or "no traceback", file="error.txt")
        cause = text.strip().splitlines()[-1][:250] if text.strip() else "unknown"
        self._finish(trial, "failed", {}, None, cause)

    def _finish(
        self, trial: Trial, outcome: str, values: Mapping[str, float], folder: Path | None, reason: str | None
    ) -> None:
        tags = {**self.tags, **({names.REASON: reason} if reason else {})}
        self._recorder.submit(
            "end",
            trial=trial.config[TRIAL],
            outcome=outcome,
            values=dict(values),
            tags=tags,
            folder=None if folder is None else str(folder),
            story=self._story.end(trial.config[TRIAL]),
            at=now(),
        )

    def _log(
        self,
        trial: str,
        epoch: int,
        values: Mapping[str, float],
        at: int,
        last: bool = False,  # noqa: ARG002
        story: Mapping[str, Any] | None = None,
    ) -> None:
        self._runs.log(trial, epoch, values, at)
        self._tell(story, at)

    def _tell(self, story: Mapping[str, Any] | None, at: int) -> None:
        if story is not None:
            self._runs.tell(story["step"], story["values"], at)

    def _end_trial(
        self,
        trial: str,
        outcome: str,
        values: Mapping[str, float],
        tags: Mapping[str, str],
        folder: str | None,
        at: int,
        story: Mapping[str, Any] | None = None,
    ) -> None:
        """Close the run, its best weights with it; then nothing of the trial need stay on disk."""
        files = {} if folder is None else {BEST: Path(folder) / BEST}
        self._runs.close_trial(trial, outcome, values, tags, files, at)
        self._tell(story, at)
        if folder is not None:
            self._delivered += Path(folder).parent.glob("checkpoint_*")


def now() -> int:
    """Milliseconds: when something happened, whenever it is delivered."""
    return int(time.time() * 1000)


def outcome_of(result: Mapping[str, Any]) -> str:
    """How a trial that ended with ``result`` ended: still ``running`` means that the scheduler stopped it."""
    outcome = str(result.get(OUTCOME, "running"))
    return "stopped_early" if outcome == "running" else outcome
