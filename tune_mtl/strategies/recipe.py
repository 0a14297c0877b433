"""How each update is taken, whatever the strategy: optimizer, clipping, learning-rate schedule, precision."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from tune_mtl.core.options import Options

if TYPE_CHECKING:
    import torch

    from tune_mtl.strategies.optimizers import OptimizerFactory


class ClipOptions(Options):
    """Gradient clipping: each update's gradients (trunk and the group's heads together) to this 2-norm at most."""

    norm: Annotated[float, Field(gt=0)] | None = None


class ScheduleOptions(Options):
    """The learning rate over mini-batches, as a factor of ``lr``: all updates on one mini-batch see the same.

    Attributes:
        kind: ``constant``; ``cosine``: from 1 to ``final`` over ``steps``; ``step``: times ``factor`` each ``every``.
        steps: Mini-batches of the whole run; a trial fills it in.
        final: Where cosine ends.
        every: Mini-batches between drops.
        factor: Of each drop.
    """

    kind: Literal["constant", "cosine", "step"] = "constant"
    steps: Annotated[int, Field(ge=1)] | None = None
    final: Annotated[float, Field(ge=0, le=1)] = 0.0
    every: Annotated[int, Field(ge=1)] | None = None
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "step" and self.every is None:
            raise ValueError("kind 'step' needs schedule_every, the mini-batches between drops")
        return self

    def scale(self, mini_batch: int) -> float:
        """The factor at mini-batch number ``mini_batch``, counted from 0."""
        if self.kind == "cosine":
            done = min(mini_batch / self.steps, 1.0) if self.steps else 0.0
            return self.final + (1.0 - self.final) * 0.5 * (1.0 + math.cos(math.pi * done))
        if self.kind == "step":
            return self.factor ** (mini_batch // (self.every or 1))
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every strategy needs besides the model and the tasks.

    Attributes:
        optimizer: Makes an optimizer, learning rate included, over given parameters.
        clip: Gradient clipping.
        schedule: Learning-rate schedule.
        options: The strategy's own options.
        generator: The strategy's own randomness.
        autocast: Lower precision of forward passes, or None.
    """

    optimizer: "OptimizerFactory"
    generator: "torch.Generator"
    options: Options = field(default_factory=Options)
    clip: ClipOptions = field(default_factory=ClipOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    autocast: "torch.dtype | None" = None
