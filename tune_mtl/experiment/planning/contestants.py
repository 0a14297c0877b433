"""Strategies that users bring to a search: by their names in settings, and where they are found."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import has_module, in_main, is_reference
from tune_mtl.experiment.planning.every_strategy import EVERY
from tune_mtl.strategies.admission import admit, given_as_object
from tune_mtl.strategies.registry import reference_of


def with_contestants(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with every strategy by its name; ``contestants`` says where those brought are found.

    Args:
        given: Settings of a search; its ``strategies`` may be names, ``package.module:Class``, and classes.

    Raises:
        UserError: for what is no strategy, or two of one name.
    """
    asked = given.get("strategies")
    if asked is None:
        return dict(given)
    listed = [asked] if isinstance(asked, str | type) else list(asked)
    names: list[str] = []
    contestants: dict[str, str] = {}
    for contestant in listed:
        name = contestant if contestant == EVERY else admit(contestant)
        reference = None if name == EVERY else reference_of(name)
        if reference is not None and contestants.setdefault(name, reference) != reference:
            raise UserError(
                f"strategies '{contestants[name]}' and '{reference}' are both named '{name}': give the record of one"
                " of them another name, StrategyInfo(name=...)."
            )
        names.append(name)
    return {**given, "strategies": tuple(names), **({"contestants": contestants} if contestants else {})}


def readmit(contestants: Mapping[str, str]) -> None:
    """Have the strategies that a search was brought be known in this process too.

    Raises:
        UserError: if one is not where it was found, or has another name there.
    """
    for name, reference in contestants.items():
        if not has_module(reference) and given_as_object(reference) is None and not in_main(reference):
            raise UserError(
                f"strategy '{name}' was given as an object, {reference}, which no other process can import: go on in"
                " the notebook or program that defines it, or put it into a module of its own and search again."
            )
        found = admit(reference)
        if found != name:
            raise UserError(f"strategy '{name}' of this search is '{reference}', which is named '{found}' now.")


def readmit_sampler(algorithm: str) -> None:
    """Have the module of a user's sampler be found in this process too, which may have been started elsewhere.

    Raises:
        UserError: if it is not where it was found.
    """
    if is_reference(algorithm):
        from tune_mtl.ray_tune.samplers import sampler_class  # it loads Optuna, which most plans can do without

        sampler_class(algorithm)
