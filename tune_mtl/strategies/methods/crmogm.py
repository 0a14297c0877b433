"""CR-MOGM: another method's weights of gradients, averaged over mini-batches."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from tune_mtl.core.options import Tunable
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.jacobian import family
from tune_mtl.strategies.jacobian.compat import make_aggregator
from tune_mtl.strategies.jacobian.descent import HELD, PASSES, AggregatorOptions, JacobianDescent

_KINDS = ("AlignedMTL", "CAGrad", "DualProj", "FairGrad", "IMTLG", "MGDA", "PCGrad", "UPGrad")
_WRAPPED: dict[str, type[JacobianDescent]] = {
    kind.kind.lower(): kind for kind in family.AGGREGATORS if kind.kind in _KINDS
}
"""What can be averaged: weights that a method makes of the gradients' Gramian alone, without a memory of its own."""


class MovingWeightsOptions(AggregatorOptions):
    """CR-MOGM: ``alpha`` is the share of the weights that stays from one mini-batch to the next, ``of`` whose they are.

    The method named by ``of`` has the defaults it has as ``jd_...``, but for ``cagrad_c``, ``fairgrad_alpha`` and
    ``alignedmtl_scale_mode``, which are its own where they are given.
    """

    of: Literal["mgda", "cagrad", "pcgrad", "upgrad", "imtlg", "alignedmtl", "fairgrad", "dualproj"] = "mgda"
    alpha: Annotated[float, Field(ge=0, le=1), Tunable(values=(0.0, 0.5, 0.9, 0.99, 0.999))] = 0.9
    cagrad_c: Annotated[float, Field(ge=0)] | None = None
    fairgrad_alpha: Annotated[float, Field(ge=0.1)] | None = None
    alignedmtl_scale_mode: Literal["min", "median", "rmse"] | None = None

    def given(self) -> dict[str, Any]:
        """Return the options of wrapped methods that are given, by their full names."""
        return {key: value for key, value in self.model_dump(exclude={"of", "alpha"}).items() if value is not None}

    @model_validator(mode="after")
    def _of_the_wrapped_one(self) -> Self:
        for key, value in self.given().items():
            if not key.startswith(f"{self.of}_"):
                raise ValueError(f"crmogm_{key}={value} is an option of {key.split('_')[0]}, but crmogm_of={self.of}")
        return self


class MovingWeights(JacobianDescent):
    """CR-MOGM: w <- w - lr * m(sum_k a_k c_k g_k(w)) on the trunk; each head takes its own gradient.

    a_k <- alpha a_k + (1 - alpha) b_k, b_k the weights that the method ``of`` makes of this mini-batch's gradients; the
    first a_k is the first b_k. A task without labels keeps its a_k, and is not among those that b is made for. With
    alpha = 0 it is the method itself; with alpha = 1 the first weights stay for ever.
    """

    info = StrategyInfo(
        name="crmogm",
        title="CR-MOGM",
        rule="one step on a sum of gradients whose weights are another method's, averaged over mini-batches",
        family="later work",
        options=MovingWeightsOptions,
        backwards=PASSES,
        memory=HELD,
        waits="1",
        reference="Zhou et al. 2022, On the Convergence of Stochastic Multi-Objective Gradient Manipulation and Beyond",
    )
    options: MovingWeightsOptions

    def setup(self) -> None:
        """Start without weights."""
        self._moving: dict[str, Tensor] = {}
        super().setup()

    def _made(self, tasks: tuple[str, ...]) -> nn.Module:
        wrapped = _WRAPPED[self.options.of]
        own = {key.removeprefix(f"{self.options.of}_"): value for key, value in self.options.given().items()}
        options = cast(AggregatorOptions, wrapped.info.options(**own))
        arguments = options.arguments(tasks, next(self.model.parameters()))
        return make_aggregator(wrapped.kind, replace(self.info, extra=wrapped.info.extra), arguments)

    def _weights(self, tasks: tuple[str, ...], weigh: Callable[[Tensor], Tensor], gramian: Tensor) -> Tensor:
        found = super()._weights(tasks, weigh, gramian)
        before = torch.stack([self._moving.get(task, new) for task, new in zip(tasks, found, strict=True)])
        weights = torch.lerp(before, found, 1 - self.options.alpha)
        self._moving |= dict(zip(tasks, weights, strict=True))
        return weights

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the tasks' weights."""
        return super().state_dict() | {"moving": dict(self._moving)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._moving = {task: weight.cpu() for task, weight in state["moving"].items()}
