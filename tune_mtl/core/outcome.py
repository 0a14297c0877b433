"""How a trial ended, or that it has not: one set of words for trials, records and reports."""

from enum import StrEnum


class Outcome(StrEnum):
    """How a trial ended, or that it has not; each is its own text, in results, MLflow and reports."""

    RUNNING = "running"
    """It has not ended."""
    PAUSED = "paused"
    """It has not ended, and waits for further epochs."""
    INTERRUPTED = "interrupted"
    """It has not ended, and nobody trains it."""
    COMPLETED = "completed"
    """It was trained in full."""
    STOPPED_EARLY = "stopped_early"
    """The scheduler stopped it."""
    DIVERGED = "diverged"
    """A loss was no finite number."""
    FAILED = "failed"
    """It raised an exception, again after its retries, or did not fit into memory."""

    @property
    def ended(self) -> bool:
        """Return whether the trial has ended, in whatever way."""
        return self not in (Outcome.RUNNING, Outcome.PAUSED, Outcome.INTERRUPTED)

    @property
    def ranked(self) -> bool:
        """Return whether a trial that ended so can win."""
        return self in RANKED


RANKED = (Outcome.COMPLETED, Outcome.STOPPED_EARLY)
"""The outcomes that can win."""


def is_ranked(outcome: str | None) -> bool:
    """Return whether a run whose recorded outcome is ``outcome`` can win; an unknown word of another version cannot."""
    return outcome in RANKED
