"""The labelled training samples that reference losses are found on: all of a small set, a fixed part of a large one."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tune_mtl.core.data import Batch, Data, TensorData
from tune_mtl.core.nested import Nested, map_tensors, tensors
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator, seed_everything
from tune_mtl.core.task import Task, select_rows
from tune_mtl.strategies.labels import labelled_rows
from tune_mtl.training.loader import batches
from tune_mtl.training.references.constant import Labels, NoReference

MOST_TENSOR_ROWS, MOST_LOADED_ROWS = 20_000, 2_000
"""Samples at most: of tensors in memory; of anything else, each of which may have to be read and decoded."""
_MOST_OUTPUTS, _FEWEST_ROWS = 2_000_000, 16
"""Numbers that a task's outputs may hold in all, however few samples that leaves; but never fewer than so many."""
_PART = 250_000
"""Numbers of outputs for which a loss is computed at once."""
_LOOK = 16
"""Samples that the untrained network sees."""
_BATCH = 256
_SEED = 0


def look(problem: Problem, train: Data, options: Mapping[str, Any]) -> tuple[Batch, dict[str, Nested]]:
    """Return a few training samples, and what the untrained network predicts for them. Seeds the global state."""
    seed_everything(_SEED, "reference")
    model = problem.model(**options).eval()
    batch = next(_batches(problem, train, _order(train)[:_LOOK]))
    with torch.no_grad():
        predictions = model(batch.inputs, [task.name for task in problem.tasks])
    for task, prediction in predictions.items():
        for tensor in tensors(prediction):
            if tensor.ndim == 0 or len(tensor) != batch.size:
                raise NoReference(f"task '{task}' predicts {tuple(tensor.shape)} for {batch.size} samples")
    return batch, predictions


def labels(
    problem: Problem, train: Data, tasks: Mapping[str, Task], predictions: Mapping[str, Nested]
) -> dict[str, list[Labels]]:
    """Return the targets of each of ``tasks`` over its labelled samples, in parts that a loss takes at once.

    Which samples depends on the sizes of set and outputs alone.
    """
    most = MOST_TENSOR_ROWS if isinstance(train, TensorData) else MOST_LOADED_ROWS
    numbers = {name: sum(tensor[0].numel() for tensor in tensors(predictions[name])) for name in tasks}
    rows = {name: min(most, max(_FEWEST_ROWS, _MOST_OUTPUTS // max(1, count))) for name, count in numbers.items()}
    chosen = _order(train)[: max(rows.values())]
    found: dict[str, list[Labels]] = {name: [] for name in tasks}
    seen = 0
    for batch in _batches(problem, train, chosen, min(_BATCH, *rows.values())):
        for name, indices in labelled_rows([task.name for task in problem.tasks], batch.present, batch.size).items():
            if name in tasks and seen < rows[name]:
                target = batch.targets[name]
                count = batch.size if indices is None else len(indices)
                found[name].append(Labels(target if indices is None else select_rows(target, indices), count))
        seen += batch.size
    return {name: list(_joined(parts, max(1, _PART // max(1, numbers[name])))) for name, parts in found.items()}


def _order(train: Data) -> Tensor:
    """Return an order, always the same and as good as any other beginning of it: a set may be sorted by its labels."""
    return torch.randperm(len(train), generator=generator(_SEED, "reference", "samples"))


def _batches(problem: Problem, train: Data, chosen: Tensor, size: int = _BATCH) -> Iterator[Batch]:
    """Yield the chosen samples as training has them, on the CPU."""
    device = torch.device("cpu")
    augmentation = generator(_SEED, "reference", "augmentation")

    def place(batch: Batch) -> Batch:
        return problem.to_device(batch.to(device), augmentation)

    return batches(train, torch.split(chosen, size), place, device, _SEED, 0)


def _joined(parts: list[Labels], rows: int) -> Iterator[Labels]:
    """Yield the same samples in fewer parts, each of about ``rows``: a loss costs as much for one as for a hundred."""
    waiting: list[Labels] = []
    for part in parts:
        waiting.append(part)
        if sum(each.samples for each in waiting) >= rows:
            yield _join(waiting)
            waiting = []
    if waiting:
        yield _join(waiting)


def _join(parts: list[Labels]) -> Labels:
    if len(parts) == 1:
        return parts[0]
    columns = iter(list(zip(*(tensors(part.target) for part in parts), strict=True)))
    target = map_tensors(lambda _: torch.cat(next(columns)), parts[0].target)
    return Labels(target, sum(part.samples for part in parts))
