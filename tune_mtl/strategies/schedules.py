"""Learning-rate schedules by name: a factor of ``lr`` for each mini-batch. Imports no torch."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.options import Options, ShareOfRun

Scale: TypeAlias = Callable[[int], float]
"""The factor at a mini-batch, counted from 0: all updates on one mini-batch see the same."""


class ConstantOptions(Options):
    """A constant rate has no options."""


class CosineOptions(Options):
    """The factor goes from 1 to ``final`` along half a cosine of ``steps`` mini-batches, in a trial its length."""

    steps: Annotated[int, Field(ge=1), ShareOfRun(1.0)]
    final: Annotated[float, Field(ge=0, le=1)] = 0.0


class StepOptions(Options):
    """The rate is multiplied by ``factor`` after each ``every`` mini-batches."""

    every: Annotated[int, Field(ge=1)]
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1


def cosine(options: CosineOptions) -> Scale:
    """Return the factor along half a cosine, then its final value."""

    def scale(mini_batch: int) -> float:
        done = min(mini_batch / options.steps, 1.0)
        return options.final + (1.0 - options.final) * 0.5 * (1.0 + math.cos(math.pi * done))

    return scale


def step(options: StepOptions) -> Scale:
    """Return a factor that drops at regular distances."""
    return lambda mini_batch: options.factor ** (mini_batch // options.every)


@dataclass(frozen=True, kw_only=True)
class ScheduleInfo:
    """A schedule that a config can name; ``make`` is None where the rate never changes."""

    name: str
    options: type[Options]
    make: Callable[[Any], Scale] | None


schedules: dict[str, ScheduleInfo] = {
    info.name: info
    for info in (
        ScheduleInfo(name="constant", options=ConstantOptions, make=None),
        ScheduleInfo(name="cosine", options=CosineOptions, make=cosine),
        ScheduleInfo(name="step", options=StepOptions, make=step),
    )
}


def schedule_info(name: str) -> ScheduleInfo:
    """Return the record of schedule ``name``.

    Raises:
        UserError: if there is no such schedule.
    """
    if name not in schedules:
        raise UserError(f"unknown schedule '{name}'. {did_you_mean(name, schedules)}")
    return schedules[name]
