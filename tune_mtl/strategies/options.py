"""The options of strategies and named optimizers: one typed record per owner. Imports no torch."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from tune_mtl.core.options import Options

_Rate = Annotated[float, Field(ge=0, lt=1)]
_NonNegative = Annotated[float, Field(ge=0)]


class NoOptions(Options):
    """For strategies without options of their own."""


class ScalarOptions(Options):
    """Fixed task weights, multiplied with each task's own ``weight``; tasks not named keep 1."""

    weights: Mapping[str, _NonNegative] = {}


class AdamOptions(Options):
    """Adam: torch's names and defaults."""

    betas: tuple[_Rate, _Rate] = (0.9, 0.999)
    eps: _NonNegative = 1e-8
    weight_decay: _NonNegative = 0.0
    amsgrad: bool = False


class AdamWOptions(AdamOptions):
    """AdamW: decoupled weight decay."""

    weight_decay: _NonNegative = 1e-2


class SGDOptions(Options):
    """Plain stochastic gradient descent, without memory."""

    weight_decay: _NonNegative = 0.0


class MomentumOptions(Options):
    """SGD with momentum."""

    momentum: _Rate = 0.9
    nesterov: bool = False
    weight_decay: _NonNegative = 0.0

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self
