"""A gentle stop: SIGTERM, which batch systems and Kubernetes send first, is treated as Ctrl-C is."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

CTRL_C, SIGTERM = 130, 143


class Interrupted(KeyboardInterrupt):
    """A command was stopped by Ctrl-C or SIGTERM.

    Attributes:
        way_on: What a person types to go on.
    """

    def __init__(self, way_on: str) -> None:
        super().__init__(way_on)
        self.way_on = way_on


@contextmanager
def told_how_to_go_on(way_on: Callable[[], str]) -> Iterator[None]:
    """Have whoever stops what is done here, at whatever moment, be told how to go on with it."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        raise (stopped if isinstance(stopped, Interrupted) else Interrupted(way_on())) from None


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
    """Have SIGTERM stop this process gently for the length of a ``with``."""
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


@contextmanager
def postponed() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM wait for the end of the ``with``, where what has happened is written down.

    Raises:
        KeyboardInterrupt: at the end if one came; at once if a second one comes, since somebody is in a hurry.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, came = signal.getsignal(signal.SIGINT), []

    def remember(number: int, _: FrameType | None) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if came:
        raise KeyboardInterrupt


class Lent:
    """Ctrl-C while a library has it for itself.

    Ray Tune gives the signal back when it comes, and keeps it for ever if it does not: the next one would be lost.
    """

    def __init__(self) -> None:
        self._owner = signal.getsignal(signal.SIGINT)

    def take_back(self) -> bool:
        """Return whether it came, and have Ctrl-C do from now on what it did before."""
        if threading.current_thread() is not threading.main_thread() or self._owner is None:
            return False
        came = signal.getsignal(signal.SIGINT) == self._owner
        signal.signal(signal.SIGINT, self._owner)
        return came
