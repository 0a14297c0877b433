"""Schedules that users bring: functions whose keywords are their options, ``warmup(steps=100)(mini_batch) -> factor``.

The factor must follow from the mini-batch alone: a run that goes on asks for it in the middle. Loads no torch.
"""

import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import in_a_line, is_reference, load, reference_to
from tune_mtl.core.options import Options
from tune_mtl.core.signatures import options_of
from tune_mtl.strategies.own_names import check_name_is_free, short_name
from tune_mtl.strategies.schedules import Scale, ScheduleInfo, schedule_info, welcome_schedule

AskedSchedule: TypeAlias = "str | Callable[..., Scale]"

_OF_TORCH = "torch.optim.lr_scheduler"
_MOST = 2000
"""Mini-batches of a run that are looked at."""

_given: dict[str, Any] = {}
"""What was given as an object, by reference: nobody else may be able to import what a notebook defines."""


def admit_schedule(asked: AskedSchedule, directory: str | None = None) -> str:
    """Return the name of a schedule; one that is brought is loaded, and known by that name from then on.

    Args:
        asked: A name, ``package.module:function``, or the function itself.
        directory: Where a module is looked for first; default: the current directory.

    Raises:
        UserError: if there is no such schedule, or what there is cannot be one.
    """
    if isinstance(asked, str) and not is_reference(asked):
        return schedule_info(asked).name
    if isinstance(asked, str):
        reference = asked
        found = _given[reference] if reference in _given else load(reference, directory)
    else:
        reference, found = (reference_to(asked) if hasattr(asked, "__qualname__") else repr(asked)), asked
    who = f"schedule '{reference}'"
    if isinstance(found, type) and any(base.__module__ == _OF_TORCH for base in found.__mro__):
        raise UserError(
            f"'{reference}' is a scheduler of torch's, which changes an optimizer by itself: give a function that"
            " returns mini_batch -> factor, or one of those built in (tune-mtl schedules)."
        )
    if not callable(found) or not hasattr(found, "__name__"):
        raise UserError(
            f"'{reference}' is no schedule but a value of type {type(found).__name__}: it must be a function that"
            " returns mini_batch -> factor."
        )
    name = short_name(found)
    check_name_is_free(name, "schedule", who)
    options = options_of(found, besides=(), who=who)
    if not isinstance(asked, str):
        _given[reference] = found
    title = (inspect.getdoc(found) or "").partition("\n")[0].strip() or reference

    def make(record: Options) -> Scale:
        return _guarded(found, record, who)

    welcome_schedule(
        ScheduleInfo(name=name, title=title, options=options, make=make, reference=reference, brought=found)
    )
    return name


def schedule_given_as_object(reference: str) -> Any:
    """Return what was given as an object under ``reference``, or None."""
    return _given.get(reference)


def try_schedule(info: ScheduleInfo, options: Options, mini_batches: int) -> None:
    """Ask a schedule that was brought for the factors of a run of so many mini-batches, and see whether they can be.

    Raises:
        UserError: for the first mini-batch whose factor is none, or another when it is asked for again.
    """
    if info.brought is None or info.make is None:
        return
    stride = max(1, math.ceil(mini_batches / _MOST))
    places = sorted({*range(0, mini_batches, stride), max(0, mini_batches - 1)})
    scale = info.make(options)
    factors = {place: scale(place) for place in places}
    later = info.make(options)
    for place in reversed(places):
        if (again := later(place)) != factors[place]:
            raise UserError(
                f"schedule '{info.reference}' gives {factors[place]:g} for mini-batch {place}, and {again:g} when it is"
                " asked in another order: the factor must follow from the mini-batch alone, since runs go on from the"
                " middle."
            )


def _guarded(found: Callable[..., Any], record: Options, who: str) -> Scale:
    """Return the factors of a schedule that was brought; what is none is said in a line."""
    given = {name: getattr(record, name) for name in type(record).model_fields}
    said = ", ".join(f"{name}={value}" for name, value in given.items()) or "no options"
    try:
        scale = found(**given)
    except Exception as error:
        raise UserError(f"{who} cannot be made with {said}: {in_a_line(error)}") from error
    if not callable(scale):
        raise UserError(
            f"{who} returns a value of type {type(scale).__name__}, but must return a function mini_batch -> factor."
        )

    def factor(mini_batch: int) -> float:
        try:
            value = scale(mini_batch)
        except Exception as error:
            raise UserError(f"{who} fails at mini-batch {mini_batch}, with {said}: {in_a_line(error)}") from error
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < 0:
            shown = value if isinstance(value, Real) else f"a value of type {type(value).__name__}"
            raise UserError(
                f"{who} gives {shown} for mini-batch {mini_batch}, with {said}: a factor of the learning rate must be a"
                " finite number that is not negative."
            )
        return float(value)

    return factor
