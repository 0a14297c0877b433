"""`--strategies all`: every strategy that can train the problem's network; the others are left out, each with why."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from search_spaces import Space, find_space
from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated, seed_everything
from tune_mtl.strategies.make import make_strategy
from tune_mtl.strategies.registry import registry
from tune_mtl.training.config import Config, resolve
from tune_mtl.training.examination.finding import said
from tune_mtl.training.examination.samples import Looked, Samples
from tune_mtl.training.network import fresh_model

EVERY = "all"
_ROWS = 4
"""Samples that each strategy takes its one step on."""


def with_every_strategy(problem: Problem, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings with ``all`` spelt out, and why each strategy that is not among them was left out.

    A strategy is left out where its packages are not installed, or one step on a few samples shows that it cannot
    train this network on these losses.

    Args:
        problem: One that can be trained.
        given: Settings of the search; ``strategies`` may be ``all`` or hold it alone.

    Raises:
        UserError: where ``all`` is given beside others, or no strategy is left.
    """
    asked = given.get("strategies")
    names = (asked,) if isinstance(asked, str) else tuple(asked or ())
    if EVERY not in names:
        return dict(given), {}
    if len(names) > 1:
        raise UserError(f"strategies={','.join(names)}: '{EVERY}' stands for every strategy. Give it alone.")
    left_out = _left_out(problem, given)
    kept = tuple(name for name in registry if name not in left_out)
    if not kept:
        raise UserError(f"no strategy can train problem '{problem.name}': {next(iter(left_out.values()))}")
    return {**given, "strategies": kept}, left_out


def _left_out(problem: Problem, given: Mapping[str, Any]) -> dict[str, str]:
    fixed = given.get("fixed") or {}
    space = find_space(problem, given.get("space", "wide")).narrowed(strategies=tuple(registry), fixed=fixed)
    with isolated(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = Samples.open(problem, "train", torch.device("cpu"))
        few = next(samples.batches(min(_ROWS, samples.few(_ROWS)), 1))
        reasons = {name: _why_not(problem, space, name, few, samples) for name in registry}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _why_not(problem: Problem, space: Space, name: str, few: Looked, samples: Samples) -> str | None:
    """Return why ``name`` cannot train the network; None if it can. Mistakes in the settings are said later."""
    try:
        config = resolve(problem, next(space.grid(name)))
    except UserError:
        return None
    try:
        _step(problem, config, few, samples)
    except Exception as error:
        reason = said(error)
        return reason if f"'{name}'" in reason else f"strategy '{name}' fails on this problem: {reason}"
    return None


def _step(problem: Problem, config: Config, few: Looked, samples: Samples) -> None:
    seed_everything(config.seed, "init")
    strategy = make_strategy(
        config.strategy,
        fresh_model(problem, config.model_options, lambda: samples.data),
        problem.tasks,
        lr=config.lr,
        optimizer=config.optimizer,
        groups=config.groups,
        schedule=config.schedule,
        **config.strategy_options_for(mini_batches=1),
    )
    strategy.model.train()
    strategy.step(*few.batch)
