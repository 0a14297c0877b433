"""The options of named optimizers, and the kinds of numbers that records of options are made of. Loads no torch."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from tune_mtl.core.options import Options

Rate = Annotated[float, Field(ge=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class AdamOptions(Options):
    """Adam has torch's names and defaults."""

    betas: tuple[Rate, Rate] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0.0
    amsgrad: bool = False


class AdamWOptions(AdamOptions):
    """AdamW decouples the weight decay from the gradients."""

    weight_decay: NonNegative = 1e-2


class SGDOptions(Options):
    """Plain stochastic gradient descent has no memory."""

    weight_decay: NonNegative = 0.0


class MomentumOptions(Options):
    """SGD with momentum."""

    momentum: Rate = 0.9
    nesterov: bool = False
    weight_decay: NonNegative = 0.0

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self


class TheoremOptions(Options):
    """The theorem's step: the tasks have ``mu`` and ``smoothness`` (L); ``gamma`` is by default the least allowed."""

    mu: Positive
    smoothness: Positive
    gamma: float | None = None

    @model_validator(mode="after")
    def _as_the_theorem_allows(self) -> Self:
        if self.smoothness < self.mu:
            raise ValueError(f"smoothness={self.smoothness} must be at least mu={self.mu}")
        if self.gamma is not None and self.gamma < 2 * self.smoothness / self.mu - 1:
            raise ValueError(f"gamma={self.gamma} must be at least 2 smoothness / mu - 1")
        return self
