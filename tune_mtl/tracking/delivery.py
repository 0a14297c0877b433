"""Delivers to MLflow in the background and in order: training never waits for the store."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tune_mtl.tracking.journal import Journal

logger = logging.getLogger(__name__)

_ATTEMPTS = 5
"""Of a call that fails although the store answers; then it is logged and left out."""
_PAUSE = 1.0
_PATIENCE = 60.0
"""Seconds that the end of a search waits for a store that does not answer."""


class Delivery:
    """The one thread that makes the calls of a journal.

    A store that does not answer is waited for; what cannot be delivered by the end stays in the journal for a resume.

    Args:
        journal: The records.
        calls: What a record may ask for, by name; every call bears repetition.
        answers: Whether the store does.
    """

    def __init__(
        self, journal: Journal, calls: Mapping[str, Callable[..., None]], answers: Callable[[], bool] = lambda: True
    ) -> None:
        self._journal, self._calls, self._answers = journal, calls, answers
        self._new = threading.Event()
        self._give_up_at: float | None = None
        self.seconds: list[float] = []
        self._thread = threading.Thread(target=self._deliver, name="tune-mtl-recorder", daemon=True)
        self._thread.start()

    def submit(self, call: str, **arguments: Any) -> None:
        """Have ``call`` made, with plain values, after all that were submitted before it."""
        self._journal.append({"call": call, "arguments": arguments})
        self._new.set()

    def close(self, patience: float | None = None) -> int:
        """Wait until everything is delivered, or the store has not answered for ``patience`` seconds; returns how many
        records wait."""
        self._give_up_at = time.monotonic() + (_PATIENCE if patience is None else patience)
        self._new.set()
        self._thread.join()
        waiting = self._journal.waiting()
        self._journal.close()
        return waiting

    def _deliver(self) -> None:
        attempts = 0
        while True:
            self._new.clear()
            closing = self._give_up_at is not None  # asked before looking: nothing is submitted after it
            record = self._journal.next()
            if record is None:
                if closing:
                    return
                self._new.wait()
                continue
            started = time.perf_counter()
            try:
                self._calls[record["call"]](**record["arguments"])
            except Exception:
                attempts += 1
                if self._answers():
                    logger.exception("tracking call %s failed (attempt %d of %d)", record["call"], attempts, _ATTEMPTS)
                else:
                    attempts = 0
                    logger.warning("the tracking store does not answer; %d records wait", self._journal.waiting())
                    if self._give_up_at is not None and time.monotonic() > self._give_up_at:
                        return
                if attempts < _ATTEMPTS:
                    time.sleep(_PAUSE)
                    continue
            else:
                if self._give_up_at is not None:
                    self._give_up_at = time.monotonic() + _PATIENCE
            attempts = 0
            self._journal.done()
            self.seconds.append(time.perf_counter() - started)
