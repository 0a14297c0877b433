"""One number out of all tasks, besides their mean: the worst task, a weighted mean, Delta-m. How they are written."""

import math
from collections.abc import Mapping, Sequence

from tune_mtl.core.errors import UserError, did_you_mean

WORST, WEIGHTED, DELTA_M = "val/worst_task", "val/weighted_loss", "val/delta_m"
SCALARISATIONS = {"worst": WORST, "weighted": WEIGHTED, "delta-m": DELTA_M}
"""What ``--objective`` calls them, and the metric that each of them is."""
NEED_REFERENCE_LOSSES = (WORST, WEIGHTED)
"""Those that are made of relative losses: a task's validation loss as a share of its reference loss."""
MEANING = {
    WORST: "the worst task: the largest over tasks of validation loss / reference loss",
    WEIGHTED: "the weighted mean over tasks of validation loss / reference loss",
    DELTA_M: "Δm on validation: the mean over tasks of the relative change against the reference values, in percent",
}
_EXAMPLE = {"task_weights": "left=2,sum=0.5", "task_reference": "left/accuracy=0.93,sum=0.4"}


def read_numbers(key: str, text: str) -> dict[str, float]:
    """Read ``name=number,name=number``.

    Raises:
        UserError: naming the part that is none.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, said = (piece.strip() for piece in part.rpartition("="))
        try:
            number = float(said)
        except ValueError:
            number = math.nan
        if not name or not equals or not math.isfinite(number):
            raise UserError(f"{key}: {part.strip()!r} must be NAME=NUMBER, as in {_EXAMPLE[key]}.")
        if name in found:
            raise UserError(f"{key} names '{name}' twice.")
        found[name] = number
    return found


def read_weights(text: str, tasks: Sequence[str]) -> dict[str, float]:
    """Return the weight of every task: that of ``left=2,sum=0.5``, else 1.

    Raises:
        UserError: for an unknown task, a negative weight, or weights that are all zero.
    """
    given = read_numbers("task_weights", text)
    for task, weight in given.items():
        if task not in tasks:
            raise UserError(f"task_weights: there is no task '{task}'. {did_you_mean(task, tasks)}")
        if weight < 0:
            raise UserError(f"task_weights: {task}={weight:g} must be 0 or more.")
    weights = {task: given.get(task, 1.0) for task in tasks}
    if not any(weights.values()):
        raise UserError(f"task_weights={text}: some task must have a weight above 0.")
    return weights


def read_reference(text: str, tasks: Sequence[str], metrics: Sequence[str]) -> dict[str, list[tuple[str, float]]]:
    """Return by task the metrics (without their split) and the values of the reference.

    Args:
        text: ``left/accuracy=0.93,sum=0.4``; a task alone stands for its loss.
        tasks: All tasks: each needs a value.
        metrics: The names of all metrics, ``left/accuracy``, ``loss/left``.

    Raises:
        UserError: for an unknown metric, a task without a value, or a value of zero.
    """
    found: dict[str, list[tuple[str, float]]] = {task: [] for task in tasks}
    for name, value in read_numbers("task_reference", text).items():
        metric = f"loss/{name}" if name in found else name
        first, _, rest = metric.partition("/")
        task = rest if first == "loss" else first
        if metric not in metrics or task not in found:
            known = [*tasks, *(one for one in metrics if one.partition("/")[0] in found)]
            raise UserError(f"task_reference: no task has '{name}'. {did_you_mean(name, known)}")
        if value == 0:
            raise UserError(f"task_reference: {name}=0 has no relative change; give another metric of that task.")
        found[task].append((metric, value))
    absent = [task for task, values in found.items() if not values]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise UserError(
            f"task_reference has no value for task '{absent[0]}'{more}: Δm is the mean over all tasks."
            f" Add {absent[0]}=LOSS, or a metric of it."
        )
    return found


def worst(relative: Mapping[str, float]) -> float:
    """Return the largest relative loss; NaN if one is undefined, or there is none."""
    values = list(relative.values())
    return math.nan if not values or any(math.isnan(value) for value in values) else max(values)


def weighted_mean(relative: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the weighted mean over the tasks that have a loss; NaN where none of them has a weight."""
    whole = math.fsum(weights[task] for task in relative)
    return math.fsum(weights[task] * loss for task, loss in relative.items()) / whole if whole else math.nan


def delta_m(
    values: Mapping[str, float], reference: Mapping[str, Sequence[tuple[str, float]]], modes: Mapping[str, str]
) -> float:
    """Return the mean relative improvement over reference values, in percent; positive is better.

    Args:
        values: The values by metric.
        reference: By task its metrics and their reference values, none of them zero: a task counts once, with the
            mean of its metrics.
        modes: Which way each metric is better, ``min`` or ``max``.

    Returns:
        NaN where a metric is undefined or missing.
    """
    per_task = []
    for metrics in reference.values():
        gains = [
            (1 if modes[name] == "max" else -1) * (values.get(name, math.nan) - base) / abs(base)
            for name, base in metrics
        ]
        per_task.append(math.fsum(gains) / len(gains))
    return 100 * math.fsum(per_task) / len(per_task) if per_task else math.nan
