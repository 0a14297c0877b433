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
        self._best: dict[str, float] = {}
        self._step = 0

    def read(self, records: Iterable[Mapping[str, Any]]) -> "Story":
        """Take up what a journal tells; returns itself."""
        for record in records:
            told = record["arguments"]
            if record["call"] == "open":
                self.start(told["trial"], told["config"])
            elif record["call"] == "log":
                self.reach(told["trial"], told["epoch"], told["values"])
            elif record["call"] == "end":
                self.end(told["trial"])
        return self

    def start(self, trial: str, config: Mapping[str, Any]) -> None:
        """Note that a trial was started, or started again."""
        self._strategies[trial] = str(config["strategy"])

    def reach(self, trial: str, epoch: int, values: Mapping[str, float]) -> dict[str, Any] | None:
        """Note that a trial has reported; returns what is to be told if its strategy does better than ever before."""
        self._spent += max(0, epoch - self._epochs.get(trial, 0))
        self._epochs[trial] = max(epoch, self._epochs.get(trial, 0))
        if self._objective is None or trial not in self._strategies:
            return None
        strategy, value = self._strategies[trial], values.get(self._objective.metric)
        if value is None or not self._objective.better(value, self._best.get(strategy)):
            return None
        self._best[strategy] = value
        return self._point({BEST_SO_FAR + strategy: value})

    def end(self, trial: str) -> dict[str, Any] | None:
        """Note that a trial has ended; returns what is to be told, unless it had ended before."""
        if trial in self._ended:
            return None
        self._ended.add(trial)
        counts = {f"{self._group}/trials_ended": len(self._ended), f"{self._group}/epochs_spent": self._spent}
        return self._point({**{BEST_SO_FAR + strategy: value for strategy, value in self._best.items()}, **counts})

    def _point(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Return a point of the charts: over the epochs spent, and always after the point before it."""
        self._step = max(self._spent, self._step + 1)
        return {"step": self._step, "values": dict(values)}
