"""Records of options made from a signature: the keywords of a user's own class or function. Loads no torch."""

import inspect
import types
import typing
import warnings
from collections.abc import Callable, Collection
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import create_model
from pydantic.errors import PydanticUserError

from tune_mtl.core.errors import UserError
from tune_mtl.core.options import Options, ShareOfRun

_PLAIN: tuple[Any, ...] = (bool, int, float, str, type(None))
_WHOLE: tuple[Any, ...] = (tuple, list, dict, typing.Union, types.UnionType)
"""What may hold values that a config can say."""


def options_of(made_by: Callable[..., Any], *, besides: Collection[str], who: str) -> type[Options]:
    """Return the record of what ``made_by`` takes besides some arguments: their names, types and defaults.

    A type is the annotation where a config can say such a value, else that of the default; marks (``Tunable``,
    ``ShareOfRun``) stay. An argument whose default no config can say, such as a function, is no option.

    Args:
        made_by: A class or a function.
        besides: The arguments that are no options.
        who: How messages name it: ``optimizer 'mine:Lamb'``.

    Raises:
        UserError: for an option without a default; one that is a share of the run's length needs none.
    """
    hints = _hints(made_by)
    fields: dict[str, Any] = {}
    for argument in parameters_of(made_by, who):
        if argument.name in besides or argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        hint = hints.get(argument.name, argument.empty)
        marks = hint.__metadata__ if get_origin(hint) is Annotated else ()
        kind = get_args(hint)[0] if marks else hint
        if argument.default is argument.empty:
            if not any(isinstance(mark, ShareOfRun) for mark in marks):
                raise UserError(
                    f"{who}: option '{argument.name}' has no default, and a search needs one: give it a value. (What is"
                    f" counted in mini-batches may follow the run: {argument.name}: Annotated[int, ShareOfRun(1.0)].)"
                )
            fields[argument.name] = (hint, ...)
            continue
        if not _sayable(kind):
            kind = _kind_of(argument.default)
        if kind is not None:
            fields[argument.name] = (Annotated[(kind, *marks)] if marks else kind, argument.default)
    return _record(made_by, fields, who)


def parameters_of(made_by: Callable[..., Any], who: str) -> list[inspect.Parameter]:
    """Return the arguments of a class or a function.

    Raises:
        UserError: where nobody can tell, as of some that are written in C.
    """
    try:
        return list(inspect.signature(made_by).parameters.values())
    except (TypeError, ValueError):
        raise UserError(f"{who}: its arguments cannot be found out: wrap it in a function that names them.") from None


def _hints(made_by: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, read where they are texts; of those that cannot be read, none."""
    function = made_by.__init__ if isinstance(made_by, type) else made_by  # type: ignore[misc]
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # whatever a user's annotation raises when it is read: types follow from defaults then
        return {}


def _sayable(kind: Any) -> bool:
    """Return whether every value of a type is one that a config can say."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _sayable(get_args(kind)[0])
    if origin is Literal:
        return all(isinstance(value, _PLAIN) for value in get_args(kind))
    if origin in _WHOLE:
        return all(part is Ellipsis or _sayable(part) for part in get_args(kind))
    return any(kind is plain for plain in _PLAIN)


def _kind_of(default: Any) -> Any:
    """Return the type of an option with this default and no annotation; None where no config can say the default."""
    if default is None:
        return bool | int | float | str | None
    if isinstance(default, bool | str):
        return type(default)
    if isinstance(default, int):
        return int | float
    if isinstance(default, float):
        return float
    if isinstance(default, tuple):
        kinds = [_kind_of(value) for value in default]
        return None if None in kinds else tuple[tuple(kinds)]  # type: ignore[misc]
    return None


def _record(made_by: Callable[..., Any], fields: dict[str, Any], who: str) -> type[Options]:
    name = f"{getattr(made_by, '__name__', 'Own')}Options"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made: type[Options] = create_model(name, __base__=Options, **fields)
    except (PydanticUserError, NameError, TypeError, ValueError, UserWarning) as error:
        raise UserError(f"{who}: its options cannot be read: {' '.join(str(error).split())}") from None
    made.__doc__ = f"The options of {who}."
    return made
