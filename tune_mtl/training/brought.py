"""What of a config a user has brought: by its short name, and beside it where it is found."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import is_reference
from tune_mtl.strategies.admission import admit
from tune_mtl.strategies.parts import BUILT_IN, PARTS, Part, admit_part, reference_of_part
from tune_mtl.strategies.registry import entries, named


def with_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a config with strategy, optimizer and schedule by their names, and where they are found.

    ``strategy_from``, ``optimizer_from`` and ``schedule_from`` are there, or None, wherever the name itself is.

    Raises:
        UserError: for what is none of them, or has another name where it is found.
    """
    found = _with_contestant(given)
    for part in PARTS:
        found = _with_part(part, found)
    return dict(found)


def _with_contestant(given: Mapping[str, Any]) -> Mapping[str, Any]:
    asked = given.get("strategy")
    brought = asked is not None and (not isinstance(asked, str) or is_reference(asked))
    origin = asked if brought else given.get("strategy_from")
    if origin is None:
        return given if asked is None else {**given, "strategy_from": None, **named(str(asked))}
    if asked in entries:  # a flag has replaced the strategy of a config file
        return {**given, "strategy_from": None}
    name = admit(origin)
    if not brought and asked not in (None, name):
        raise UserError(f"strategy '{asked}' is to be found as '{origin}', but what is there is named '{name}'.")
    return {**given, "strategy_from": None, **named(name)}


def _with_part(part: Part, given: Mapping[str, Any]) -> Mapping[str, Any]:
    asked, beside = given.get(part), f"{part}_from"
    brought = asked is not None and (not isinstance(asked, str) or is_reference(asked))
    origin = asked if brought else given.get(beside)
    if origin is None or asked in BUILT_IN[part]:  # beside it is what a flag has replaced
        return given if asked is None else {**given, beside: reference_of_part(part, str(asked))}
    name = admit_part(part, origin)
    if not brought and asked not in (None, name):
        raise UserError(f"{part} '{asked}' is to be found as '{origin}', but what is there is named '{name}'.")
    return {**given, part: name, beside: reference_of_part(part, name)}
