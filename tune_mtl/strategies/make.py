"""From names and numbers to a strategy."""

import sys
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.optim import Optimizer

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.options import Options, read_options
from tune_mtl.core.seeds import generator
from tune_mtl.core.task import Task
from tune_mtl.strategies.admission import Contestant, admit
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.grouping import Grouping, make_groups
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.optimizers import callable_factory, named_factory, optimizer_info
from tune_mtl.strategies.own_optimizers import admit_optimizer
from tune_mtl.strategies.own_schedules import AskedSchedule, admit_schedule
from tune_mtl.strategies.recipe import ClipOptions, Recipe
from tune_mtl.strategies.registry import strategy_class, with_groups
from tune_mtl.strategies.schedules import schedule_info

if TYPE_CHECKING:
    from tune_mtl.strategies.optimizers import OptimizerFactory


def make_strategy(
    name: Contestant,
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    lr: float,
    optimizer: "str | type[Optimizer] | OptimizerFactory" = "adam",
    groups: Grouping | None = None,
    groups_seed: int | None = None,
    seed: int = 0,
    schedule: AskedSchedule = "constant",
    autocast: torch.dtype | None = None,
    checkpoint_trunk: bool = False,
    **options: Any,
) -> Strategy[Any]:
    """Make a strategy that trains ``model`` on ``tasks``, for anyone's own loop.

    Args:
        name: One of ``tune-mtl strategies``, your own as ``package.module:Class``, or the class itself.
        model: Already on its device.
        tasks: Each needs a head of its name.
        lr: Learning rate, > 0.
        optimizer: One of ``tune-mtl optimizers``, your own as ``package.module:Class``, the class itself, or a callable
            ``params -> Optimizer`` that is no class (its learning rate is replaced by ``lr``).
        groups: A number of groups or explicit lists of task names; only for strategies that have groups, where the
            default is one group per task.
        groups_seed: Draws the groups, where it is not ``seed`` that does.
        seed: Draws the groups and the strategy's own randomness.
        schedule: The learning rate over mini-batches: one of ``tune-mtl schedules``, your own as
            ``package.module:function``, or the function itself.
        autocast: Lower precision of the forward passes: ``torch.bfloat16``; or ``torch.float16``, with a factor for
            the losses of each optimizer, for strategies whose record says ``fp16``.
        checkpoint_trunk: Compute the trunk's activations again in each pass back instead of keeping them: the same
            numbers with less memory, and a pass forward more for each pass back.
        **options: Flat options: ``adam_weight_decay=0.1``, ``clip_norm=1.0``, ``cosine_steps=1000``, ...

    Raises:
        UserError: for anything that does not fit, in one line.
    """
    kind = strategy_class(admit(name))
    info = kind.info
    check_learning_rate(lr)
    check_groups_allowed(info, groups, groups_seed)
    check_precision(info, half=autocast is torch.float16)
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
        raise UserError(f"strategy '{info.name}' needs at least {info.needs_tasks} tasks, got {len(names)}.")
    by_name = isinstance(optimizer, str) or (isinstance(optimizer, type) and issubclass(optimizer, Optimizer))
    named = admit_optimizer(optimizer) if by_name else None
    schedule = admit_schedule(schedule)
    records = read_options(options, option_owners(info, named, schedule))
    if named is not None:
        factory = named_factory(optimizer_info(named), records[named], lr)
    else:
        factory = callable_factory(cast("OptimizerFactory", optimizer), lr)
    make_scale = schedule_info(schedule).make
    recipe = Recipe(
        optimizer=factory,
        generator=generator(seed, "strategy"),
        clip=cast(ClipOptions, records["clip"]),
        schedule=None if make_scale is None else make_scale(records[schedule]),
        autocast=autocast,
        checkpoint_trunk=checkpoint_trunk,
    )
    count = default_groups(info, len(names)) if groups is None else groups
    drawn = make_groups(names, count, seed if groups_seed is None else groups_seed)
    return kind(model, tasks, drawn, records[info.name], recipe)


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


def check_precision(info: StrategyInfo, *, half: bool) -> None:
    """Refuse half precision for a strategy that looks at gradients before they are brought back to their size."""
    if half and not info.fp16:
        raise UserError(
            f"precision=fp16 cannot be used with strategy '{info.name}': its gradients are not all those of one scaled"
            " loss, and float16 would lose the small ones. Use precision=bf16 or fp32."
        )


def check_groups_allowed(info: StrategyInfo, groups: Grouping | None, groups_seed: int | None = None) -> None:
    """Refuse groups, and a seed that draws them, for a strategy without them; and a seed where nothing is drawn."""
    for key, value, way_out in (("groups", groups, "Drop --groups"), ("groups_seed", groups_seed, "Drop it")):
        if value is not None and not info.has_groups:
            raise UserError(
                f"{key}={value} cannot be used with strategy '{info.name}': only {', '.join(with_groups())} have"
                f" groups. {way_out} or choose one of them."
            )
    if groups_seed is not None and isinstance(groups, list | tuple):
        raise UserError(
            f"groups_seed={groups_seed} draws groups, but groups={[list(group) for group in groups]} says which they"
            " are: leave one of them out."
        )
