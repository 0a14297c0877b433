"""Dimensions as people write them: ``32,64,128``, ``1e-4:1e-1:log``, a list, or a mapping in a file; and back."""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from search_spaces.dimension import Choice, Dimension, IntRange, LogRange, Range
from tune_mtl.core.errors import UserError

FORMS = "a range LOW:HIGH, LOW:HIGH:log, or values A,B,C"
_WHOLE = re.compile(r"[-+]?\d+")
_KEYS = ("low", "high", "log", "grid")


def read_dimension(given: Any) -> Dimension:
    """Return the dimension that a text, a list, a mapping with ``low`` and ``high``, or one value stands for.

    ``4:16`` are whole numbers, ``4.0:16`` all numbers; ``:log`` has them searched by order of magnitude.

    Raises:
        UserError: for anything else, without saying where it stands.
    """
    if isinstance(given, Choice | Range | IntRange):
        return given
    if isinstance(given, str):
        return _read_text(given.strip())
    if isinstance(given, Mapping):
        return _read_mapping(given)
    if given is None:
        raise UserError(f"has no values: it must be {FORMS}.")
    return _choice(given if isinstance(given, list | tuple) else [given])


def write_dimension(dimension: Dimension, *, log_is_usual: bool = False) -> Any:
    """Return what :func:`read_dimension` reads as ``dimension``: a list of values, a text, or a mapping.

    ``log_is_usual``: of a key whose ranges are searched on a log scale unless a mapping says otherwise.
    """
    if isinstance(dimension, Choice):
        return list(dimension.values)
    log = isinstance(dimension, LogRange) or (isinstance(dimension, IntRange) and dimension.log)
    low, high = dimension.low, dimension.high
    if isinstance(dimension, Range):
        low, high = float(low), float(high)
    grid = list(dimension.grid) if isinstance(dimension, Range) else []
    if grid or (log_is_usual and not log):
        return {"low": low, "high": high, "log": log, **({"grid": grid} if grid else {})}
    return f"{low!r}:{high!r}{':log' if log else ''}"


def reads_as(text: str, values: list[Any]) -> bool:
    """Return whether ``text`` is read as the choice of these ``values``."""
    try:
        return read_dimension(text) == Choice(tuple(values))
    except UserError:
        return False


def _read_text(text: str) -> Dimension:
    if text.startswith("{"):
        with suppress(ValueError, RecursionError):
            return _read_mapping(json.loads(text))
    low, colon, rest = text.partition(":")
    if colon and "," not in text and (_number(low) is not None or _number(rest.partition(":")[0]) is not None):
        high, _, scale = rest.partition(":")
        ends = (_number(low), _number(high))
        if None in ends or scale not in ("", "log") or rest.endswith(":"):
            raise UserError(f"{text!r} must be {FORMS}.")
        return range_of(*ends, log=scale == "log")  # type: ignore[arg-type]
    if not text:
        raise UserError(f"has no values: it must be {FORMS}.")
    with suppress(ValueError, RecursionError):
        return _choice(json.loads(f"[{text}]"))
    return _choice([_value(part.strip()) for part in text.split(",")])


def _read_mapping(given: Mapping[Any, Any]) -> Dimension:
    unknown = [key for key in given if key not in _KEYS]
    if unknown or "low" not in given or "high" not in given:
        raise UserError(f"{dict(given)!r} must have low and high, and may have log and grid.")
    low, high, log, grid = (given.get(key) for key in _KEYS)
    numbers = [low, high, *(grid if isinstance(grid, list | tuple) else [])]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise UserError(f"{dict(given)!r} must have numbers as low and high, and a list of numbers as grid.")
    if log not in (None, True, False):
        raise UserError(f"{dict(given)!r} must have true or false as log.")
    found = range_of(low, high, log=bool(log))  # type: ignore[arg-type]
    if not grid:
        return found
    return (LogRange if log else Range)(float(low), float(high), tuple(map(float, grid)))  # type: ignore[arg-type]


def range_of(low: float, high: float, *, log: bool) -> Dimension:
    """Return a range of whole numbers if both ends are ``int``, else of all numbers."""
    if isinstance(low, int) and isinstance(high, int):
        return IntRange(low, high, log)
    return LogRange(float(low), float(high)) if log else Range(float(low), float(high))


def _choice(values: Any) -> Choice:
    seen = set()
    for value in values:
        if isinstance(value, list | tuple | Mapping):
            raise UserError(f"{value!r} is a list or a mapping: values must be numbers, texts, true or false.")
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{value!r} must be a finite number.")
        if value == "":
            raise UserError(f"one of its values is empty: it must be {FORMS}.")
        if (type(value), value) in seen:
            raise UserError(f"{value!r} is there twice.")
        seen.add((type(value), value))
    return Choice(tuple(values))


def _number(text: str) -> float | None:
    """Return the whole or other number that ``text`` is; None if it is none."""
    if _WHOLE.fullmatch(text.strip()):
        return int(text)
    with suppress(ValueError):
        return float(text)
    return None


def _value(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    number = _number(text)
    return text if number is None else number


def parse_numbers(text: str, *, log: bool) -> Dimension:
    """``1e-4:1e-2`` is a range, ``1e-4,1e-3`` a choice, ``1e-3`` one value.

    Raises:
        UserError: for anything else.
    """
    try:
        if ":" in text:
            low, high = (float(part) for part in text.split(":"))
            return LogRange(low, high) if log else IntRange(int(low), int(high))
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{text!r} must be numbers: LOW:HIGH, or A,B,C, or one value.") from None
    return Choice(tuple(values if log else [int(value) for value in values]))
