"""The data of a problem: whether they are data, and a few of their samples."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tune_mtl.core.data import Batch, Data, TensorData
from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested, tensors
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator
from tune_mtl.core.task import select_rows
from tune_mtl.strategies.labels import labelled_rows
from tune_mtl.training.examination.finding import Finding, Unusable, said
from tune_mtl.training.loader import evaluation_order

_MOST_ROWS, _MOST_NUMBERS = 32, 500_000
"""Samples of a batch at most, and numbers that their inputs may hold, however few samples that leaves."""
_MOST_SCANNED = 100_000_000
"""Numbers of tensors in memory that are looked through for those that are not finite."""


@dataclass(frozen=True)
class Looked:
    """A few samples of a split, as the network gets them.

    Attributes:
        batch: The samples.
        rows: The labelled rows of each task that has any; None: all.
        indices: Which samples of the split they are.
    """

    batch: Batch
    rows: Mapping[str, Tensor | None]
    indices: Tensor


class Samples:
    """The samples of one split.

    Raises:
        Unusable: in every method, with the finding that says what is wrong.
    """

    def __init__(self, problem: Problem, split: str, data: Data, device: torch.device) -> None:
        self.problem, self.split, self.data, self._device = problem, split, data, device
        self._names = [task.name for task in problem.tasks]
        self._random = generator(0, "examination", "augmentation", device=device)

    @classmethod
    def open(cls, problem: Problem, split: str, device: torch.device) -> "Samples":
        """Ask the problem for the split."""
        try:
            data = problem.data(split)
        except Exception as error:
            own = "" if isinstance(error, UserError) else f"data('{split}') fails: "
            raise _unusable(own + said(error)) from error
        nothing = f"problem '{problem.name}' has no '{split}' data."
        if data is None:
            raise _unusable(
                nothing, f"data('{split}') must return some: trials train on 'train' and are judged on 'val'."
            )
        if not isinstance(data, Data):
            raise _unusable(f"data('{split}') returns a {type(data).__name__}, which is no Data.", _as_data(data))
        try:
            count = len(data)
        except Exception as error:
            raise _unusable(f"the length of data('{split}') fails: {said(error)}") from error
        if count == 0:
            raise _unusable(nothing, "It has a length of 0.")
        return cls(problem, split, data, device)

    def few(self, batch_size: int) -> int:
        """Return how many samples are looked at together: as many as a second is enough for."""
        most = min(batch_size, len(self.data), _MOST_ROWS)
        first = self._read(torch.arange(min(2, most)))
        each = sum(tensor.numel() for tensor in tensors(first.inputs)) // min(2, most)
        return max(min(2, most), min(most, _MOST_NUMBERS // max(1, each)))

    def batches(self, rows: int, count: int) -> Iterator[Looked]:
        """Give ``count`` batches of ``rows`` samples at most, from all over the split."""
        order = torch.randperm(len(self.data), generator=generator(0, "examination", self.split))
        for places in evaluation_order(len(order), rows)[:count]:
            yield self.look(order[places])

    def look(self, indices: Tensor) -> Looked:
        """Return the samples at ``indices``, with what the problem does to them on the device."""
        read = self._read(indices)
        try:
            placed = self.problem.to_device(read.to(self._device), self._random)
        except Exception as error:
            raise _unusable(f"to_device fails on a batch of '{self.split}': {said(error)}") from error
        if not isinstance(placed, Batch):
            raise _unusable(f"to_device returns a {type(placed).__name__}.", "It must return the Batch.")
        try:
            rows = labelled_rows(self._names, placed.present, placed.size)
        except Exception as error:
            raise _unusable(f"a batch of '{self.split}': {said(error)}") from error
        return Looked(placed, rows, indices)

    def _read(self, indices: Tensor) -> Batch:
        count, split = len(indices), self.split
        try:
            got = self.data.batch(indices)
        except Exception as error:
            raise _unusable(f"reading {count} samples of '{split}' fails: {said(error)}") from error
        if not isinstance(got, Batch):
            if not isinstance(got, tuple | list) or len(got) not in (2, 3):
                kind = type(got).__name__
                raise _unusable(f"batch() of '{split}' returns a {kind}, no Batch.", "Return Batch(inputs, targets).")
            got = Batch(*got)
        if not isinstance(got.targets, Mapping):
            names = ", ".join(f"'{name}': ..." for name in self._names)
            kind = type(got.targets).__name__
            raise _unusable(f"the targets of '{split}' are a {kind}.", f"They must be a dict by task: {{{names}}}.")
        if next(tensors(got.inputs), None) is None:
            kind = type(got.inputs).__name__
            raise _unusable(f"the inputs of '{split}' are a {kind} without tensors.", "Give a tensor, tuple or dict.")
        lengths = {length for part in (got.inputs, *got.targets.values()) if (length := first_length(part)) is not None}
        if count not in lengths and lengths:
            found = " and ".join(str(length) for length in sorted(lengths))
            raise _unusable(
                f"batch() of '{split}' was asked for {count} samples and returns {found}.",
                "It must return those at the indices that it is given.",
            )
        return got

    def spoilt(self) -> dict[str | None, Tensor]:
        """Return which samples in memory have labels (by task) or inputs (None) that are no finite numbers."""
        if not isinstance(self.data, TensorData):
            return {}
        inputs, targets, present = self.data.everything
        if sum(tensor.numel() for tensor in tensors([inputs, *targets.values()])) > _MOST_SCANNED:
            return {}
        found: dict[str | None, Tensor] = {None: spoilt_rows(inputs)}
        for task in self._names:
            if task in targets:
                labelled = (present or {}).get(task)
                bad = spoilt_rows(targets[task])
                found[task] = bad if labelled is None else bad[labelled[bad]]
        return {task: rows for task, rows in found.items() if len(rows)}

    def among_others(self, bad: Tensor, rows: int) -> Tensor:
        """Return a batch of which a quarter at most is ``bad``: a loss may leave such samples out, but not all."""
        others = torch.ones(len(self.data), dtype=torch.bool)
        others[bad] = False
        few = bad[: max(1, rows // 4)]
        return torch.cat([few, others.nonzero().squeeze(1)[: rows - len(few)]])


def first_length(value: Nested) -> int | None:
    """Return the length of the first tensor that has one."""
    return next((len(tensor) for tensor in tensors(value) if tensor.ndim), None)


def spoilt_rows(value: Nested) -> Tensor:
    """Return the rows that hold a number that is not finite, in any tensor of ``value``."""
    found = [
        (~torch.isfinite(tensor)).flatten(1).any(dim=1) if tensor.ndim > 1 else ~torch.isfinite(tensor)
        for tensor in tensors(value)
        if tensor.ndim and tensor.is_floating_point()
    ]
    together = {len(rows): rows for rows in found}
    if len(together) != 1:  # none, or tensors that are not by row
        return torch.zeros(0, dtype=torch.int64)
    return torch.stack(found).any(dim=0).nonzero().squeeze(1).cpu()


def labelled(value: Nested, rows: Tensor | None) -> Nested:
    """Return the labelled rows of a task's prediction or target."""
    return value if rows is None else select_rows(value, rows)


def _as_data(given: object) -> str:
    """Return what to make of what is no Data."""
    if isinstance(given, DataLoader):
        return "Give DatasetData(loader.dataset): order and batches are tune_mtl's."
    if isinstance(given, tuple | list) and len(given) in (2, 3) and isinstance(given[0], Tensor):
        return "Give TensorData(inputs, targets)."
    numbered = hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, str | dict)
    if numbered:
        return "Wrap it: DatasetData(dataset), whose samples are (inputs, {task: target})."
    if isinstance(given, Iterable):
        return "Samples are asked for by number: give TensorData(inputs, targets) or DatasetData(dataset)."
    return "Give TensorData(inputs, targets) or DatasetData(dataset)."


def _unusable(what: str, way_out: str = "") -> Unusable:
    return Unusable(Finding(None, what, way_out))
