"""Commands that read, answer and end: Python looks for garbage seldom in them, and not at all when they end."""

import atexit
import functools
import gc
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_OBJECTS = 1_000_000
"""How many new objects come before Python looks for garbage: loading MLflow makes fewer, a large report more."""

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def short_lived(command: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """Return the command with Python's search for garbage turned down while it runs and when its process ends.

    Such a command mostly loads modules, and none of what they hold is garbage. Looking through all of it again and
    again, and once more at the end of the process, takes half of the command's time.
    """

    @functools.wraps(command)
    def run(*args: _Given.args, **options: _Given.kwargs) -> _Answer:
        usual = gc.get_threshold()
        gc.set_threshold(_OBJECTS)
        atexit.register(_end_at_once)
        try:
            return command(*args, **options)
        finally:
            gc.set_threshold(*usual)

    return run


def _end_at_once() -> None:
    """Let the process end without a look through all objects; where torch is loaded, parts of it would report leaks."""
    if "torch" not in sys.modules:
        gc.freeze()
