"""Optimizers by name, with torch's own option names and its fastest implementation. Imports no torch by itself.

Those that users bring are admitted under a short name (`own_optimizers`), and are known from then on in this process.
"""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.imports import in_a_line
from tune_mtl.core.process.loading import loading

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer

    from tune_mtl.core.options import Options

    OptimizerFactory: TypeAlias = Callable[[Iterable[Parameter]], Optimizer]


@dataclass(frozen=True, kw_only=True)
class OptimizerInfo:
    """An optimizer that a config can name.

    Attributes:
        name: In configs, flags, tables and MLflow.
        title: What it is, for people.
        implementation: Its class, ``module:name``; of one that was brought: where it was found.
        options_record: The name of its record of options.
        fused: False where torch's fused kernel cannot be used: with momentum it fails when some weights take their
            first step later than others, as heads do.
        default_lr: Where the learning rate is a factor and need not be given.
        brought: What a user has brought: a class or a function, ``brought(params, lr=..., **options)``.
        own_record: The record of its options, of one that was brought.
    """

    name: str
    title: str
    implementation: str
    options_record: str = ""
    fused: bool = True
    default_lr: float | None = None
    brought: Callable[..., Any] | None = None
    own_record: "type[Options] | None" = None

    @property
    def reference(self) -> str | None:
        """Return where it is found; None if it is built in."""
        return None if self.brought is None else self.implementation

    @property
    def options(self) -> "type[Options]":
        """Return the record of its options, loaded when it is asked for: listing optimizers need not know it."""
        if self.own_record is not None:
            return self.own_record
        module = importlib.import_module("tune_mtl.strategies.options")
        return cast("type[Options]", getattr(module, self.options_record))


optimizers: dict[str, OptimizerInfo] = {
    info.name: info
    for info in (
        OptimizerInfo(name="adam", title="Adam", implementation="torch.optim:Adam", options_record="AdamOptions"),
        OptimizerInfo(
            name="adamw",
            title="Adam with decoupled weight decay",
            implementation="torch.optim:AdamW",
            options_record="AdamWOptions",
        ),
        OptimizerInfo(
            name="sgd",
            title="stochastic gradient descent without memory",
            implementation="torch.optim:SGD",
            options_record="SGDOptions",
        ),
        OptimizerInfo(
            name="momentum",
            title="SGD with momentum",
            implementation="torch.optim:SGD",
            options_record="MomentumOptions",
            fused=False,
        ),
        OptimizerInfo(
            name="theorem",
            title="SGD with the steps of the convergence theorem; lr is a factor of them",
            implementation="tune_mtl.strategies.theorem:TheoremSGD",
            options_record="TheoremOptions",
            fused=False,
            default_lr=1.0,
        ),
    )
}
"""Those that are built in."""

_guests: dict[str, OptimizerInfo] = {}
"""Those that were admitted."""


def welcome_optimizer(guest: OptimizerInfo) -> None:
    """Have an optimizer that was brought be known by its name; `own_optimizers` says who is welcome."""
    _guests[guest.name] = guest


def known_optimizers() -> dict[str, OptimizerInfo]:
    """Return the records of all optimizers that are known in this process, those that were brought too."""
    return {**optimizers, **_guests}


def optimizer_info(name: str) -> OptimizerInfo:
    """Return the record of optimizer ``name``.

    Raises:
        UserError: if there is no such optimizer.
    """
    known = known_optimizers()
    if name not in known:
        raise UserError(f"unknown optimizer '{name}'. {did_you_mean(name, known)} Your own: package.module:Class.")
    return known[name]


def named_factory(info: OptimizerInfo, options: "Options", lr: float) -> "OptimizerFactory":
    """Return what makes the optimizer over given parameters, fused where torch can (one kernel for all tensors).

    One that was brought is made with its learning rate and its options, and nothing else.
    """
    if info.brought is not None:
        return _own_factory(info, options, lr)
    module, _, name = info.implementation.partition(":")
    optimizer_class = getattr(importlib.import_module(module), name)

    def make(parameters: "Iterable[Parameter]") -> "Optimizer":
        chosen = _some(parameters)
        fusible = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in chosen)
        fast = {"fused": True} if info.fused and fusible else {"foreach": True}
        with loading():  # torch loads its compiler with the first optimizer
            return optimizer_class(chosen, lr=lr, **fast, **options.model_dump())  # type: ignore[no-any-return]

    return make


def _own_factory(info: OptimizerInfo, options: "Options", lr: float) -> "OptimizerFactory":
    """Return what makes an optimizer that was brought; what it raises is said in a line."""
    given = {name: getattr(options, name) for name in type(options).model_fields}  # what holds no record is no record

    def make(parameters: "Iterable[Parameter]") -> "Optimizer":
        chosen = _some(parameters)
        assert info.brought is not None
        try:
            return info.brought(chosen, lr=lr, **given)  # type: ignore[no-any-return]
        except Exception as error:
            said = ", ".join(f"{info.name}_{name}={value}" for name, value in options.model_dump().items())
            raise UserError(
                f"optimizer '{info.reference}' cannot be made over weights of shapes {_shapes(chosen)} with"
                f" {said or 'its defaults'}: {in_a_line(error)}"
            ) from error

    return make


def _some(parameters: "Iterable[Parameter]") -> "list[Parameter]":
    chosen = list(parameters)
    if not chosen:
        raise UserError("there is nothing to train: all weights of the trunk and of a group's heads are frozen.")
    return chosen


def _shapes(parameters: "Iterable[Parameter]") -> str:
    shapes = list(dict.fromkeys(str(tuple(parameter.shape)) for parameter in parameters))
    return ", ".join(shapes[:4]) + (", ..." if len(shapes) > 4 else "")


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
