"""What a split says of the weights: losses weighted by labelled samples, and torchmetrics."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tune_mtl.core.data import Batch
from tune_mtl.core.task import Task, select_rows
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.labels import Labelled

if TYPE_CHECKING:
    from torchmetrics import Metric


class LossMeter:
    """Means over samples of each task's loss, summed on the device in float64 and read once.

    A non-finite loss leaves a non-finite sum: the same buffer is the divergence flag.
    """

    def __init__(self, tasks: Iterable[str], device: torch.device) -> None:
        self._tasks = list(tasks)
        self._sums = torch.zeros(len(self._tasks), dtype=torch.float64, device=device)
        self._counts = dict.fromkeys(self._tasks, 0)

    def add(self, losses: Mapping[str, Tensor], labelled: Mapping[str, int]) -> None:
        """Count ``losses``, each the mean over ``labelled`` samples."""
        if len(losses) == len(self._tasks) and len(set(labelled.values())) == 1:
            self._sums.add_(torch.stack([losses[task] for task in self._tasks]), alpha=labelled[self._tasks[0]])
        else:
            for index, task in enumerate(self._tasks):
                if task in losses:
                    self._sums[index].add_(losses[task], alpha=labelled[task])
        for task in losses:
            self._counts[task] += labelled[task]

    def finite(self) -> bool:
        """Return whether every loss so far was a finite number. This waits for the device."""
        return bool(torch.isfinite(self._sums).all())

    def lost(self) -> list[str]:
        """Return the tasks some loss of which was not finite."""
        finite = torch.isfinite(self._sums).tolist()
        return [task for task, good in zip(self._tasks, finite, strict=True) if not good]

    def means(self) -> dict[str, float]:
        """Return the means by task, without those that had no labels."""
        sums = dict(zip(self._tasks, self._sums.tolist(), strict=True))
        return {task: sums[task] / count for task, count in self._counts.items() if count}

    def state_dict(self) -> dict[str, Any]:
        """Sums and counts so far."""
        return {"sums": self._sums, "counts": dict(self._counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self._sums.copy_(state["sums"])
        self._counts.update(state["counts"])


def mean_loss(losses: Mapping[str, float]) -> float:
    """Return the mean over tasks; NaN if there are none."""
    return math.fsum(losses.values()) / len(losses) if losses else math.nan


@torch.no_grad()
def evaluate(
    strategy: Strategy[Any],
    batches: Iterable[Batch],
    split: str,
    device: torch.device,
    joint: "Mapping[str, Metric] | None" = None,
) -> dict[str, float]:
    """Every loss and metric of ``split`` (``val`` or ``test``), by its name.

    A task without labels in the split is left out. An undefined metric is NaN. A metric that all of several tasks have
    is also given as its mean over those where it is defined, ``<split>/<metric>``; ``joint`` metrics see all tasks'
    predictions and targets of the mini-batches that have all labels.
    """
    together = {name: metric.to(device) for name, metric in (joint or {}).items()}
    tasks = strategy.tasks
    meter = LossMeter(tasks, device)
    made = {name: task.new_metrics() for name, task in tasks.items()}
    metrics = {name: collection.to(device) for name, collection in made.items() if collection is not None}
    seen: set[str] = set()
    strategy.model.eval()
    for batch in batches:
        predictions = strategy.predict(batch.inputs)
        labelled = Labelled.of(tasks, *batch)
        rows = labelled.rows
        losses = {}
        for name, indices in rows.items():
            prediction, target = predictions[name], batch.targets[name]
            if indices is not None:
                prediction, target = select_rows(prediction, indices), select_rows(target, indices)
            losses[name] = tasks[name].loss_on(prediction, target)
            if name in metrics:
                metrics[name].update(prediction, target)
        meter.add(losses, labelled.counts())
        seen.update(rows)
        if together and len(rows) == len(tasks) and all(indices is None for indices in rows.values()):
            for metric in together.values():
                metric.update(predictions, batch.targets)
    values = {name: dict(_scalars(collection.compute())) for name, collection in metrics.items() if name in seen}
    return {
        **_loss_values(tasks, meter.means(), split),
        **{f"{split}/{name}/{metric}": value for name, own in values.items() for metric, value in own.items()},
        **{f"{split}/{metric}": _mean([own[metric] for own in values.values()]) for metric in _common(values)},
        **{f"{split}/{name}": float(metric.compute()) for name, metric in together.items()},
    }


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the defined values: a class that no image contains says nothing of the others."""
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def _common(values: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the metrics that all of several tasks have."""
    if len(values) < 2:
        return []
    first, *others = values.values()
    return [metric for metric in first if all(metric in own for own in others)]


def metric_names(tasks: Iterable[Task], split: str, joint: Iterable[str] = ()) -> list[str]:
    """Return the names that :func:`evaluate` gives; a metric of several values gives one for each, below its own."""
    tasks = list(tasks)
    names = [f"{split}/loss", *(f"{split}/loss/{task.name}" for task in tasks)]
    if all(task.reference_loss is not None for task in tasks):
        names.append(f"{split}/relative_loss")
    own = {task.name: {str(metric): 0.0 for metric in task.new_metrics() or ()} for task in tasks}
    names += [f"{split}/{task}/{metric}" for task, metrics in own.items() for metric in metrics]
    return names + [f"{split}/{metric}" for metric in _common(own)] + [f"{split}/{name}" for name in joint]


def _loss_values(tasks: Mapping[str, Task], losses: Mapping[str, float], split: str) -> dict[str, float]:
    values = {f"{split}/loss": mean_loss(losses)}
    if all(task.reference_loss is not None for task in tasks.values()):
        relative = {name: loss / (tasks[name].reference_loss or 1.0) for name, loss in losses.items()}
        values[f"{split}/relative_loss"] = mean_loss(relative)
    return values | {f"{split}/loss/{name}": loss for name, loss in losses.items()}


def _scalars(computed: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    """Metric values as floats; a metric of several values gives one for each, numbered."""
    for name, value in computed.items():
        values = torch.as_tensor(value).flatten().tolist()
        if len(values) == 1:
            yield name, float(values[0])
        else:
            yield from ((f"{name}/{index}", float(item)) for index, item in enumerate(values))
