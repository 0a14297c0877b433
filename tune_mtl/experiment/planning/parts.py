"""Optimizers and schedules that users bring to a search: by their names in its space, and where they are found."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from search_spaces import Choice, Dimension, Space
from search_spaces.default import tunable_options
from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import has_module, in_main, is_reference
from tune_mtl.core.problem import Problem
from tune_mtl.strategies.parts import (
    PARTS,
    Part,
    admit_part,
    options_of_part,
    part_given_as_object,
    reference_of_part,
)


def with_part_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with optimizer and schedule as texts: a name, or where one that was brought is found.

    Raises:
        UserError: for what is none.
    """
    found = dict(given)
    if isinstance(found.get("fixed"), Mapping):
        found["fixed"] = _as_texts(found["fixed"])
    return _as_texts(found)


def _as_texts(given: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(given)
    for part in PARTS:
        asked = found.get(part)
        if isinstance(asked, str) and "," in asked:
            raise UserError(f"--{part} {asked}: all trials have one and the same; --search {part}={asked} tries each.")
        if asked is not None:
            name = admit_part(part, found[part])
            found[part] = reference_of_part(part, name) or name
    return found


def readmit_parts(decided: Mapping[str, Any]) -> None:
    """Have what a search was brought be known in this process too.

    Raises:
        UserError: where only the program that defined it could have it.
    """
    for part in PARTS:
        reference = decided.get(part)
        if not isinstance(reference, str) or not is_reference(reference) or has_module(reference):
            continue
        if part_given_as_object(part, reference) is None and not in_main(reference):
            raise UserError(
                f"{part} '{reference}' was given as an object, which no other process can import: go on in the notebook"
                " or program that defines it, or put it into a module of its own and search again."
            )


def with_parts(space: Space, problem: Problem) -> Space:
    """Return the space with every optimizer and schedule by its name; what is tunable of them is searched in ``wide``.

    Raises:
        UserError: for what is none, or two of one name.
    """
    named = replace(
        space,
        dimensions=_named(space.dimensions),
        per_strategy={strategy: _named(own) for strategy, own in space.per_strategy.items()},
    )
    if space.name != "wide":
        return named
    dimensions = dict(named.dimensions)
    for part in PARTS:
        for name in _tried(part, named, problem):
            for key, dimension in tunable_options(name, options_of_part(part, name)).items():
                if key not in problem.defaults:
                    dimensions.setdefault(key, dimension)
    return replace(named, dimensions=dimensions)


def of_each_part(space: Space, strategy: str) -> Iterator[dict[str, Any]]:
    """Yield a config of ``strategy`` with each optimizer and each schedule, where several are tried."""
    for part in PARTS:
        tried = space.of(strategy).get(part)
        for name in tried.points() if tried is not None and len(tried.points()) > 1 else ():
            yield next(config for config in space.grid(strategy) if config[part] == name)


def _named(dimensions: Mapping[str, Dimension]) -> dict[str, Dimension]:
    found = dict(dimensions)
    for part in PARTS:
        if part not in found:
            continue
        origins: dict[str, Any] = {}
        for asked in found[part].points():
            name = admit_part(part, asked)
            origin = reference_of_part(part, name) or name
            if origins.get(name) == origin:
                raise UserError(f"{part}='{asked}' is '{name}', which is there twice: leave one of them out.")
            if origins.setdefault(name, origin) != origin:
                raise UserError(
                    f"{part}s '{origins[name]}' and '{origin}' are both named '{name}': rename one of them."
                )
        found[part] = Choice(tuple(origins))
    return found


def _tried(part: Part, space: Space, problem: Problem) -> list[str]:
    dimension = space.dimensions.get(part)
    if dimension is not None:
        return list(dimension.points())
    own = problem.defaults.get(part)
    return [] if own is None else [admit_part(part, own)]
