"""A mini-batch with missing labels: which rows count for which task, and what a step says of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.nested import Nested, tensors

Losses: TypeAlias = dict[str, Tensor]
"""Losses by task."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A mini-batch whose labels were looked up once.

    Attributes:
        inputs: What the trunk takes.
        targets: A target for each task.
        rows: For each task with labels, the indices of the rows that have one; None where all have.
        size: The number of rows; inputs that are no rows count as one.
    """

    inputs: Nested
    targets: Mapping[str, Nested]
    rows: dict[str, Tensor | None]
    size: int

    @classmethod
    def of(
        cls,
        tasks: Iterable[str],
        inputs: Nested,
        targets: Mapping[str, Nested],
        present: Mapping[str, Tensor] | None = None,
    ) -> "Labelled":
        """Look up which rows have labels of ``tasks``.

        Raises:
            UserError: for a mask of an unknown task, or one that is not one value per row.
        """
        first = next(tensors(inputs), None)
        size = 1 if first is None or first.ndim == 0 else len(first)
        return cls(inputs, targets, labelled_rows(tasks, present, size), size)

    def counts(self) -> dict[str, int]:
        """Return how many rows have a label, for each task with labels."""
        return {task: self.size if rows is None else len(rows) for task, rows in self.rows.items()}


class StepLosses(dict[str, Tensor]):
    """The detached, unweighted loss of each task with labels, as seen at its own update.

    Attributes:
        counts: For each of these tasks the number of labelled rows, over which its loss is the mean.
    """

    def __init__(self, losses: Losses, counts: dict[str, int]) -> None:
        super().__init__(losses)
        self.counts = counts


def labelled_rows(tasks: Iterable[str], present: Mapping[str, Tensor] | None, size: int) -> dict[str, Tensor | None]:
    """Return, for each task with at least one label, the indices of the rows that have one, or None if all do.

    Raises:
        UserError: for a mask of an unknown task, or one that is not one value for each of the ``size`` rows.
    """
    rows: dict[str, Tensor | None] = dict.fromkeys(tasks)
    if not present:
        return rows
    for task, given in present.items():
        mask = torch.as_tensor(given).bool()
        if task not in rows:
            raise UserError(f"present names an unknown task '{task}'. {did_you_mean(task, rows)}")
        if mask.shape != (size,):
            raise UserError(
                f"present['{task}'] has shape {tuple(mask.shape)}, but must have one value per row: ({size},)."
            )
        if not mask.all():
            labelled = mask.nonzero().squeeze(1)
            if len(labelled):
                rows[task] = labelled
            else:
                del rows[task]
    return rows
