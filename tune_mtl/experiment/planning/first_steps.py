"""The first steps of strategies that users bring, on a few samples: what their records say has to be so."""

import traceback
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import own_frames
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated, seed_everything
from tune_mtl.strategies.base import Strategy, weights_of
from tune_mtl.strategies.make import make_strategy
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import Config
from tune_mtl.training.examination.finding import said
from tune_mtl.training.examination.samples import Looked, Samples
from tune_mtl.training.network import fresh_model

if TYPE_CHECKING:
    from tune_mtl.experiment.planning.plan import Plan

ROWS = 4
"""Samples of a mini-batch."""
_STEPS = 3


def take_first_steps(plan: "Plan") -> None:
    """Have each strategy that is not built in take a few steps, and hold its record against what it does.

    Where the data are not on this machine, trials will say what is wrong.

    Raises:
        UserError: for the first that fails, that takes other than its declared updates, or whose groups change nothing.
    """
    brought = [name for name in plan.space.strategies if name in plan.settings.contestants]
    if not brought:
        return
    with isolated():
        try:
            samples = Samples.open(plan.problem, "train", torch.device("cpu"))
            few = list(islice(_mini_batches(samples), _STEPS))
        except Exception:
            return
        for name in brought:
            _hold_to_record(plan, plan.first_config(name), few, samples)


def _mini_batches(samples: Samples) -> Iterator[Looked]:
    rows = min(ROWS, samples.few(ROWS))
    while True:
        yield from samples.batches(rows, 1)


def _hold_to_record(plan: "Plan", config: Config, few: list[Looked], samples: Samples) -> None:
    info, tasks = strategy_info(config.strategy), len(plan.problem.tasks)
    taken = _steps(plan.problem, config, few, samples)
    declared = config.updates_per_batch(tasks) * len(few)
    whole = all(len(looked.rows) == tasks for looked in few)
    if whole and taken.updates < len(few):
        raise UserError(
            f"strategy '{info.name}' took {taken.updates} updates in {len(few)} mini-batches: step in each, since"
            " trials are compared after as many; accumulate=4 has every update gathered from 4 mini-batches."
        )
    if whole and taken.updates != declared:
        raise UserError(
            f"strategy '{info.name}' declares updates='{info.updates}' per mini-batch, {declared} in {len(few)} of"
            f" them, and took {taken.updates}: correct its record, and step with self.update, self.descend or"
            " self.apply, which count them."
        )
    if not info.has_groups or tasks == 1:
        return
    one, each = (
        weights_of(_steps(plan.problem, config.model_copy(update={"groups": groups}), few, samples).model)
        for groups in (1, tasks)
    )
    if all(torch.equal(a, b) for a, b in zip(one, each, strict=True)):
        raise UserError(
            f"strategy '{info.name}' declares has_groups, but learns the same with 1 group and with {tasks}: step"
            " through self.groups, or declare has_groups=False."
        )


def _steps(problem: Problem, config: Config, few: list[Looked], samples: Samples) -> Strategy[Any]:
    try:
        return first_steps(problem, config, few, samples)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(
            f"strategy '{config.strategy}' fails on its first mini-batches: {said(error)}{_place(error)}"
        ) from error


def _place(error: BaseException) -> str:
    """Return the last line of the user's own file that an error came through."""
    own = own_frames(traceback.extract_tb(error.__traceback__))
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def first_steps(problem: Problem, config: Config, few: list[Looked], samples: Samples) -> Strategy[Any]:
    """Return the strategy of a config, made anew, after a step on each of ``few``."""
    seed_everything(config.seed, "init")
    strategy = make_strategy(
        config.strategy,
        fresh_model(problem, config.model_options, lambda: samples.data),
        problem.tasks,
        lr=config.lr,
        optimizer=config.optimizer,
        groups=config.groups,
        schedule=config.schedule,
        **config.strategy_options_for(mini_batches=len(few)),
    )
    strategy.model.train()
    for looked in few:
        strategy.step(*looked.batch)
    return strategy
