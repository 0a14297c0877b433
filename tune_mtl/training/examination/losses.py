"""Whether a task's loss can be computed on a batch, and is what a loss must be."""

from collections.abc import Mapping

import torch
from torch import Tensor

from tune_mtl.core.nested import Nested, tensors
from tune_mtl.core.task import Task
from tune_mtl.training.examination.broadcasting import watched
from tune_mtl.training.examination.finding import Finding, said
from tune_mtl.training.examination.samples import Looked, first_length, labelled, spoilt_rows

_SCALAR = "It must return a scalar tensor, the mean over the samples given."
_MASK = "Correct them, or mark them as missing: present={task: a bool per sample}."


def task_loss(task: Task, predictions: Mapping[str, Nested], looked: Looked, split: str) -> Tensor | Finding:
    """Return the task's loss over its labelled rows, or what is wrong with it."""
    rows, targets = looked.rows[task.name], looked.batch.targets
    if task.name not in targets:
        way_out = "Give each batch one, or mark its samples as missing: present={task: a bool per sample}."
        return Finding(task.name, f"the batches of '{split}' hold no target for it.", way_out)
    try:
        prediction, target = labelled(predictions[task.name], rows), labelled(targets[task.name], rows)
    except Exception as error:
        return Finding(
            task.name, f"its labelled samples cannot be chosen: {said(error)}", _shapes(task, predictions, looked)
        )
    shapes = f"prediction {shape_of(prediction)}, target {shape_of(target)}"
    with watched(prediction, target) as stretched:
        try:
            loss = task.loss(prediction, target)
        except Exception as error:
            return Finding(
                task.name,
                f"its loss fails on a batch of '{split}' ({shapes}): {said(error)}",
                _lengths(prediction, target),
            )
    if not isinstance(loss, Tensor):
        return Finding(task.name, f"its loss returned {_kind(loss)}.", _SCALAR)
    if loss.ndim:
        return Finding(task.name, f"its loss returned shape {tuple(loss.shape)}.", _SCALAR)
    if stretched.shapes is not None:
        first, second, result = stretched.shapes
        what = f"its loss broadcasts prediction {first} and target {second} to {result}: every sample meets all others."
        return Finding(task.name, what, "Give both the same shape.")
    return loss


def not_finite(
    task: Task, loss: Tensor, predictions: Mapping[str, Nested], looked: Looked, split: str
) -> Finding | None:
    """Return why the loss of a batch is no finite number; None if it is one.

    A loss that copes with such targets, and a network with such inputs, are as they should be.
    """
    if bool(torch.isfinite(loss)):
        return None
    rows, batch = looked.rows[task.name], looked.batch
    value = "nan" if bool(loss.isnan()) else "infinite"
    bad = spoilt_rows(labelled(batch.targets[task.name], rows))
    if len(bad):
        sample = int(looked.indices[int(bad[0] if rows is None else rows.cpu()[bad[0]])])
        named = f"its targets in '{split}' are not finite where they count as labelled (sample {sample})"
        what = f"{named}: the loss is {value}."
        return Finding(task.name, what, _MASK)
    bad = spoilt_rows(batch.inputs)
    if len(bad):
        what = (
            f"the inputs of '{split}' are not finite (sample {int(looked.indices[int(bad[0])])}): losses are {value}."
        )
        return Finding(None, what, "Correct them, or replace what is missing in the data or to_device.")
    if any(not bool(torch.isfinite(tensor).all()) for tensor in tensors(predictions[task.name])):
        what = f"the untrained network's predictions on '{split}' are not finite: the loss is {value}."
        return Finding(task.name, what, "Look at its layers and at the scale of the inputs.")
    what = f"its loss is {value} on a batch of '{split}', with finite predictions and targets."
    return Finding(task.name, what, "Look for log, sqrt and division at 0, and for means over no elements.")


def shape_of(value: Nested) -> str:
    """Return the shapes of a nested value, to be shown."""
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shape_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(shape_of, value)) + "]"
    return type(value).__name__


def _lengths(prediction: Nested, target: Nested) -> str:
    first, second = first_length(prediction), first_length(target)
    if first is not None and second is not None and first != second:
        return f"There are {first} predictions and {second} targets: each sample needs one of both."
    return "Look at shapes and dtypes of prediction and target."


def _shapes(task: Task, predictions: Mapping[str, Nested], looked: Looked) -> str:
    given = f"prediction {shape_of(predictions[task.name])}, target {shape_of(looked.batch.targets[task.name])}"
    return f"({given}, {looked.batch.size} samples.) Both need a row per sample."


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
