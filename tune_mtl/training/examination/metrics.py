"""Whether the metrics of a problem can be computed on validation samples."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from tune_mtl.core.nested import Nested
from tune_mtl.core.problem import Problem
from tune_mtl.core.task import Task
from tune_mtl.training.examination.finding import Finding, said
from tune_mtl.training.examination.samples import Looked, labelled

Seen = tuple[Looked, Mapping[str, Nested]]
"""Samples, and what the network predicts for them."""

_PREDICTED = "It must take prediction and target of the labelled samples, and say one number or several."


def task_metrics(task: Task, looks: Callable[[], Iterable[Seen]], device: torch.device) -> list[Finding]:
    """Return what is wrong with the task's metrics.

    Args:
        task: Whose metrics they are.
        looks: Gives validation samples; more than one batch is asked for only where a metric needs more.
        device: Where they are.
    """
    try:
        collection = task.new_metrics()
    except Exception as error:
        way_out = "It must return a torchmetrics.MetricCollection, a Metric or a dict of them."
        return [Finding(task.name, f"its metrics cannot be made: {said(error)}.", way_out)]
    if collection is None:
        return []

    def given() -> Iterator[tuple[Any, Any]]:
        for looked, predictions in looks():
            if task.name in looked.rows and task.name in looked.batch.targets:
                rows = looked.rows[task.name]
                yield labelled(predictions[task.name], rows), labelled(looked.batch.targets[task.name], rows)

    found = [_tried(task.name, name, metric.to(device), given(), _values) for name, metric in _separate(collection)]
    return [finding for finding in found if finding is not None]


def joint_metrics(problem: Problem, looks: Callable[[], Iterable[Seen]], device: torch.device) -> list[Finding]:
    """Return what is wrong with the metrics of all tasks together, which see batches with all labels."""
    try:
        metrics = dict(problem.joint_metrics())
    except Exception as error:
        return [Finding(None, f"joint_metrics fails: {said(error)}.", "It must return a dict of metrics.")]

    def given() -> Iterator[tuple[Any, Any]]:
        for looked, predictions in looks():
            if len(looked.rows) == len(problem.tasks) and all(rows is None for rows in looked.rows.values()):
                yield predictions, looked.batch.targets

    found = [_tried(None, name, metric.to(device), given(), float) for name, metric in metrics.items()]
    return [finding for finding in found if finding is not None]


def _separate(collection: Any) -> list[tuple[str, Any]]:
    """Return the metrics by themselves: one that fails is named."""
    return [(name, metric) for name, metric in collection.items(keep_base=True, copy_state=False)]


def _tried(
    task: str | None, name: str, metric: Any, given: Iterator[tuple[Any, Any]], read: Callable[[Any], Any]
) -> Finding | None:
    """Return what is wrong with one metric; some need several batches before they can say anything."""
    failed: Exception | None = None
    for prediction, target in given:
        try:
            metric.update(prediction, target)
        except Exception as error:
            return Finding(task, f"metric '{name}' fails on a batch of 'val': {said(error)}.", _PREDICTED)
        try:
            read(metric.compute())
            return None
        except Exception as error:
            failed = error
    if failed is None:
        return None
    return Finding(task, f"metric '{name}' cannot be computed on 'val': {said(failed)}.", _PREDICTED)


def _values(computed: Any) -> Any:
    return [torch.as_tensor(value).flatten().tolist() for value in _parts(computed)]


def _parts(computed: Any) -> Iterable[Any]:
    return computed.values() if isinstance(computed, dict) else [computed]
