"""When a checkpoint is due: saving may take a small share of the time that passes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.03
"""Of the time that passes, saving checkpoints takes no more than this."""


class SavingPace:
    """Measures what saving costs, and says when the next time is due.

    Args:
        first_at_once: Whether the first time is due from the beginning.
    """

    def __init__(self, *, first_at_once: bool) -> None:
        self._saved_at = -float("inf") if first_at_once else time.monotonic()
        self._cost = 0.0

    @property
    def due(self) -> bool:
        """Whether saving again would cost no more than its share of the time since the last time."""
        return (time.monotonic() - self._saved_at) * SHARE >= self._cost

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measure what is saved in the ``with``."""
        started = time.monotonic()
        yield
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - started
