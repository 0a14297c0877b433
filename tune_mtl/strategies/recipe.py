"""How each update is taken, whatever the strategy: optimizer, clipping, learning-rate schedule, precision."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tune_mtl.core.options import Options

if TYPE_CHECKING:
    import torch

    from tune_mtl.strategies.optimizers import OptimizerFactory
    from tune_mtl.strategies.schedules import Scale


class ClipOptions(Options):
    """Gradient clipping scales each update's gradients (trunk and the group's heads together) down to this 2-norm."""

    norm: Annotated[float, Field(gt=0)] | None = None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every strategy needs besides the model and the tasks.

    Attributes:
        optimizer: Makes an optimizer, learning rate included, over given parameters.
        generator: The strategy's own randomness.
        clip: Gradient clipping.
        schedule: The factor of the learning rate at each mini-batch, or None for a constant one.
        autocast: Lower precision of forward passes, or None.
        checkpoint_trunk: Whether the trunk's activations are computed again in each pass back instead of kept.
    """

    optimizer: "OptimizerFactory"
    generator: "torch.Generator"
    clip: ClipOptions = field(default_factory=ClipOptions)
    schedule: "Scale | None" = None
    autocast: "torch.dtype | None" = None
    checkpoint_trunk: bool = False
