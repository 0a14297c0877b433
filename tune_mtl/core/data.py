"""Data: one call per mini-batch. The harness owns the order; data own nothing but their samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested, join, map_tensors, row_count, tensors
from tune_mtl.core.seeds import isolated, seed_everything


class Batch(NamedTuple):
    """Samples and labels: ``strategy.step(*batch)``.

    Attributes:
        inputs: What the trunk takes.
        targets: A target for each task; what stands in rows without a label is never read.
        present: For each task with missing labels, a bool mask of the rows that have one. Stays on the CPU, so that
            counting labels never waits for the device. A task not named here has all its labels.
    """

    inputs: Nested
    targets: Mapping[str, Nested]
    present: Mapping[str, Tensor] | None = None

    @property
    def size(self) -> int:
        """The number of samples."""
        return row_count(self.inputs)

    @staticmethod
    def joined(batches: "Sequence[Batch]") -> "Batch":
        """Return one batch with the samples of all, in their order.

        Raises:
            UserError: if their tensors do not fit together.
        """
        if len(batches) == 1:
            return batches[0]
        masked = {task for batch in batches for task in batch.present or ()}
        masks = {task: torch.cat([_mask(batch, task) for batch in batches]) for task in sorted(masked)}
        try:
            inputs, targets = (join([batch[part] for batch in batches]) for part in (0, 1))
        except (RuntimeError, KeyError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise UserError(f"accumulate: mini-batches cannot be joined, as their samples differ: {said}") from None
        return Batch(inputs, targets, masks or None)

    def to(self, device: torch.device, *, channels_last: bool = False) -> "Batch":
        """Return the batch with inputs and targets on ``device`` (asynchronously from pinned memory)."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        def move_input(tensor: Tensor) -> Tensor:
            images = channels_last and tensor.ndim == 4
            moved = move(tensor)
            return moved.contiguous(memory_format=torch.channels_last) if images else moved

        return Batch(map_tensors(move_input, self.inputs), map_tensors(move, dict(self.targets)), self.present)

    def pin_memory(self) -> "Batch":
        """Return the same batch in page-locked memory, from where copies to a GPU do not block."""
        inputs, targets = (map_tensors(Tensor.pin_memory, part) for part in (self.inputs, dict(self.targets)))
        return Batch(inputs, targets, self.present)


def _mask(batch: Batch, task: str) -> Tensor:
    mask = (batch.present or {}).get(task)
    return torch.ones(batch.size, dtype=torch.bool) if mask is None else mask


@runtime_checkable
class Data(Protocol):
    """A split: ``len()`` samples, any of which can be asked for together.

    ``batch`` must depend on the indices alone; augmentation belongs in ``Problem.to_device``, which gets a generator.
    """

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> Batch:
        """Return the samples at ``indices`` (1-D int64), in that order."""
        ...


@runtime_checkable
class LoadedData(Protocol):
    """Data that load a whole sequence of batches themselves, and may draw random numbers for every sample."""

    def batches(self, order: Sequence[Tensor], seed: int) -> Iterator[Batch]:
        """Yield the batches of ``order``, of which each holds indices; ``seed`` is that of the epoch."""
        ...


@runtime_checkable
class MarkedData(Protocol):
    """Data that know a short text by which their content is told from that of others."""

    fingerprint: str


class TensorData:
    """Data that are already tensors: a batch is one gather per tensor."""

    def __init__(
        self, inputs: Nested, targets: Mapping[str, Nested], present: Mapping[str, Tensor] | None = None
    ) -> None:
        self.everything = Batch(inputs, dict(targets), None if present is None else dict(present))
        lengths = {len(tensor) for part in self.everything for tensor in tensors(part)}
        if len(lengths) != 1:
            raise UserError(f"inputs, targets and present must have one length, got {sorted(lengths)}.")
        if present is not None:
            for task, mask in present.items():
                if mask.dtype != torch.bool or mask.ndim != 1:
                    raise UserError(f"present['{task}'] must be a 1-D bool tensor, got {mask.dtype}[{mask.ndim}-D].")

    def __len__(self) -> int:
        return self.everything.size

    def batch(self, indices: Tensor) -> Batch:
        """Return the samples at ``indices``."""
        indices = torch.as_tensor(indices)
        return cast(Batch, map_tensors(lambda tensor: tensor[indices], self.everything))


class _Seeded(Dataset[Any]):
    """Gives each sample its own random state, so that worker count and resume position cannot change it."""

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        self.dataset, self.seed = dataset, seed

    def __getitem__(self, index: int) -> Any:
        seed_everything(self.seed, "sample", int(index), cuda=False)
        return self.dataset[index]


class DatasetData:
    """A ``torch.utils.data.Dataset`` whose samples are ``(inputs, targets)`` or ``(inputs, targets, present)``.

    ``targets`` is a dict by task; ``present``, where given, a dict of bools by task.

    Args:
        dataset: A map-style dataset.
        workers: Processes that load batches ahead; 0 loads in the training process. Random transforms give the same
            samples for every number of workers.
    """

    def __init__(self, dataset: Dataset[Any], workers: int = 0) -> None:
        if not hasattr(dataset, "__len__"):
            raise UserError(f"{type(dataset).__name__} has no length: DatasetData needs a map-style dataset.")
        if workers < 0:
            raise UserError(f"workers={workers} must be >= 0.")
        self._dataset, self._workers = dataset, workers

    def __len__(self) -> int:
        return len(cast(Sequence[Any], self._dataset))

    def batch(self, indices: Tensor) -> Batch:
        """Return the samples at ``indices``, collated by torch's rules."""
        return _collate([self._dataset[index] for index in torch.as_tensor(indices).tolist()])

    def batches(self, order: Sequence[Tensor], seed: int) -> Iterator[Batch]:
        """Yield the batches of ``order`` one after the other, loaded ahead by worker processes where there are any."""
        seeded = _Seeded(self._dataset, seed)
        if self._workers == 0:
            for indices in order:
                with isolated(cuda=False):
                    samples = [seeded[index] for index in indices.tolist()]
                yield _collate(samples)
            return
        try:
            yield from DataLoader(
                seeded,
                batch_sampler=[indices.tolist() for indices in order],
                num_workers=self._workers,
                collate_fn=_collate,
                generator=torch.Generator().manual_seed(seed),
            )
        except UserError as error:  # torch wraps it in the worker's whole traceback
            raise UserError(str(error).strip().splitlines()[-1].rpartition("UserError: ")[2]) from None


def _collate(samples: list[Any]) -> Batch:
    if not isinstance(samples[0], tuple | list) or len(samples[0]) not in (2, 3):
        raise UserError(
            f"a sample must be (inputs, targets) or (inputs, targets, present), got {type(samples[0]).__name__}."
        )
    inputs, targets, *present = default_collate([tuple(sample) for sample in samples])
    if isinstance(samples[0][0], tuple):
        inputs = tuple(inputs)
    masks = {task: mask.bool().reshape(len(samples)) for task, mask in present[0].items()} if present else None
    return Batch(inputs, targets, masks)
