"""What `tune-mtl doctor` shows: a line per check, what is the same on several nodes once, failures last."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tune_mtl.terminal.console import console

_NAMED = 3
"""Nodes that are named where all is well; others are counted. Where it is not, all are named."""
_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}


class Check(Protocol):
    """One thing that was looked at, as far as it is shown."""

    @property
    def state(self) -> str:
        """``ok``, ``warning`` or ``failure``."""

    @property
    def where(self) -> str:
        """The node, or the driver."""

    @property
    def what(self) -> str:
        """What was found."""

    @property
    def way_out(self) -> str:
        """What to do about it; empty if nothing need be done."""


def show_checks(checks: Sequence[Check]) -> None:
    """Print the checks and what they come to."""
    screen = console()
    together: dict[tuple[str, str, str], list[str]] = {}
    for check in sorted(checks, key=lambda check: list(_COLOURS).index(check.state)):
        together.setdefault((check.state, check.what, check.way_out), []).append(check.where)
    places = {shown: _places(shown[0], nodes) for shown, nodes in together.items()}
    width = max(map(len, places.values()), default=0)
    for (state, what, way_out), place in places.items():
        screen.print(f"{state:<8} ", style=_COLOURS[state], end="")
        screen.print(f"{place:<{min(width, 40)}}  {what}{f' -> {way_out}' if way_out else ''}", soft_wrap=True)
    counts = {state: sum(check.state == state for check in checks) for state in _COLOURS}
    if counts["failure"] or counts["warning"]:
        screen.print(f"\n{_count(counts['failure'], 'failure')}, {_count(counts['warning'], 'warning')}.")
    else:
        screen.print("\nall is well.")


@contextmanager
def looking() -> Iterator[None]:
    """Show that every node is looked at, without what Ray's own core writes where it is not let in."""
    with console().status("looking at every node ..."), _hushed():
        yield


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Show what is being done, a line that is always the latest; a plain output gets a line each."""
    screen = console()
    if not screen.is_terminal:
        yield screen.print
        return
    with screen.status("...") as status:
        yield lambda line: status.update(f"{line} ...")


class Law(Protocol):
    """What came of a law on a device, as far as it is shown."""

    @property
    def law(self) -> str:
        """Its name."""

    @property
    def said(self) -> str:
        """What went wrong."""


def show_device(
    device: str, tried: int, failures: Sequence[tuple[str, Law]], left_out: Sequence[str], page: str
) -> None:
    """Print what the examination of a device came to, and where its page is."""
    screen = console()
    for strategy, law in failures:
        screen.print("failed   ", style=_COLOURS["failure"], end="")
        screen.print(f"{strategy}, {law.law}: {law.said}", soft_wrap=True)
    if left_out:
        screen.print(f"left out: {', '.join(left_out)}", soft_wrap=True)
    broken = _count(len(failures), "law") + " broken" if failures else "all laws hold"
    screen.print(f"{device}: {tried} strategies, {broken}.\nthe page, to keep or to send: {page}", soft_wrap=True)


@contextmanager
def _hushed() -> Iterator[None]:
    """Discard what Ray's own core writes to the error stream: a line per second where it is not let in."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _places(state: str, nodes: Sequence[str]) -> str:
    """Return the names of nodes, or how many there are."""
    named = list(dict.fromkeys(nodes))
    return ", ".join(named) if state != "ok" or len(named) <= _NAMED else f"{len(named)} nodes"


def _count(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
