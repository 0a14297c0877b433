"""`--strategies all`: every strategy that can train the problem's network; the others are left out, each with why."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from search_spaces import Space
from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.experiment.planning.first_steps import ROWS, first_steps
from tune_mtl.experiment.planning.searched import base_space
from tune_mtl.strategies.parts import PARTS
from tune_mtl.strategies.registry import registry
from tune_mtl.training.config import resolve
from tune_mtl.training.examination.finding import said
from tune_mtl.training.examination.samples import Looked, Samples

EVERY = "all"


def with_every_strategy(problem: Problem, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings with ``all`` spelt out, and why each strategy that is not among them was left out.

    A strategy is left out where its packages are not installed, or one step on a few samples shows that it cannot
    train this network on these losses.

    Args:
        problem: One that can be trained.
        given: Settings of the search; ``strategies`` may be ``all``, or hold it beside those that are not built in.

    Raises:
        UserError: where ``all`` is given beside what it stands for, or no strategy is left.
    """
    asked = given.get("strategies")
    names = (asked,) if isinstance(asked, str) else tuple(asked or ())
    if EVERY not in names:
        return dict(given), {}
    built_in = [name for name in names if name in registry]
    if built_in:
        raise UserError(f"strategies={','.join(names)}: '{EVERY}' stands for {built_in[0]} too. Leave one of them out.")
    left_out = _left_out(problem, given)
    kept = (*(name for name in registry if name not in left_out), *(name for name in names if name != EVERY))
    if not kept:
        raise UserError(f"no strategy can train problem '{problem.name}': {next(iter(left_out.values()))}")
    return {**given, "strategies": kept}, left_out


def _left_out(problem: Problem, given: Mapping[str, Any]) -> dict[str, str]:
    fixed = {**(given.get("fixed") or {}), **{part: given[part] for part in PARTS if given.get(part) is not None}}
    space = base_space(problem, given).narrowed(strategies=tuple(registry), fixed=fixed)
    with isolated(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = Samples.open(problem, "train", torch.device("cpu"))
        few = next(samples.batches(min(ROWS, samples.few(ROWS)), 1))
        reasons = {name: _why_not(problem, space, name, few, samples) for name in registry}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _why_not(problem: Problem, space: Space, name: str, few: Looked, samples: Samples) -> str | None:
    """Return why ``name`` cannot train the network; None if it can. Mistakes in the settings are said later."""
    try:
        config = resolve(problem, next(space.grid(name)))
    except UserError:
        return None
    try:
        first_steps(problem, config, [few], samples)
    except Exception as error:
        reason = said(error)
        return reason if f"'{name}'" in reason else f"strategy '{name}' fails on this problem: {reason}"
    return None
