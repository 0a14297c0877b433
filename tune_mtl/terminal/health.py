"""What `tune-mtl doctor` shows: a line per check, what is the same on several nodes once, failures last."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from tune_mtl.preflight.checks import Check
from tune_mtl.terminal.console import console

_NAMED = 3
"""Nodes that are named where all is well; others are counted. Where it is not, all are named."""
_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}


def run_doctor(*, address: str | None, storage: str | None, tracking_uri: str | None, data: str | None) -> bool:
    """Examine and print; returns whether nothing has failed."""
    from tune_mtl.preflight.doctor import examine

    with console().status("looking at every node ..."), _hushed():
        checks = examine(address=address, storage=storage, tracking_uri=tracking_uri, data=data)
    show_checks(checks)
    return all(check.state != "failure" for check in checks)


def show_checks(checks: Sequence[Check]) -> None:
    """Print the checks and what they come to."""
    screen = console()
    together: dict[Check, list[str]] = {}
    for check in sorted(checks, key=lambda check: list(_COLOURS).index(check.state)):
        together.setdefault(Check(check.state, "", check.what, check.way_out), []).append(check.where)
    places = {check: _places(check, nodes) for check, nodes in together.items()}
    width = max(map(len, places.values()), default=0)
    for check, place in places.items():
        _print(screen, check, place, min(width, 40))
    counts = {state: sum(check.state == state for check in checks) for state in _COLOURS}
    if counts["failure"] or counts["warning"]:
        screen.print(f"\n{_count(counts['failure'], 'failure')}, {_count(counts['warning'], 'warning')}.")
    else:
        screen.print("\nall is well.")


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what Ray's own core writes to the error stream, a line per second, where it is not let in."""
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


def _print(screen: Console, check: Check, place: str, width: int) -> None:
    screen.print(f"{check.state:<8} ", style=_COLOURS[check.state], end="")
    screen.print(f"{place:<{width}}  {check.what}{f' -> {check.way_out}' if check.way_out else ''}", soft_wrap=True)


def _places(check: Check, nodes: Sequence[str]) -> str:
    named = list(dict.fromkeys(nodes))
    return ", ".join(named) if check.state != "ok" or len(named) <= _NAMED else f"{len(named)} nodes"


def _count(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
