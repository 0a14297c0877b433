"""A mini-batch with missing labels: which rows count for which task, and what a step says of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias

import torch
from torch import Tensor

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.nested import Nested, rows_of, tensors

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
        parts: The mini-batches that this one is made of, in their order; none where it is a single one.
    """

    inputs: Nested
    targets: Mapping[str, Nested]
    rows: dict[str, Tensor | None]
    size: int
    parts: "tuple[Labelled, ...]" = ()

    @classmethod
    def of(
        cls,
        tasks: Iterable[str],
        inputs: Nested,
        targets: Mapping[str, Nested],
        present: Mapping[str, Tensor] | None = None,
        parts: int = 1,
    ) -> "Labelled":
        """Look up which rows have labels of ``tasks``.

        Raises:
            UserError: for a mask of an unknown task, or one that is not one value per row; for more parts than rows.
        """
        first = next(tensors(inputs), None)
        size = 1 if first is None or first.ndim == 0 else len(first)
        whole = cls(inputs, targets, labelled_rows(tasks, present, size), size)
        if parts == 1:
            return whole
        if not 1 <= parts <= size:
            raise UserError(f"parts={parts} must be from 1 to the number of samples, {size}.")
        return replace(whole, parts=tuple(whole.between(start, end) for start, end in bounds(size, parts)))

    def between(self, start: int, end: int) -> "Labelled":
        """Return the rows from ``start`` to before ``end`` as a mini-batch of their own."""
        found: dict[str, Tensor | None] = {}
        for task, rows in self.rows.items():
            if rows is None:
                found[task] = None
                continue
            own = rows[(rows >= start) & (rows < end)] - start
            if len(own):
                found[task] = own if len(own) < end - start else None
        return Labelled(rows_of(self.inputs, start, end), rows_of(self.targets, start, end), found, end - start)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The first row of each part and the one behind it."""
        return bounds(self.size, len(self.parts)) if self.parts else []

    def shares(self) -> list[dict[str, float]]:
        """Return, for each part, which share of each task's labels it has: its losses count as much."""
        whole = self.counts()
        return [{task: count / whole[task] for task, count in part.counts().items()} for part in self.parts]

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


def bounds(size: int, parts: int) -> list[tuple[int, int]]:
    """Return the first row of each of so many parts and the one behind it; the first parts may be longer."""
    least, longer = divmod(size, parts)
    ends = list(accumulate(least + (index < longer) for index in range(parts)))
    return list(zip([0, *ends[:-1]], ends, strict=True))


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


def added(sums: Losses, losses: Losses, shares: Mapping[str, float] | None = None) -> Losses:
    """Return ``sums`` with the losses added, each times its share."""
    own = losses if shares is None else {task: shares[task] * loss for task, loss in losses.items()}
    return sums | {task: sums[task] + loss if task in sums else loss for task, loss in own.items()}


def times(weights: Tensor, losses: Losses) -> Losses:
    """Return each loss times its weight, which is rounded to the loss's precision."""
    rounded = {dtype: weights.to(dtype).unbind() for dtype in {loss.dtype for loss in losses.values()}}
    return {task: rounded[loss.dtype][place] * loss for place, (task, loss) in enumerate(losses.items())}
