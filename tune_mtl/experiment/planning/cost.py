"""What a search will cost, in time and on disk, from a short look at its most demanding trials."""

import shutil
import statistics
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import tensors
from tune_mtl.core.seeds import isolated
from tune_mtl.experiment.planning.pace import one_pass, take_pace, trial_seconds
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import Config, resolve
from tune_mtl.training.trainer import Diverged, Trainer

_KEPT_CHECKPOINTS = 2
_SMALL_BATCH = 2
"""Samples, where only what is kept is weighed: it does not depend on them, and many tasks take their time."""


@dataclass(frozen=True)
class Measured:
    """What a search will cost at most.

    Attributes:
        disk: Bytes in all.
        seconds: Of the longest trial of each strategy, extrapolated from a few mini-batches; empty if not asked for.
        spent: Seconds of all trials, one after the other, likewise.
    """

    disk: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    spent: float = 0.0

    @property
    def seconds_per_trial(self) -> float:
        """Of the longest trial of all; 0 if not asked for."""
        return max(self.seconds.values(), default=0.0)


class _Enough(Exception):
    """Enough mini-batches are done."""


def check_disk(plan: Plan) -> None:
    """Refuse a search whose checkpoints and weights would not fit; weighed after one mini-batch.

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
        seconds, spent = _time(plan) if timed else ({}, 0.0)
    torch.set_num_threads(threads)
    at_once = plan.settings.concurrency or plan.slots
    disk = at_once * _KEPT_CHECKPOINTS * (kept + weights) + plan.total * weights
    return Measured(disk, seconds, spent)


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
    """The demanding config with most optimizer states."""
    tasks = len(plan.problem.tasks)

    def states(config: Config) -> int:
        groups = tasks if config.groups is None else _group_count(config.groups)
        return count(strategy_info(config.strategy).states, tasks, groups)

    return max(demanding(plan), key=states)


def slowest(plan: Plan) -> str:
    """Return the strategy whose trials take longest."""
    with isolated():
        seconds, _ = _time(plan)
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
    def stop() -> None:
        raise _Enough

    small = min(_SMALL_BATCH, config.batch_size)
    trainer = Trainer(plan.problem, config.model_copy(update={"batch_size": small}))
    with suppress(_Enough, Diverged):
        trainer.run_period(stop)
    kept, weights = (_bytes(state) for state in (trainer.state_dict(), trainer.strategy.model.state_dict()))
    trainer.close()
    return kept, weights


def _time(plan: Plan) -> tuple[dict[str, float], float]:
    """Return the seconds of the longest trial of each strategy, and of all trials together.

    One config of each strategy is timed, with as few groups as any: what more groups take follows from their updates.
    """
    problem = plan.problem
    of_strategy = {strategy: _of_each_count(plan, strategy) for strategy in plan.space.strategies}
    paces = {strategy: take_pace(problem, configs[0]) for strategy, configs in of_strategy.items()}
    each = one_pass(list(paces.values()), len(problem.tasks))
    by_count = {
        strategy: [trial_seconds(problem, config, paces[strategy], each) for config in configs]
        for strategy, configs in of_strategy.items()
    }
    longest = {strategy: max(seconds) for strategy, seconds in by_count.items()}
    mean = {strategy: statistics.fmean(seconds) for strategy, seconds in by_count.items()}
    turns = Counter(turn.strategy for turn in plan.turns)
    return longest, sum(
        trials * (max(mean.values()) if strategy is None else mean[strategy]) for strategy, trials in turns.items()
    )


def _bytes(state: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(state))
