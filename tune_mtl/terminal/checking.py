"""What `tune-mtl check` shows: a line per law, and what they come to."""

from collections.abc import Sequence
from typing import Any

from tune_mtl.terminal.console import console
from tune_mtl.testing.law import LawResult

_COLOURS = {"held": "green", "broke": "red", "does not apply": "dim"}


def show_laws(results: Sequence[LawResult]) -> None:
    """Print each law with what came of it; then the counts."""
    screen = console()
    width = max(len(result.law) for result in results)
    for result in results:
        screen.print(f"{_words(result.law):<{width}}  ", end="", soft_wrap=True)
        screen.print(result.told(), style=_COLOURS[result.state], soft_wrap=True)
    screen.print(f"\n{_summary(results)}")


def as_json(strategy: str, results: Sequence[LawResult]) -> dict[str, Any]:
    """Return the same for programs."""
    held = all(result.state != "broke" for result in results)
    return {"strategy": strategy, "held": held, "laws": [result.as_json() for result in results]}


def _words(name: str) -> str:
    return name.replace("_", " ")


def _summary(results: Sequence[LawResult]) -> str:
    counts = {state: sum(result.state == state for result in results) for state in _COLOURS}
    told = f"{counts['held']} of {len(results)} laws held, {counts['broke'] or 'none'} broke"
    others = counts["does not apply"]
    return f"{told}, {others} do{'es' if others == 1 else ''} not apply." if others else f"{told}."
