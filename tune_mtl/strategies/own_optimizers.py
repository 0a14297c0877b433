"""Optimizers that users bring: found, checked as far as their signature tells, and known by a short name.

A class is made as ``Class(params, lr=lr, **options)``; a function ``make(params, lr, **options)`` returns an optimizer.
What only a step can tell is tried by `optimizer_trial`.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import is_reference, load, reference_to
from tune_mtl.core.signatures import options_of, parameters_of
from tune_mtl.strategies.optimizers import OptimizerInfo, optimizer_info, optimizers, welcome_optimizer
from tune_mtl.strategies.own_names import check_name_is_free, short_name

if TYPE_CHECKING:
    from torch.optim import Optimizer

    AskedOptimizer: TypeAlias = str | type[Optimizer] | Callable[..., Optimizer]

_OF_SPEED = frozenset(["foreach", "fused", "capturable", "differentiable", "maximize"])
"""Arguments of torch's optimizers that change how fast they are, or the sense of better: no options of a trial."""

_given: dict[str, Any] = {}
"""What was given as an object, by reference: nobody else may be able to import what a notebook defines."""


def admit_optimizer(asked: "AskedOptimizer", directory: str | None = None) -> str:
    """Return the name of an optimizer; one that is brought is loaded, and known by that name from then on.

    Args:
        asked: A name, ``package.module:Class``, ``package.module:function``, or the class or function itself.
        directory: Where a module is looked for first; default: the current directory.

    Raises:
        UserError: if there is no such optimizer, or what there is cannot train.
    """
    if isinstance(asked, str) and not is_reference(asked):
        return optimizer_info(asked).name
    if isinstance(asked, str):
        reference = asked
        found = _given[reference] if reference in _given else load(reference, directory)
    elif callable(asked) and hasattr(asked, "__qualname__"):
        reference, found = reference_to(asked), asked
    else:
        raise UserError(f"optimizer={asked!r} must be a name, package.module:Class, or a subclass of Optimizer.")
    built_in = _built_in(found)
    if built_in is not None:
        return built_in
    info = _record_of(found, reference)
    if not isinstance(asked, str):
        _given[reference] = found
    welcome_optimizer(info)
    return info.name


def optimizer_given_as_object(reference: str) -> Any:
    """Return what was given as an object under ``reference``, or None."""
    return _given.get(reference)


def _built_in(found: Any) -> str | None:
    """Return the name of a class of torch that is built in."""
    if not isinstance(found, type):
        return None
    for info in optimizers.values():
        module, _, name = info.implementation.partition(":")
        if found.__name__ == name and found.__module__.startswith(module):
            return info.name
    return None


def _record_of(found: Any, reference: str) -> OptimizerInfo:
    from torch.optim import Optimizer

    who = f"optimizer '{reference}'"
    if isinstance(found, type) and not issubclass(found, Optimizer):
        raise UserError(
            f"'{reference}' is no optimizer but the class {found.__name__}: subclass torch.optim.Optimizer."
        )
    if not callable(found) or isinstance(found, Optimizer) or not hasattr(found, "__name__"):
        raise UserError(
            f"'{reference}' is no optimizer but a value of type {type(found).__name__}: it must be a subclass of"
            " torch.optim.Optimizer, or a function make(params, lr) that returns one."
        )
    name = short_name(found)
    check_name_is_free(name, "optimizer", who)
    arguments = parameters_of(found, who)
    free = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    if not free and all(argument.name != "lr" for argument in arguments):
        raise UserError(f"{who} has no argument lr: every trial has a learning rate of its own, {name}(params, lr).")
    first = next((argument.name for argument in arguments if argument.kind is not argument.VAR_KEYWORD), None)
    if first in (None, "lr"):
        raise UserError(f"{who} must take the parameters first, {name}(params, lr).")
    if isinstance(found, type):
        check_step(found, who)
    options = options_of(found, besides=(str(first), "lr", *_OF_SPEED), who=who)
    title = (inspect.getdoc(found) or "").partition("\n")[0].strip() or reference
    return OptimizerInfo(name=name, title=title, implementation=reference, brought=found, own_record=options)


def check_step(kind: "type[Optimizer]", who: str) -> None:
    """Refuse an optimizer whose ``step`` cannot be called without arguments.

    Raises:
        UserError: of one that evaluates the loss itself, such as L-BFGS.
    """
    needed = [
        argument.name
        for argument in list(inspect.signature(kind.step).parameters.values())[1:]
        if argument.default is argument.empty and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
    ]
    if needed:
        raise UserError(
            f"{who} cannot train here: its step needs {' and '.join(needed)}, but strategies have computed the"
            " gradients when they step, and call step()."
        )
