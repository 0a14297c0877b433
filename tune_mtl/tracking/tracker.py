"""What is written down of a search's trials: every event goes into the journal, and from there to MLflow."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import StoreLostError
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import Outcome
from tune_mtl.tracking import names
from tune_mtl.tracking.delivery import Delivery
from tune_mtl.tracking.diagnoses import Diagnoses
from tune_mtl.tracking.journal import Journal, read_journal
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.story import Story

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recorded:
    """What a run is told when its trial has ended.

    Attributes:
        outcome: How it ended.
        values: The metrics that are said once of the whole trial.
        folder: Its last checkpoint, with the best weights; None where there is none.
        reason: Why it ended so, where there is something to say.
        continued: The trial whose epochs it has taken over, if there is one.
    """

    outcome: Outcome
    values: Mapping[str, float]
    folder: Path | None
    reason: str | None = None
    continued: str | None = None


@dataclass
class Tracker:
    """Records every trial of a search, of one kind.

    Attributes:
        uri: The MLflow store.
        problem: Names the experiment.
        search: Names the parent run.
        varied: The config keys that differ between trials: they become params.
        check_weights: Raises for a file of weights that is not whole, such as a copy that is still being written.
        tags: Versions, device, data fingerprint: on every run.
        kind: One of ``names.KINDS``.
        folder: Where the journal is.
        kept: The trials whose checkpoints stay when they have ended.
    """

    uri: str
    problem: str
    search: str
    varied: tuple[str, ...]
    check_weights: Callable[[Path], object]
    tags: dict[str, str] = field(default_factory=dict)
    kind: str = "trial"
    folder: Path = Path()
    kept: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._delivered: list[Path] = []

    def delivered(self) -> list[Path]:
        """Return the checkpoints of trials whose runs are closed, best weights included; each is named once."""
        found, self._delivered = self._delivered, []
        return found

    def open(
        self,
        tags: Mapping[str, str],
        files: Mapping[str, Mapping[str, Any]],
        params: Mapping[str, Any] | None = None,
    ) -> str:
        """Start delivering; returns the id of the search's run. ``files``: JSON that it holds."""
        self._runs = SearchRuns(self.uri, self.problem, self.search, self.kind, self.check_weights)
        run_id = self._runs.open_search({**self.tags, **tags}, files, params)
        objective = Objective.parse(tags[names.OBJECTIVE]) if names.OBJECTIVE in tags else None
        group = {"trial": "search", "confirm": "confirmation"}.get(self.kind, self.kind)
        self._story = Story(objective, group).read(read_journal(self.folder))
        self._diagnoses = Diagnoses().read(read_journal(self.folder))
        calls: dict[str, Callable[..., None]] = {
            "open": self._runs.open_trial, "log": self._log, "note": self._runs.note, "end": self._end_trial,
            "decide": _for_a_replay_alone,
        }  # fmt: skip
        self._delivery = Delivery(Journal(self.folder), calls, self._runs.answers)
        return run_id

    def flush(self) -> None:
        """Wait until everything is delivered.

        Raises:
            StoreLostError: if the store does not answer: what waits is delivered by a resume.
        """
        waiting = self._delivery.close()
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

    def start(self, trial: str, config: Mapping[str, Any], replicate: int) -> None:
        """Open the run of a trial that starts, or starts again."""
        varied = {key: config[key] for key in self.varied if key in config}
        self._story.start(trial, config)
        self._diagnoses.start(trial, config)
        self._delivery.submit("open", trial=trial, config=dict(config), varied=varied, replicate=replicate, at=now())

    def report(
        self,
        trial: str,
        epoch: int,
        result: Mapping[str, Any],
        *,
        last: bool,
        paused: bool = False,
        diagnosis: Mapping[str, Any] | None = None,
    ) -> None:
        """Record an evaluation in one batch.

        Args:
            trial: Which trial.
            epoch: After which epoch.
            result: What it reports.
            last: Whether the scheduler stops the trial after it.
            paused: Whether the trial pauses after it.
            diagnosis: The cosines between the tasks' gradients, where it looked at them.
        """
        values = names.per_epoch(result)
        if values:
            told = self._story.reach(trial, epoch, values, paused=paused)
            self._diagnoses.reach(trial, diagnosis)
            more = ({} if diagnosis is None else {"diagnosis": diagnosis}) | ({"paused": True} if paused else {})
            self._delivery.submit(
                "log", trial=trial, epoch=epoch, values=values, last=last, story=told, at=now(), **more
            )

    def decide(self, number: int, step: Mapping[str, Any]) -> None:
        """Keep a decision about who gets the next epochs, before it is carried out."""
        self._delivery.submit("decide", number=number, step=dict(step))

    def note(self, trial: str, text: str, file: str) -> None:
        """Keep a text, such as a traceback, as an artifact of the trial's run."""
        self._delivery.submit("note", trial=trial, text=text, file=file)

    def end(self, trial: str, ended: Recorded) -> None:
        """Close the run of a trial that has ended."""
        seen = self._diagnoses.of(trial)
        if seen is not None:
            self.note(trial, json.dumps(seen), names.DIAGNOSIS_FILE)
        told = {names.REASON: ended.reason, names.CONTINUES: ended.continued}
        tags = {**self.tags, **{tag: value for tag, value in told.items() if value}}
        self._delivery.submit(
            "end",
            trial=trial,
            outcome=str(ended.outcome),
            values=dict(ended.values),
            tags=tags,
            folder=None if ended.folder is None else str(ended.folder),
            story=self._story.end(trial),
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
        diagnosis: Mapping[str, Any] | None = None,  # noqa: ARG002
        paused: bool = False,  # noqa: ARG002
    ) -> None:
        """Deliver an evaluation; what became of the trial is for a replay alone, what was diagnosed for the end."""
        self._runs.log(trial, epoch, values, at)
        self._tell(story, at)

    def _tell(self, story: Mapping[str, Any] | None, at: int) -> None:
        """Deliver a point of the search's own metrics."""
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
        files = {} if folder is None else {BEST_WEIGHTS: Path(folder) / BEST_WEIGHTS}
        self._runs.close_trial(trial, outcome, values, tags, files, at)
        self._tell(story, at)
        if folder is not None and trial not in self.kept:
            self._delivered += Path(folder).parent.glob("checkpoint_*")


def _for_a_replay_alone(**_: Any) -> None:
    """Deliver nothing: only a resume reads it."""


def now() -> int:
    """Return the time in milliseconds: when something happened, whenever it is delivered."""
    return int(time.time() * 1000)
