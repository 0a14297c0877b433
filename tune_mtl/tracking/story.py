"""The story of a search, told by the metrics of its own run: best so far, trials ended, epochs spent."""

from collections.abc import Iterable, Mapping
from typing import Any

from tune_mtl.core.objective import Objective

BEST_SO_FAR = "best_so_far/"
"""Then the strategy: the best value of the objective that any of its trials has reached."""


class Story:
    """What has happened so far, and what of it is to be told next.

    It depends on the journal of the search alone, and each point is kept in the journal with the event that it tells
    of. Whatever is delivered or done again after a kill is therefore told once, with the same numbers.

    Args:
        objective: What trials are judged by; None: nothing is said of the best.
        group: Names the counts: ``search`` or ``confirmation``.
    """

    def __init__(self, objective: Objective | None, group: str = "search") -> None:
        self._objective, self._group = objective, group
        self._strategies: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._spent = 0
        self._ended: set[str] = set()
        self._paused: set[str] = set()
        self._pauses = False
        self._best: dict[str, float] = {}
        self._step = 0

    def read(self, records: Iterable[Mapping[str, Any]]) -> "Story":
        """Take up what a journal tells; returns itself."""
        for record in records:
            told = record["arguments"]
            if record["call"] == "open":
                self.start(told["trial"], told["config"])
            elif record["call"] == "log":
                self.reach(told["trial"], told["epoch"], told["values"], paused=told.get("paused", False))
            elif record["call"] == "end":
                self.end(told["trial"])
        return self

    def start(self, trial: str, config: Mapping[str, Any]) -> None:
        """Note that a trial was started, or started again."""
        self._strategies[trial] = str(config["strategy"])

    def reach(
        self, trial: str, epoch: int, values: Mapping[str, float], *, paused: bool = False
    ) -> dict[str, Any] | None:
        """Note that a trial has reported, and perhaps pauses.

        Returns:
            What is to be told if its strategy does better than ever before, or it pauses.
        """
        known = self._epochs.get(trial, 0)
        self._spent += max(0, epoch - known)
        self._epochs[trial] = max(epoch, known)
        told = self._better(trial, values)
        if epoch > known:
            (self._paused.add if paused else self._paused.discard)(trial)
            self._pauses |= paused
            told |= self._counts() if paused else {}
        return self._point(told) if told else None

    def _better(self, trial: str, values: Mapping[str, float]) -> dict[str, float]:
        """Return the new best value of a trial's strategy, if it is one."""
        if self._objective is None or trial not in self._strategies:
            return {}
        strategy, value = self._strategies[trial], values.get(self._objective.metric)
        if value is None or not self._objective.better(value, self._best.get(strategy)):
            return {}
        self._best[strategy] = value
        return {BEST_SO_FAR + strategy: value}

    def _counts(self) -> dict[str, float]:
        """Return what is counted; paused trials where there ever were any."""
        counts: dict[str, float] = {"trials_ended": len(self._ended), "epochs_spent": self._spent}
        if self._pauses:
            counts["trials_paused"] = len(self._paused)
        return {f"{self._group}/{name}": count for name, count in counts.items()}

    def end(self, trial: str) -> dict[str, Any] | None:
        """Note that a trial has ended; returns what is to be told, unless it had ended before."""
        if trial in self._ended:
            return None
        self._ended.add(trial)
        self._paused.discard(trial)
        best = {BEST_SO_FAR + strategy: value for strategy, value in self._best.items()}
        return self._point({**best, **self._counts()})

    def _point(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Return a point of the charts: over the epochs spent, and always after the point before it."""
        self._step = max(self._spent, self._step + 1)
        return {"step": self._step, "values": dict(values)}
