"""A trial's scalarisation: what it is judged by where that is made of all tasks' values at each evaluation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.problem import Problem
from tune_mtl.core.scalarisation import (
    DELTA_M,
    SCALARISATIONS,
    WEIGHTED,
    WORST,
    delta_m,
    read_reference,
    read_weights,
    weighted_mean,
    worst,
)
from tune_mtl.training.config import Config, objective
from tune_mtl.training.evaluation import metric_names

_OWNERS = {"task_weights": ("weighted", WEIGHTED), "task_reference": ("delta-m", DELTA_M)}
"""Which objective reads which value of a config."""


@dataclass(frozen=True)
class Scalarisation:
    """One number of all tasks.

    Attributes:
        name: The metric, without its split.
        of: Makes it from the values of an evaluation, by their names without the split.
    """

    name: str
    of: Callable[[Mapping[str, float]], float]

    def added_to(self, values: Mapping[str, float], split: str) -> dict[str, float]:
        """Return ``values`` of a split with the number among them."""
        plain = {name.removeprefix(f"{split}/"): value for name, value in values.items()}
        return {**values, f"{split}/{self.name}": self.of(plain)}


def make_scalarisation(problem: Problem, config: Config) -> Scalarisation | None:
    """Return what the config's objective is made by; None where it is an ordinary metric.

    Raises:
        UserError: for weights or reference values that are missing, not needed, or do not fit the tasks.
    """
    metric = config.objective.metric
    for key, (name, owner) in _OWNERS.items():
        given = getattr(config, key)
        if given is not None and metric != owner:
            raise UserError(f"{key} is read by objective '{name}' alone (metric {owner}), not by metric {metric}.")
        if given is None and metric == owner:
            raise UserError(f"objective '{name}' (metric {metric}) needs {key}.")
    if metric not in SCALARISATIONS.values():
        return None
    tasks = [task.name for task in problem.tasks]
    reported = [name.removeprefix("val/") for name in metric_names(problem.tasks, "val", problem.joint_metrics())]
    plain = metric.removeprefix("val/")
    if plain in reported or metric in problem.analysed:
        raise UserError(f"metric '{metric}' is one of the problem's own: call that something else.")
    if metric == DELTA_M:
        assert config.task_reference is not None
        reference = read_reference(config.task_reference, tasks, reported)
        modes = {name: objective(problem, f"val/{name}").mode for found in reference.values() for name, _ in found}
        return Scalarisation(plain, lambda values: delta_m(values, reference, modes))
    references = {task.name: task.reference_loss for task in problem.tasks}

    def relative(values: Mapping[str, float]) -> dict[str, float]:
        known = {task: values.get(f"loss/{task}") for task in tasks}
        return {task: loss / (references[task] or 1.0) for task, loss in known.items() if loss is not None}

    if any(loss is None for loss in references.values()):
        raise UserError(f"metric '{metric}' needs a reference loss of every task: give Task(reference_loss=...).")
    if metric == WORST:
        return Scalarisation(plain, lambda values: worst(relative(values)))
    weights = read_weights(config.task_weights or "", tasks)
    return Scalarisation(plain, lambda values: weighted_mean(relative(values), weights))


def check_metric(problem: Problem, config: Config) -> None:
    """Refuse an objective that no evaluation of this problem reports, and one that lacks what it is made of."""
    if make_scalarisation(problem, config) is not None:
        return
    known = [*metric_names(problem.tasks, "val", problem.joint_metrics()), *problem.analysed]
    wanted = config.objective.metric
    several = wanted.rpartition("/")  # a metric of several values reports them numbered
    if wanted not in known and not (several[2].isdigit() and several[0] in known and "/loss" not in several[0]):
        raise UserError(f"metric '{wanted}' is not reported by problem '{problem.name}'. {did_you_mean(wanted, known)}")
