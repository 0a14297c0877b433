"""What a search will cost, in time and on disk, from a short look at its most demanding trials."""

import shutil
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import tensors
from tune_mtl.core.seeds import isolated
from tune_mtl.experiment.planning.pace import how_measured, take_paces, trial_seconds
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.thawing import kept_paused, pauses, share
from tune_mtl.results.accepted import controlled_tunings
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import Config, resolve
from tune_mtl.training.trainer import Trainer

_KEPT_CHECKPOINTS = 2


@dataclass(frozen=True)
class Measured:
    """What a search will cost at most.

    Attributes:
        disk: Bytes in all.
        seconds: The seconds of each strategy's longest trial, from a few mini-batches; empty if not asked for.
        spent: Seconds of all trials, one after the other, likewise; where they pause, of what they may spend in all.
        how: What was timed, in a sentence.
    """

    disk: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    spent: float = 0.0
    how: str = ""

    @property
    def seconds_per_trial(self) -> float:
        """The seconds of the longest trial of all; 0 if they were not asked for."""
        return max(self.seconds.values(), default=0.0)


def check_disk(plan: Plan) -> None:
    """Refuse a search whose checkpoints and weights would not fit; nothing is trained for that.

    Raises:
        UserError: with what is needed and what is free.
    """
    try:
        Path(plan.storage).mkdir(parents=True, exist_ok=True)
        needed, free = measure(plan, timed=False).disk, shutil.disk_usage(plan.storage).free
    except OSError as error:
        raise UserError(f"storage {plan.storage} cannot be written: {error.strerror}. Give --storage.") from None
    except UserError:
        raise
    except Exception:  # the user's code fails: its trials will say so, each with its traceback
        return
    if needed > free:
        raise UserError(
            f"the search needs about {needed / 2**30:.1f} GiB in {plan.storage}, but only"
            f" {free / 2**30:.1f} GiB are free. Give --storage, or fewer --samples."
        )


def measure(plan: Plan, *, timed: bool) -> Measured:
    """Look at the most demanding configs in this process: what they keep, and with ``timed`` how long they take."""
    threads = torch.get_num_threads()
    with isolated():
        kept, weights = _weigh(plan, largest(plan))
        seconds, spent, how = _time(plan) if timed else ({}, 0.0, "")
    torch.set_num_threads(threads)
    at_once = plan.settings.concurrency or plan.slots
    paused = kept_paused(plan) * kept + (plan.total * weights if pauses(plan) else 0)  # of all, the best weights too
    disk = at_once * _KEPT_CHECKPOINTS * (kept + weights) + paused + plan.total * weights
    if plan.settings.confirm and plan.settings.budget == "epochs":  # what controls of equal updates go on from
        continued = controlled_tunings(plan.settings.controls, plan.replicates) * (len(plan.space.strategies) - 1)
        disk += continued * (kept + weights)
    return Measured(disk, seconds, spent, how)


def demanding(plan: Plan) -> list[Config]:
    """Return the first config of every strategy, with as many groups as any."""
    return [_of_each_count(plan, strategy)[-1] for strategy in plan.space.strategies]


def _of_each_count(plan: Plan, strategy: str) -> list[Config]:
    """Return the first config of ``strategy`` with each number of groups that is tried, the fewest first."""
    first = next(plan.space.grid(strategy))
    groups = plan.space.of(strategy).get("groups")
    tried = [{}] if groups is None else [{"groups": value} for value in sorted(groups.points(), key=_group_count)]
    return [resolve(plan.problem, plan.completed({**first, **own}), plan.settings.problem) for own in tried]


def largest(plan: Plan) -> Config:
    """Return the demanding config with most optimizer states."""
    tasks = len(plan.problem.tasks)

    def states(config: Config) -> int:
        groups = tasks if config.groups is None else _group_count(config.groups)
        return count(strategy_info(config.strategy).states, tasks, groups)

    return max(demanding(plan), key=states)


def slowest(plan: Plan) -> str:
    """Return the strategy whose trials take longest."""
    with isolated():
        seconds, *_ = _time(plan)
    return max(seconds, key=lambda strategy: seconds[strategy])


def _group_count(groups: int | list[list[str]]) -> int:
    return groups if isinstance(groups, int) else len(groups)


def _weigh(plan: Plan, config: Config) -> tuple[int, int]:
    """Return the bytes of a trial's checkpoint, and of its weights; every group more adds the same."""
    if not isinstance(config.groups, int) or config.groups <= 2:
        return _weigh_one(plan, config)
    one, _ = _weigh_one(plan, config.model_copy(update={"groups": 1}))
    two, weights = _weigh_one(plan, config.model_copy(update={"groups": 2}))
    return two + (config.groups - 2) * (two - one), weights


def _weigh_one(plan: Plan, config: Config) -> tuple[int, int]:
    """Weigh without a mini-batch: a step on gradients of zero leaves optimizers with all that they will remember."""
    trainer = Trainer(plan.problem, config)
    trainer.close()
    for optimizer in trainer.strategy.optimizers:
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
    return _bytes(trainer.state_dict()), _bytes(trainer.strategy.model.state_dict())


def _time(plan: Plan) -> tuple[dict[str, float], float, str]:
    """Return the seconds of the longest trial of each strategy, those of all trials together, and how that is known.

    One config of each strategy is looked at, with as few groups as any: more groups take as many more passes.
    """
    problem = plan.problem
    of_strategy = {strategy: _of_each_count(plan, strategy) for strategy in plan.space.strategies}
    paces = take_paces(problem, {strategy: configs[0] for strategy, configs in of_strategy.items()})
    by_count = {
        strategy: [trial_seconds(problem, config, paces[strategy]) for config in configs]
        for strategy, configs in of_strategy.items()
    }
    longest = {strategy: max(seconds) for strategy, seconds in by_count.items()}
    mean = {strategy: statistics.fmean(seconds) for strategy, seconds in by_count.items()}
    turns = Counter(turn.strategy for turn in plan.turns)
    spent = sum(
        trials * (max(mean.values()) if strategy is None else mean[strategy]) for strategy, trials in turns.items()
    )
    return longest, share(plan) * spent, how_measured(paces)


def _bytes(state: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(state))
