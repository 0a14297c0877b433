"""What a report has to know of a problem, kept with the search: reports are written from MLflow alone."""

from collections.abc import Callable
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.searching.plan import Plan, mini_batches_per_epoch
from tune_mtl.training.config import objective, resolve
from tune_mtl.training.evaluation import metric_names


def problem_facts(plan: Plan) -> dict[str, Any]:
    """Tasks, which way each metric is better (``min``, ``max``, or None where nobody knows), sizes.

    ``homogeneous`` says whether all tasks have the same loss and the same metrics.
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
        "protocol": getattr(problem, "protocol", None),
        "budget": {"counts": plan.budget.counts, "length": plan.budget.length},
        "total": plan.total,
    }


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
