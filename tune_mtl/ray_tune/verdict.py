"""A scheduler's decision about a trial: a value that goes to searcher, tracker and screen, so that nobody infers it."""

from dataclasses import dataclass
from typing import Any, Protocol

from ray.tune.experiment import Trial


@dataclass(frozen=True)
class Verdict:
    """Whether a trial goes on after an evaluation, and why not.

    Attributes:
        stops: Whether it is stopped for good.
        reason: Why, in a few words; empty for a trial that goes on.
        pauses: Whether it waits for further epochs, and gives its worker back.
    """

    stops: bool
    reason: str = ""
    pauses: bool = False

    @classmethod
    def stop(cls, reason: str) -> "Verdict":
        """Return the verdict that a trial is stopped."""
        return cls(stops=True, reason=reason)


GO_ON = Verdict(stops=False)
"""The verdict that a trial goes on."""

PAUSE = Verdict(stops=False, pauses=True)
"""The verdict that a trial waits."""


class Judge(Protocol):
    """Someone who decides which trials are stopped early."""

    def enter(self, trial: Trial) -> None:
        """Get to know a trial; again after a resume, where it may be known already."""

    def judge(self, trial: Trial, result: dict[str, Any]) -> Verdict:
        """Decide about a trial after an evaluation."""

    def leave(self, trial: Trial, result: dict[str, Any] | None = None) -> None:
        """Let go of a trial that has ended, with its last ``result`` if it gave one."""

    def state(self) -> dict[str, Any]:
        """Return what a resume needs, as plain values."""

    def take_up(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
