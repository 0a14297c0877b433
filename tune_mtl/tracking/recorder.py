"""Delivers to MLflow in the background and in order: training never waits for the store."""

import logging
import queue
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

_PATIENCE = 5
_PAUSE = 1.0


class Recorder:
    """A queue of calls and the one thread that makes them. One that fails is tried again, then logged and dropped."""

    def __init__(self) -> None:
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._deliver, name="tune-mtl-recorder", daemon=True)
        self._thread.start()
        self.seconds: list[float] = []

    def submit(self, call: Callable[[], None]) -> None:
        """Have ``call`` made after all that were submitted before it."""
        self._calls.put(call)

    def close(self) -> None:
        """Wait until everything is delivered."""
        self._calls.put(None)
        self._thread.join()

    def _deliver(self) -> None:
        while (call := self._calls.get()) is not None:
            started = time.perf_counter()
            for attempt in range(_PATIENCE):
                try:
                    call()
                    break
                except Exception:
                    logger.exception("tracking call failed (attempt %d of %d)", attempt + 1, _PATIENCE)
                    time.sleep(_PAUSE)
            self.seconds.append(time.perf_counter() - started)
