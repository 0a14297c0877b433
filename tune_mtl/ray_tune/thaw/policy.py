"""What a policy that pauses and thaws trials is told, and what it answers. Nothing here knows Ray."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Tuning = tuple[str, int]
"""One tuning of one strategy: its name (or ``searcher.ANY``) and the replicate."""


@dataclass(frozen=True)
class GoOn:
    """A trial trains on.

    Attributes:
        trial: Its ordinal name, for example ``0007``.
        until: It pauses, or is complete, when what is counted (epochs, updates or seconds) has reached this.
    """

    trial: str
    until: float


@dataclass(frozen=True)
class Begin:
    """A new trial begins.

    Attributes:
        tuning: Whose trial it is.
        until: It pauses, or is complete, when what is counted has reached this.
        values: By dimension, as ``Space.choose`` and ``Space.values`` name them; None: as the searcher suggests.
    """

    tuning: Tuning
    until: float
    values: Mapping[str, Any] | None = None


Step = GoOn | Begin


class Policy(Protocol):
    """Decides which trial gets the next epochs.

    Its answers depend on what it was told and on its seed alone. What it is told again, as after a resume, changes
    nothing.
    """

    def begun(self, trial: str, tuning: Tuning, config: Mapping[str, Any]) -> None:
        """Note that a trial has got its config."""

    def seen(self, trial: str, reached: float, value: float) -> None:
        """Note one evaluation: the current value of the objective."""

    def ended(self, trial: str, *, reached: float, diverged: bool, failed: bool) -> None:
        """Note that a trial is complete, has diverged or failed, or was stopped: it will not go on."""

    def next(self, running: Collection[str]) -> Step | None:
        """Return what one free slot does next; None: there is nothing to do now."""

    @property
    def open(self) -> Collection[Tuning]:
        """The tunings that may go on: paused trials of the others never will."""

    @property
    def finished(self) -> bool:
        """Whether every budget is spent: what is still paused stays stopped early."""

    def state(self) -> dict[str, Any]:
        """Return what was learnt as plain values that JSON can hold."""

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
