"""Learning-rate schedules by name: a factor of ``lr`` for each mini-batch. Imports no torch.

Those that users bring are admitted under a short name (`own_schedules`), and are known from then on in this process.
"""

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


class WarmupCosineOptions(Options):
    """The factor rises in a straight line for ``warmup`` mini-batches, then falls to ``final`` along half a cosine.

    ``steps`` is the length of both together, in a trial its own.
    """

    warmup: Annotated[int, Field(ge=0), ShareOfRun(0.1)]
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


def warmup_cosine(options: WarmupCosineOptions) -> Scale:
    """Return the factor along a straight line up to 1, then along half a cosine, then its final value.

    The first of W mini-batches of warm-up has the factor 1 / (W + 1): a mini-batch at factor 0 would be lost.
    """

    def scale(mini_batch: int) -> float:
        if mini_batch < options.warmup:
            return (mini_batch + 1) / (options.warmup + 1)
        done = min((mini_batch - options.warmup) / max(1, options.steps - options.warmup), 1.0)
        return options.final + (1.0 - options.final) * 0.5 * (1.0 + math.cos(math.pi * done))

    return scale


def step(options: StepOptions) -> Scale:
    """Return a factor that drops at regular distances."""
    return lambda mini_batch: options.factor ** (mini_batch // options.every)


@dataclass(frozen=True, kw_only=True)
class ScheduleInfo:
    """A schedule that a config can name.

    Attributes:
        name: In configs, flags, tables and MLflow.
        title: What it does, for people.
        options: The record of its options.
        make: From the options to the factors; None where the rate never changes.
        reference: Where one that was brought is found; None if it is built in.
        brought: The function that a user has brought.
    """

    name: str
    title: str
    options: type[Options]
    make: Callable[[Any], Scale] | None
    reference: str | None = None
    brought: Callable[..., Scale] | None = None


schedules: dict[str, ScheduleInfo] = {
    info.name: info
    for info in (
        ScheduleInfo(name="constant", title="the same rate throughout", options=ConstantOptions, make=None),
        ScheduleInfo(name="cosine", title="down along half a cosine", options=CosineOptions, make=cosine),
        ScheduleInfo(
            name="warmup_cosine",
            title="up in a straight line, then down along half a cosine",
            options=WarmupCosineOptions,
            make=warmup_cosine,
        ),
        ScheduleInfo(name="step", title="down at regular distances", options=StepOptions, make=step),
    )
}
"""Those that are built in."""

_guests: dict[str, ScheduleInfo] = {}
"""Those that were admitted."""


def welcome_schedule(guest: ScheduleInfo) -> None:
    """Have a schedule that was brought be known by its name; `own_schedules` says who is welcome."""
    _guests[guest.name] = guest


def known_schedules() -> dict[str, ScheduleInfo]:
    """Return the records of all schedules that are known in this process, those that were brought too."""
    return {**schedules, **_guests}


def schedule_info(name: str) -> ScheduleInfo:
    """Return the record of schedule ``name``.

    Raises:
        UserError: if there is no such schedule.
    """
    known = known_schedules()
    if name not in known:
        raise UserError(f"unknown schedule '{name}'. {did_you_mean(name, known)} Your own: package.module:function.")
    return known[name]
