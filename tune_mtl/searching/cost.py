"""What a search will cost, in time and on disk, from a short look at its most demanding trials."""

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import tensors
from tune_mtl.core.seeds import isolated
from tune_mtl.searching.plan import Plan
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Diverged, Trainer

_KEPT_CHECKPOINTS = 2
_SMALL_BATCH = 8
"""Samples, where only what is kept is weighed: it does not depend on them, and many groups take their time."""


@dataclass(frozen=True)
class Measured:
    """What a search will cost at most: seconds of one trial (0: not measured), bytes on disk in all."""

    seconds_per_trial: float
    disk: int


class _Enough(Exception):
    """The first mini-batch is done."""


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
        kept, weights = _weigh(plan, heaviest(plan, "states"))
        seconds = _time(plan, heaviest(plan, "passes")) if whole_period else 0.0
    torch.set_num_threads(threads)
    at_once = plan.settings.concurrency or plan.slots
    return Measured(seconds, at_once * _KEPT_CHECKPOINTS * (kept + weights) + plan.total * weights)


def heaviest(plan: Plan, what: Literal["states", "passes"]) -> dict[str, Any]:
    """The config with most optimizer states, or most passes through the trunk per mini-batch; as many groups as any."""
    tasks = len(plan.problem.tasks)

    def load(config: Mapping[str, Any]) -> tuple[int, int]:
        info, groups = strategy_info(config["strategy"]), config.get("groups", tasks)
        states, passes = (
            sum(count(formula, tasks, groups) for formula in formulas)
            for formulas in ((info.states,), (info.forwards, info.backwards))
        )
        return (states, passes) if what == "states" else (passes, states)

    configs = []
    for strategy in plan.space.strategies:
        most = {
            name: max(dimension.points())
            for name, dimension in plan.space.of(strategy).items()
            if name == "groups" and all(isinstance(value, int) for value in dimension.points())
        }
        configs.append(plan.completed({**next(plan.space.grid(strategy)), **most}))
    return max(configs, key=load)


def _weigh(plan: Plan, config: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of a trial's checkpoint, and of its weights."""

    def stop() -> None:
        raise _Enough

    resolved = resolve(plan.problem, config, plan.settings.problem)
    small = min(_SMALL_BATCH, resolved.batch_size)
    trainer = Trainer(plan.problem, resolved.model_copy(update={"batch_size": small}))
    with suppress(_Enough, Diverged):
        trainer.run_period(stop)
    kept, weights = (_bytes(state) for state in (trainer.state_dict(), trainer.strategy.model.state_dict()))
    trainer.close()
    return kept, weights


def _time(plan: Plan, config: Mapping[str, Any]) -> float:
    """Seconds of a whole trial, judged by its first evaluation."""
    trainer = Trainer(plan.problem, resolve(plan.problem, config, plan.settings.problem))
    started = time.monotonic()
    with suppress(Diverged):
        trainer.run_period()
    trainer.close()
    return (time.monotonic() - started) / (trainer.progress or 1.0)


def _bytes(state: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(state))
