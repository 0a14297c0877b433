"""What has happened in a search, from the records it keeps for MLflow: what a resume must not contradict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tune_mtl.tracking.journal import read_journal


@dataclass
class Replay:
    """The configs that were started, and how far each trial was let.

    A snapshot is older than the last thing that happened. What came after it is done again, with the same numbers; but
    who is tried next and who is stopped may depend on who came first. The replay settles it: a trial that was started
    keeps its config, one that went on after an epoch goes on again, one that was stopped is stopped at the same epoch.

    Where trials are paused and thawed, so may it be who gets the next epochs: those decisions are numbered.

    Attributes:
        started: Config by trial.
        reached: By trial, the last epoch that was reported, and whether it was the trial's last.
        decisions: Who was given the next epochs, by the number of the decision.
    """

    started: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    reached: dict[str, tuple[int, bool]] = field(default_factory=dict)
    decisions: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Replay":
        """Return what the journal in ``folder`` tells."""
        replay = cls()
        for record in read_journal(folder):
            told = record["arguments"]
            if record["call"] == "open":
                replay.start(told["trial"], told["config"])
            elif record["call"] == "log":
                replay.reach(told["trial"], told["epoch"], last=told.get("last", False))
            elif record["call"] == "decide":
                replay.decisions[told["number"]] = told["step"]
        return replay

    def start(self, trial: str, config: Mapping[str, Any]) -> None:
        """Note that a trial was started, or started again; under another config it is another trial."""
        if self.started.get(trial) != config:
            self.started[trial] = config
            self.reached.pop(trial, None)

    def reach(self, trial: str, epoch: int, *, last: bool) -> None:
        """Note that a trial has reported."""
        if (epoch, last) > self.reached.get(trial, (-1, False)):
            self.reached[trial] = (epoch, last)

    def stopped(self, trial: str, epoch: int) -> bool | None:
        """Return whether the trial was stopped at ``epoch``; None if it was not there yet."""
        reached, last = self.reached.get(trial, (-1, False))
        return None if epoch > reached else epoch == reached and last
