"""What a search will cost, in time and on disk, from a short look at its most demanding trials."""

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import tensors
from tune_mtl.core.seeds import isolated
from tune_mtl.searching.plan import Plan, mini_batches_per_epoch
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import Config, resolve
from tune_mtl.training.trainer import Diverged, Trainer

_KEPT_CHECKPOINTS = 2
_LOOKS = 3
"""Mini-batches after which it is known who is slow; the first does not count."""
_SMALL_BATCH = 8
"""Samples, where only what is kept is weighed: it does not depend on them, and many groups take their time."""


@dataclass(frozen=True)
class Measured:
    """What a search will cost at most: seconds of one trial (0: not measured), bytes on disk in all."""

    seconds_per_trial: float
    disk: int


class _Enough(Exception):
    """Enough mini-batches are done."""


def check_disk(plan: Plan) -> None:
    """Refuse a search whose checkpoints and weights would not fit; weighed after one mini-batch.

    Raises:
        UserError: with what is needed and what is free.
    """
    try:
        Path(plan.storage).mkdir(parents=True, exist_ok=True)
        needed, free = measure(plan, whole_period=False).disk, shutil.disk_usage(plan.storage).free
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


def measure(plan: Plan, *, whole_period: bool) -> Measured:
    """Train the most demanding configs in this process.

    One small mini-batch of the one that keeps most; with ``whole_period`` also the one that takes longest, to its first
    evaluation.
    """
    threads = torch.get_num_threads()
    with isolated():
        kept, weights = _weigh(plan, largest(plan))
        seconds = _time(plan, slowest(plan)) if whole_period else 0.0
    torch.set_num_threads(threads)
    at_once = plan.settings.concurrency or plan.slots
    return Measured(seconds, at_once * _KEPT_CHECKPOINTS * (kept + weights) + plan.total * weights)


def demanding(plan: Plan) -> list[Config]:
    """The first config of every strategy, with as many groups as any."""
    found = []
    for strategy in plan.space.strategies:
        config = next(plan.space.grid(strategy))
        if "groups" in plan.space.of(strategy):
            config["groups"] = max(plan.space.of(strategy)["groups"].points(), key=_group_count)
        found.append(resolve(plan.problem, plan.completed(config), plan.settings.problem))
    return found


def largest(plan: Plan) -> Config:
    """The demanding config with most optimizer states."""
    tasks = len(plan.problem.tasks)

    def states(config: Config) -> int:
        groups = tasks if config.groups is None else _group_count(config.groups)
        return count(strategy_info(config.strategy).states, tasks, groups)

    return max(demanding(plan), key=states)


def slowest(plan: Plan) -> Config:
    """The demanding config that takes longest, by its first mini-batches: some strategies solve programs."""
    configs = demanding(plan)
    if len(configs) == 1:
        return configs[0]
    tasks = len(plan.problem.tasks)

    def seconds(config: Config) -> float:
        moments: list[float] = []

        def note() -> None:
            moments.append(time.monotonic())
            if len(moments) == _LOOKS:
                raise _Enough

        trainer = Trainer(plan.problem, config)
        with suppress(_Enough, Diverged):
            trainer.run_period(note)
        trainer.close()
        pace = (moments[-1] - moments[0]) / (len(moments) - 1) if len(moments) > 1 else 0.0
        return pace * config.mini_batches(mini_batches_per_epoch(plan.problem, config), tasks)

    return max(configs, key=seconds)


def _group_count(groups: int | list[list[str]]) -> int:
    return groups if isinstance(groups, int) else len(groups)


def _weigh(plan: Plan, config: Config) -> tuple[int, int]:
    """Bytes of a trial's checkpoint, and of its weights."""

    def stop() -> None:
        raise _Enough

    small = min(_SMALL_BATCH, config.batch_size)
    trainer = Trainer(plan.problem, config.model_copy(update={"batch_size": small}))
    with suppress(_Enough, Diverged):
        trainer.run_period(stop)
    kept, weights = (_bytes(state) for state in (trainer.state_dict(), trainer.strategy.model.state_dict()))
    trainer.close()
    return kept, weights


def _time(plan: Plan, config: Config) -> float:
    """Seconds of a whole trial, judged by its first evaluation."""
    trainer = Trainer(plan.problem, config)
    started = time.monotonic()
    with suppress(Diverged):
        trainer.run_period()
    trainer.close()
    return (time.monotonic() - started) / (trainer.progress or 1.0)


def _bytes(state: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(state))
