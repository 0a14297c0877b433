"""A gentle stop: SIGTERM, which batch systems and Kubernetes send first, is treated as Ctrl-C is."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CTRL_C, SIGTERM = 130, 143


class Interrupted(KeyboardInterrupt):
    """A command was stopped by Ctrl-C or SIGTERM.

    Attributes:
        way_on: What to type to go on, for people.
    """

    def __init__(self, way_on: str) -> None:
        super().__init__(way_on)
        self.way_on = way_on


class _State:
    """Whether SIGTERM has come."""

    terminated = False


def exit_code() -> int:
    """Return the exit code of a command that was stopped: 143 by SIGTERM, else 130."""
    return SIGTERM if _State.terminated else CTRL_C


def _on_sigterm(_: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do now; a second SIGTERM changes nothing."""
    if _State.terminated:
        return
    _State.terminated = True
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # Ctrl-C is ignored, as in a job in the background of a shell
        handler = signal.default_int_handler
    handler(signal.SIGINT, frame)


def heed_sigterm() -> None:
    """Have SIGTERM stop this process gently, also where a library has taken the signal for itself meanwhile."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _on_sigterm)


@contextmanager
def heeding_sigterm() -> Iterator[None]:
    """The same for the length of a ``with``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    _State.terminated = False
    heed_sigterm()
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
