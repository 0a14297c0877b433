"""Optimizers by name, with torch's own option names and its fastest implementation. Imports no torch by itself."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from tune_mtl.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer

    from tune_mtl.core.options import Options

    OptimizerFactory: TypeAlias = Callable[[Iterable[Parameter]], Optimizer]


@dataclass(frozen=True, kw_only=True)
class OptimizerInfo:
    """An optimizer that a config can name: its class, ``module:name``, and the name of its record of options.

    ``fused=False`` where torch's fused kernel cannot be used: with momentum it fails when some weights take their first
    step later than others, as heads do. ``default_lr`` where the learning rate is a factor and need not be given.
    """

    name: str
    implementation: str
    options_record: str
    fused: bool = True
    default_lr: float | None = None

    @property
    def options(self) -> "type[Options]":
        """Return the record of its options, loaded when it is asked for: listing optimizers need not know it."""
        module = importlib.import_module("tune_mtl.strategies.options")
        return cast("type[Options]", getattr(module, self.options_record))


optimizers: dict[str, OptimizerInfo] = {
    info.name: info
    for info in (
        OptimizerInfo(name="adam", implementation="torch.optim:Adam", options_record="AdamOptions"),
        OptimizerInfo(name="adamw", implementation="torch.optim:AdamW", options_record="AdamWOptions"),
        OptimizerInfo(name="sgd", implementation="torch.optim:SGD", options_record="SGDOptions"),
        OptimizerInfo(name="momentum", implementation="torch.optim:SGD", options_record="MomentumOptions", fused=False),
        OptimizerInfo(
            name="theorem",
            implementation="tune_mtl.strategies.theorem:TheoremSGD",
            options_record="TheoremOptions",
            fused=False,
            default_lr=1.0,
        ),
    )
}


def optimizer_info(name: str) -> OptimizerInfo:
    """Return the record of optimizer ``name``.

    Raises:
        UserError: if there is no such optimizer.
    """
    if name not in optimizers:
        raise UserError(f"unknown optimizer '{name}'. {did_you_mean(name, optimizers)}")
    return optimizers[name]


def named_factory(info: OptimizerInfo, options: "Options", lr: float) -> "OptimizerFactory":
    """Return what makes the optimizer over given parameters, fused where torch can (one kernel for all tensors)."""
    module, _, name = info.implementation.partition(":")
    optimizer_class = getattr(importlib.import_module(module), name)

    def make(parameters: "Iterable[Parameter]") -> "Optimizer":
        chosen = list(parameters)
        if not chosen:
            raise UserError("there is nothing to train: all weights of the trunk and of a group's heads are frozen.")
        fusible = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in chosen)
        fast = {"fused": True} if info.fused and fusible else {"foreach": True}
        return optimizer_class(chosen, lr=lr, **fast, **options.model_dump())  # type: ignore[no-any-return]

    return make


def callable_factory(factory: "OptimizerFactory", lr: float) -> "OptimizerFactory":
    """Return a user's ``params -> Optimizer`` with the trial's learning rate put in.

    Parameter groups that the callable gave another rate than the optimizer's default keep their proportion to it.
    """

    def make(parameters: "Iterable[Parameter]") -> "Optimizer":
        optimizer = factory(parameters)
        default = optimizer.defaults.get("lr")
        for group in optimizer.param_groups:
            if not default or group["lr"] == default:
                group["lr"] = lr
            else:
                group["lr"] = lr * (group["lr"] / default)
        return optimizer

    return make
