"""Strategies that users bring: found, checked as far as their class tells, and known by a short name from then on."""

import inspect
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import is_reference, load, reference_to
from tune_mtl.strategies.info import count
from tune_mtl.strategies.optimizers import known_optimizers
from tune_mtl.strategies.own_names import OTHER_OWNERS
from tune_mtl.strategies.registry import entries, known_strategy, strategy_class, welcome
from tune_mtl.strategies.schedules import known_schedules

if TYPE_CHECKING:
    from tune_mtl.strategies.base import Strategy

Contestant: TypeAlias = "str | type[Strategy[Any]]"
"""How a strategy is asked for: the name of one that is built in, ``package.module:Class``, or the class itself."""

_given: dict[str, "type[Strategy[Any]]"] = {}
"""The classes that were given as such, by reference: nobody else may be able to import those of a notebook."""


def admit(contestant: Contestant, directory: str | None = None) -> str:
    """Return the name of a strategy; one that is brought is loaded, and known by that name from then on.

    Args:
        contestant: A name, ``package.module:Class``, or a class.
        directory: Where a module is looked for first; default: the current directory.

    Raises:
        UserError: if there is no such strategy, or what there is cannot be one.
    """
    if isinstance(contestant, str) and not is_reference(contestant):
        known_strategy(contestant)
        return contestant
    checked, reference = _found(contestant, directory)
    if not isinstance(contestant, str):
        _given[reference] = checked
    if not _is_built_in(checked):
        welcome(checked, reference)
    return checked.info.name


def class_of(contestant: Contestant, directory: str | None = None) -> "type[Strategy[Any]]":
    """Return the class of a strategy; one that is brought is not known by its name for that.

    Raises:
        UserError: if there is no such strategy, or what there is cannot be one.
    """
    if isinstance(contestant, str) and not is_reference(contestant):
        return strategy_class(contestant)
    return _found(contestant, directory)[0]


def _found(contestant: Contestant, directory: str | None) -> "tuple[type[Strategy[Any]], str]":
    """Return the class of a strategy that is brought, checked, and where it is found."""
    if isinstance(contestant, str):
        return _checked(_given.get(contestant) or load(contestant, directory), contestant), contestant
    reference = reference_to(contestant) if isinstance(contestant, type) else repr(contestant)
    return _checked(contestant, reference), reference


def given_as_object(reference: str) -> "type[Strategy[Any]] | None":
    """Return the class that was given as such under ``reference``, if one was."""
    return _given.get(reference)


def _owners() -> set[str]:
    """Return the names that own options of a config, or mean something else in a list of strategies."""
    return {*OTHER_OWNERS, *known_optimizers(), *known_schedules()}


def _is_built_in(found: "type[Strategy[Any]]") -> bool:
    return found.info.name in entries and strategy_class(found.info.name) is found


def _checked(found: Any, reference: str) -> "type[Strategy[Any]]":
    """Return ``found`` if it is a strategy that can take part, as far as its class tells.

    Raises:
        UserError: saying why it is none.
    """
    from tune_mtl.core.options import Options
    from tune_mtl.strategies.base import Strategy
    from tune_mtl.strategies.info import StrategyInfo

    if not isinstance(found, type) or not issubclass(found, Strategy):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"a value of type {type(found).__name__}"
        raise UserError(f"'{reference}' is no strategy but {kind}: it must be a subclass of tune_mtl.Strategy.")
    info = getattr(found, "info", None)
    if not isinstance(info, StrategyInfo):
        raise UserError(f"strategy '{reference}' has no record: give it info = StrategyInfo(title=..., rule=...).")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise UserError(f"strategy '{reference}' has no rule: it does not define {missing}.")
    if not _is_built_in(found) and (info.name in entries or info.name in _owners()):
        raise UserError(
            f"strategy '{reference}' is named '{info.name}', as something built in is: give it a record of its own"
            " with another name, info = StrategyInfo(name=...)."
        )
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", info.name):
        raise UserError(
            f"strategy '{reference}' is named '{info.name}': a name has small letters, digits and _ only, as in"
            " StrategyInfo(name='inverse_loss')."
        )
    if not isinstance(info.options, type) or not issubclass(info.options, Options):
        raise UserError(f"strategy '{reference}': the options of its record must be a subclass of tune_mtl.Options.")
    _check_methods(found, reference)
    for cost in ("forwards", "backwards", "updates", "states", "waits"):
        try:
            count(getattr(info, cost), 2, 2)
        except (TypeError, ValueError, AttributeError):
            raise UserError(
                f"strategy '{reference}': {cost}={getattr(info, cost)!r} must be a number per mini-batch as text: '1',"
                " 'N' (tasks), 'G' (groups), '2 N' or a sum such as 'G + 1'."
            ) from None
    required = [option for option, field in info.options.model_fields.items() if field.is_required()]
    if required:
        raise UserError(
            f"strategy '{reference}': option '{required[0]}' has no default, and a search needs one: give it a value."
        )
    return found


def _check_methods(found: "type[Strategy[Any]]", reference: str) -> None:
    """Refuse a class with a helper that has the name of a method of all strategies, and cannot be called as that.

    Raises:
        UserError: naming it, and how it is called.
    """
    from tune_mtl.strategies.base import Strategy

    for name, usual in vars(Strategy).items():
        own = inspect.getattr_static(found, name, None)
        if name.startswith("_") or own is usual or not inspect.isfunction(usual) or not inspect.isfunction(own):
            continue
        needed = inspect.signature(usual).parameters.values()
        try:
            inspect.signature(own).bind(*(each.name for each in needed if each.default is each.empty))
        except TypeError:
            called = ", ".join(each.name for each in needed if each.name != "self")
            raise UserError(
                f"strategy '{reference}' has a method {name}{inspect.signature(own)}, but every strategy is called as"
                f" {name}({called}): give your own another name."
            ) from None
