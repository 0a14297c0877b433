"""What a report has to know of a problem, kept with the search: reports are written from MLflow alone."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from search_spaces.space import Choice, Dimension, IntRange, LogRange
from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.experiment.planning.plan import Plan, mini_batches_per_epoch
from tune_mtl.experiment.planning.replication import looks
from tune_mtl.experiment.planning.thawing import pauses
from tune_mtl.strategies.parts import PARTS, reference_of_part
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import objective, resolve
from tune_mtl.training.evaluation import metric_names


def problem_facts(plan: Plan) -> dict[str, Any]:
    """Return the tasks, which way each metric is better (``min``, ``max``, or None where nobody knows), and sizes.

    ``homogeneous`` says whether all tasks have the same loss and the same metrics; ``objective_warning`` why
    ``val/loss`` decides although nobody asked for it, or None.
    ``contestants`` says of the strategies that are not built in what nobody can look up later; ``parts`` names the
    optimizers and schedules of trials, and where those that are not built in are found.
    ``dimensions`` says by strategy what was searched in each dimension that has more than one point: ``{"low", "high",
    "log"}``, or ``{"points"}`` where nothing in between could be tried.
    """
    problem = plan.problem
    config = resolve(problem, plan.completed(next(plan.space.grid(plan.space.strategies[0]))), plan.settings.problem)
    reported = metric_names(problem.tasks, "val", problem.joint_metrics())
    kinds = {(_name(task.loss), tuple(map(str, task.new_metrics() or ()))) for task in problem.tasks}
    return {
        "name": problem.name,
        "tasks": [task.name for task in problem.tasks],
        "homogeneous": len(kinds) == 1,
        "metrics": {name.removeprefix("val/"): _mode(problem, name) for name in reported},
        "samples": {split: _samples(problem, split) for split in ("train", "val", "test")},
        "mini_batches_per_epoch": mini_batches_per_epoch(problem, config),
        "batch_size": config.batch_size,
        "objective_warning": problem.objective_warning,
        "protocol": problem.protocol,
        "budget": {"counts": plan.budget.counts, "length": plan.budget.length},
        "total": None if pauses(plan) else plan.total,
        "trials_per_tuning": trials_per_tuning(plan),
        "looks": list(looks(plan.settings)) or None,
        "contestants": {name: _record(name, found) for name, found in plan.settings.contestants.items()},
        "parts": {part: {name: reference_of_part(part, name) for name in plan.tried(part)} for part in PARTS},
        "dimensions": {strategy: _searched(plan, strategy) for strategy in plan.space.strategies},
    }


def _record(name: str, reference: str) -> dict[str, Any]:
    info = strategy_info(name)
    said = {"title": info.title, "rule": info.rule, "reference": info.reference, "shares_trunk": info.shares_trunk}
    return {"found": reference, **said}


def _searched(plan: Plan, strategy: str) -> dict[str, dict[str, Any]]:
    found = plan.space.of(strategy).items()
    return {name: _extent(plan, dimension) for name, dimension in found if len(dimension.points()) > 1}


def _extent(plan: Plan, dimension: Dimension) -> dict[str, Any]:
    if isinstance(dimension, Choice) or plan.settings.algorithm == "grid":
        return {"points": list(dimension.points())}
    log = dimension.log if isinstance(dimension, IntRange) else isinstance(dimension, LogRange)
    return {"low": dimension.low, "high": dimension.high, "log": log}


def trials_per_tuning(plan: Plan) -> int | None:
    """Return how many trials every tuning has at least; None on a grid, where strategies have unequal ones."""
    if plan.settings.algorithm == "grid" or plan.settings.balance == "none":
        return None
    return min(Counter((turn.strategy, turn.replicate) for turn in plan.turns).values())


def _mode(problem: Problem, name: str) -> str | None:
    try:
        return objective(problem, name).mode
    except UserError:
        return None


def _samples(problem: Problem, split: str) -> int | None:
    data = problem.data(split)
    return None if data is None else len(data)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
