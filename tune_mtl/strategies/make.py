"""From names and numbers to a strategy."""

import sys
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.options import Options, read_options
from tune_mtl.core.seeds import generator
from tune_mtl.core.task import Task
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.grouping import Grouping, make_groups
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.optimizers import callable_factory, named_factory, optimizer_info
from tune_mtl.strategies.recipe import ClipOptions, Recipe
from tune_mtl.strategies.registry import strategy_class, with_groups
from tune_mtl.strategies.schedules import schedule_info

if TYPE_CHECKING:
    from tune_mtl.strategies.optimizers import OptimizerFactory


def make_strategy(
    name: str,
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    lr: float,
    optimizer: "str | OptimizerFactory" = "adam",
    groups: Grouping | None = None,
    seed: int = 0,
    schedule: str = "constant",
    autocast: torch.dtype | None = None,
    **options: Any,
) -> Strategy[Any]:
    """Make a strategy that trains ``model`` on ``tasks``, for anyone's own loop.

    Args:
        name: One of ``tune-mtl strategies``.
        model: Already on its device.
        tasks: Each needs a head of its name.
        lr: Learning rate, > 0.
        optimizer: ``adam``, ``adamw``, ``sgd``, ``momentum``, ``theorem``, or a callable ``params -> Optimizer`` (its
            learning rate is replaced by ``lr``).
        groups: A number of groups or explicit lists of task names; only for strategies that have groups, where the
            default is one group per task.
        seed: Draws the groups and the strategy's own randomness.
        schedule: ``constant``, ``cosine`` or ``step``: the learning rate over mini-batches.
        autocast: Lower precision of the forward passes (``torch.bfloat16``).
        **options: Flat options: ``adam_weight_decay=0.1``, ``clip_norm=1.0``, ``cosine_steps=1000``, ...

    Raises:
        UserError: for anything that does not fit, in one line.
    """
    kind = strategy_class(name)
    info = kind.info
    check_learning_rate(lr)
    check_groups_allowed(info, groups)
    if not hasattr(model, "trunk") or not hasattr(model, "heads"):
        raise UserError(f"the model is a {type(model).__name__}, but must be a MultiTaskModel(trunk, heads).")
    if not all(isinstance(task, Task) for task in tasks):
        raise UserError("tasks must be Task objects: Task(name, loss).")
    if not isinstance(optimizer, str) and not callable(optimizer):
        raise UserError(f"optimizer={optimizer!r} must be a name or a callable params -> Optimizer.")
    names = [task.name for task in tasks]
    if not names or len(set(names)) != len(names):
        raise UserError(f"tasks must be one or more with different names, got {names}.")
    for task in names:
        if task not in model.heads:
            raise UserError(f"task '{task}' has no head: the model's heads are {', '.join(model.heads) or 'none'}.")
    if len(names) < info.needs_tasks:
        raise UserError(f"strategy '{name}' needs at least {info.needs_tasks} tasks, got {len(names)}.")
    named = optimizer if isinstance(optimizer, str) else None
    records = read_options(options, option_owners(info, named, schedule))
    if isinstance(optimizer, str):
        factory = named_factory(optimizer_info(optimizer), records[optimizer], lr)
    else:
        factory = callable_factory(optimizer, lr)
    make_scale = schedule_info(schedule).make
    recipe = Recipe(
        optimizer=factory,
        generator=generator(seed, "strategy"),
        clip=cast(ClipOptions, records["clip"]),
        schedule=None if make_scale is None else make_scale(records[schedule]),
        autocast=autocast,
    )
    count = default_groups(info, len(names)) if groups is None else groups
    return kind(model, tasks, make_groups(names, count, seed), records[name], recipe)


def option_owners(info: StrategyInfo, optimizer: str | None, schedule: str) -> dict[str, type[Options]]:
    """Return the records of options, by owner, of a trial with this strategy, (named) optimizer and schedule."""
    owners: dict[str, type[Options]] = {info.name: info.options, "clip": ClipOptions}
    owners[schedule] = schedule_info(schedule).options
    if optimizer is not None:
        owners[optimizer] = optimizer_info(optimizer).options
    return owners


def default_groups(info: StrategyInfo, tasks: int) -> int:
    """Return the number of groups where none is given: one per task if the strategy takes them in turn, else one."""
    return tasks if info.has_groups or not info.shares_trunk else 1


def check_learning_rate(lr: float) -> None:
    """Refuse anything but a finite number > 0."""
    number = isinstance(lr, Real) and not isinstance(lr, bool)
    if not number or not 0 < lr < sys.float_info.max:
        raise UserError(f"lr={str(lr)[:40]} must be a finite number > 0.")


def check_groups_allowed(info: StrategyInfo, groups: Grouping | None) -> None:
    """Refuse groups for a strategy without them."""
    if groups is not None and not info.has_groups:
        raise UserError(
            f"groups={groups} cannot be used with strategy '{info.name}': only {', '.join(with_groups())} have groups."
            " Drop --groups or choose one of them."
        )
