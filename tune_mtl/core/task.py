"""A task: a name, a loss, and how it is measured."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested, map_tensors

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]*")
_RESERVED = {"loss", "relative_loss"}


@dataclass(frozen=True)
class Task:
    """One of the things that a multi-task network learns.

    Attributes:
        name: Letters, digits, ``_``, ``-`` and spaces; it names the head, the loss and the metrics.
        loss: ``loss(prediction, target)`` -> scalar, the mean over the samples given.
        metrics: Makes a fresh ``torchmetrics.MetricCollection`` for one evaluation, or None.
        weight: The paper's c_k: scales the loss in training, never in what is reported.
        reference_loss: What the best constant prediction scores on the training set; makes losses comparable
            between tasks (``val/relative_loss``). Where none is given and trials are judged by it, ``train`` and
            ``search`` find it: one output for all samples, and in outputs ``[batch, channels, positions...]`` for
            all positions too, is optimised until the mean loss over the labelled training samples is least. Of large
            sets a fixed part is used: 20,000 samples (2,000 where they are not tensors), fewer of large outputs.
    """

    name: str
    loss: Callable[[Any, Any], Tensor]
    metrics: "Callable[[], MetricCollection] | None" = None
    weight: float = 1.0
    reference_loss: float | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _RESERVED:
            raise UserError(
                f"task name {self.name!r} cannot be used: letters, digits, '_', '-' and spaces only,"
                f" and not {' or '.join(sorted(_RESERVED))}."
            )
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise UserError(f"task '{self.name}': weight={self.weight} must be a finite number >= 0.")
        if self.reference_loss is not None and not (math.isfinite(self.reference_loss) and self.reference_loss > 0):
            raise UserError(f"task '{self.name}': reference_loss={self.reference_loss} must be a finite number > 0.")

    def new_metrics(self) -> "MetricCollection | None":
        """Return fresh metrics for one evaluation; a single metric or a dict of them becomes a collection."""
        if self.metrics is None:
            return None
        from torchmetrics import MetricCollection

        made = self.metrics()
        return made if isinstance(made, MetricCollection) else MetricCollection(made)

    def loss_on(self, prediction: Nested, target: Nested, rows: Tensor | None = None) -> Tensor:
        """Return the unweighted loss over ``rows`` (indices of the labelled samples; None: all of them).

        Raises:
            UserError: if the task's loss returns anything but a scalar tensor.
        """
        if rows is not None:
            prediction, target = select_rows(prediction, rows), select_rows(target, rows)
        loss = self.loss(prediction, target)
        if not isinstance(loss, Tensor) or loss.ndim != 0:
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise UserError(
                f"task '{self.name}': its loss returned {got}, but must return a scalar tensor"
                " (the mean over the samples given)."
            )
        return loss


def select_rows(value: Nested, rows: Tensor) -> Nested:
    """Return the given rows of every tensor in ``value``; the indices follow each tensor to its device."""
    return map_tensors(lambda tensor: tensor[rows.to(tensor.device, non_blocking=True)], value)
