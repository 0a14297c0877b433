"""How far a search is: counted from what happens, for whoever decides, saves or shows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import Outcome


@dataclass(frozen=True)
class EndedTrial:
    """A trial that has ended.

    Attributes:
        trial: The search's own number of it.
        config: What was tried.
        outcome: How it ended.
        epoch: How far it came.
        best: Its best value of the objective, or None.
        cause: Why it failed; empty if it did not.
    """

    trial: str
    config: Mapping[str, Any]
    outcome: Outcome
    epoch: int
    best: float | None
    cause: str = ""


class Observer(Protocol):
    """Someone who shows the progress of a search; nothing depends on what an observer does."""

    def open(self) -> None:
        """Begin to show."""

    def paused(self) -> None:
        """Show that a trial has paused."""

    def ended(self, trial: EndedTrial) -> None:
        """Show that a trial has ended."""

    def close(self) -> None:
        """Leave the screen to what comes next."""


@dataclass
class Progress:
    """The count of a search's trials: how many have ended and how, who runs, and the best so far of each strategy.

    Attributes:
        objective: What trials are judged by.
        total: How many trials there are to be; None: nobody knows before the end.
        evaluations: How many evaluations there are to be, about, where that is known instead.
        outcomes: How many have ended in each way.
        running: Who was started and has neither ended nor paused.
        paused: Who waits for further epochs.
        best: The best value of each strategy so far, with the config that reached it.
        epochs: How many evaluations were reported.
    """

    objective: Objective
    total: int | None
    evaluations: int | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    running: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    best: dict[str, tuple[float, Mapping[str, Any]]] = field(default_factory=dict)
    epochs: int = 0

    @property
    def ended(self) -> int:
        """How many trials have ended, in whatever way."""
        return sum(self.outcomes.values())

    @property
    def complete(self) -> bool:
        """Whether all trials that there are to be have ended."""
        return self.total is not None and self.ended >= self.total

    @property
    def share(self) -> float:
        """What share of the search is done, about."""
        done, of = (self.epochs, self.evaluations) if self.total is None else (self.ended, self.total)
        return min(1.0, done / of) if of else 0.0

    def start(self, trial: str) -> None:
        """Count a trial that was started, or thawed."""
        self.paused.discard(trial)
        self.running.add(trial)

    def pause(self, trial: str) -> None:
        """Count a trial that pauses."""
        self.running.discard(trial)
        self.paused.add(trial)

    def report(self, config: Mapping[str, Any], value: float | None) -> None:
        """Count an evaluation; ``value`` is the trial's best so far."""
        self.epochs += 1
        strategy = str(config["strategy"])
        held = self.best.get(strategy)
        if value is not None and self.objective.better(value, held[0] if held else None):
            self.best[strategy] = (value, dict(config))

    def end(self, trial: str, outcome: Outcome) -> None:
        """Count a trial that has ended."""
        self.running.discard(trial)
        self.paused.discard(trial)
        self.outcomes[str(outcome)] += 1

    def state(self) -> dict[str, Any]:
        """Return what a resume goes on from."""
        return {
            "total": self.total,
            "outcomes": dict(self.outcomes),
            "best": dict(self.best),
            "epochs": self.epochs,
            "paused": sorted(self.paused),
        }

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on counting from a saved state; who was running then is started again."""
        self.outcomes, self.best = Counter(state["outcomes"]), dict(state["best"])
        self.epochs, self.paused = state["epochs"], set(state.get("paused", ()))
        if self.total is not None:
            self.total = max(self.total, state["total"])  # it may have grown since
