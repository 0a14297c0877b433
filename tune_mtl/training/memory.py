"""What a trial needs of memory, by simple arithmetic, and what to do where it is too much."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tune_mtl.core.nested import tensors
from tune_mtl.core.seeds import isolated
from tune_mtl.strategies.base import Labelled, weights_of
from tune_mtl.strategies.info import count
from tune_mtl.strategies.jacobian.passes import is_held_whole
from tune_mtl.training.diagnosis.quiet import without_a_trace

if TYPE_CHECKING:
    from tune_mtl.training.trainer import Trainer

_USABLE = 0.85
"""The share of a device's memory that numbers of a trial may take: kernels and fragments want the rest."""

_PER_WEIGHT = {"adam": 2, "adamw": 2, "momentum": 1, "sgd": 0, "theorem": 0}
"""Numbers that an optimizer remembers for each weight; of others two are assumed until they have taken a step."""


@dataclass(frozen=True)
class Needs:
    """Bytes that a trial needs, roughly.

    Attributes:
        weights: The network, its gradients, the best weights so far and where the path began.
        states: What all optimizers remember.
        rows: Gradients of tasks that a strategy holds side by side.
        sample: What passes through the network keep of each sample of a mini-batch; None where it is not known.
    """

    weights: int
    states: int
    rows: int
    sample: float | None

    @property
    def fixed(self) -> int:
        """What is needed however small a mini-batch is."""
        return self.weights + self.states + self.rows

    def fits(self, batch_size: int, memory: float) -> bool:
        """Return whether mini-batches of this size leave room."""
        return self.fixed + batch_size * (self.sample or 0.0) <= _USABLE * memory


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory was refused; torch has no class of its own for the host's."""
    refused = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return refused or isinstance(error, torch.OutOfMemoryError | MemoryError)


def estimate(trainer: "Trainer") -> Needs:
    """Return what the trial of ``trainer`` needs; nothing of it changes."""
    strategy = trainer.strategy
    tasks, groups = len(strategy.tasks), len(strategy.groups)
    network, trunk = _bytes(strategy.model.parameters()), _bytes(weights_of(strategy.model.trunk))
    return Needs(
        weights=3 * network + 2 * trunk,
        states=sum(_states(trainer, index) for index in range(len(strategy.optimizers))),
        rows=_rows(trainer.config.costs.memory, weights_of(strategy.model.trunk), tasks, groups),
        sample=_kept_per_sample(trainer),
    )


def explained(trainer: "Trainer", error: BaseException) -> str:
    """Return in a line what has run out of memory, what it is needed for, and what would fit."""
    config, strategy, needs = trainer.config, trainer.strategy, estimate(trainer)
    memory = capacity(trainer.device)
    grouped = f", {len(strategy.groups)} groups" if strategy.info.has_groups else ""
    said = [f"out of memory on {trainer.device} ({_size(memory)}) with batch_size={config.batch_size}{grouped}"]
    parts = [f"weights, gradients and their copies take {_size(needs.weights)}"]
    sets = len(strategy.optimizers)
    per = ", one per group" if sets > 1 and strategy.info.has_groups else ""
    parts.append(f"optimizer states {_size(needs.states)} ({sets} set{'s' if sets > 1 else ''}{per})")
    if needs.rows:
        parts.append(f"gradients of tasks {_size(needs.rows)}")
    if needs.sample is not None:
        parts.append(f"activations about {_size(config.batch_size * needs.sample)}")
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{said[0]}: {', '.join(parts)}. {_way_out(trainer, needs, memory)} ({first[:200]})"


def _way_out(trainer: "Trainer", needs: Needs, memory: float) -> str:
    config, strategy = trainer.config, trainer.strategy
    if not needs.fits(1, memory):
        sets = len(strategy.groups)
        per_set = needs.states / sets
        room = _USABLE * memory - needs.weights - needs.rows - (needs.sample or 0.0)
        if strategy.info.has_groups and sets > 1 and per_set and room >= per_set:
            return f"About groups={min(sets - 1, int(room / per_set))} would fit."
        return "What does not depend on the batch is too large already: try sus or momentum, or a smaller network."
    if needs.sample is not None and not needs.fits(config.batch_size, memory):
        fitting = next(
            (times for times in _divisors(config.batch_size) if needs.fits(config.batch_size // times, memory)), None
        )
        if fitting is not None:
            each = config.batch_size // fitting
            together = fitting * config.accumulate
            return f"About batch_size={each} would fit; with accumulate={together} its updates are as large as these."
    smaller = max(1, config.batch_size // 2)
    again = "" if config.checkpoint_trunk else ", or checkpoint_trunk=true"
    return f"Try batch_size={smaller} with accumulate={2 * config.accumulate}{again}."


def _divisors(size: int) -> Iterable[int]:
    return (times for times in range(2, size + 1) if size % times == 0)


def _rows(record: str, trunk: Sequence[Tensor], tasks: int, groups: int) -> int:
    """Return the bytes of the gradients that a strategy with this ``record`` of its memory holds side by side.

    Of a Jacobian that is made in parts, the largest part has at least the largest weight.
    """
    whole = re.search(r"\(((?:\d+ )?[NG]) x trunk\)", record)
    if whole:
        return count(whole[1], tasks, groups) * _bytes(trunk)
    if "Jacobian row" not in record:
        return 0
    times = 2 if record.startswith("two") else 1
    if is_held_whole(tasks, sum(weight.numel() for weight in trunk)):
        return times * tasks * _bytes(trunk)
    return times * tasks * max(_bytes([weight]) for weight in trunk)


def capacity(device: torch.device) -> float:
    """Return the bytes of a device's memory; of the host's, what this process may have."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _states(trainer: "Trainer", index: int) -> int:
    """Return what an optimizer remembers, or will after its first step."""
    optimizer = trainer.strategy.optimizers[index]
    weights = _bytes(weight for group in optimizer.param_groups for weight in group["params"])
    held = sum(_bytes(tensors(state)) for state in optimizer.state.values())
    return max(held, _PER_WEIGHT.get(trainer.config.optimizer, 2) * weights)


def _kept_per_sample(trainer: "Trainer") -> float | None:
    """Return the bytes that a pass of all tasks keeps for one sample, seen on two; None where that cannot be tried."""
    strategy = trainer.strategy
    weights = {weight.untyped_storage().data_ptr() for weight in strategy.model.parameters()}
    kept: dict[int, int] = {}  # by storage: heads share their input

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    try:
        model = strategy.model
        once = strategy.passes.of(strategy.trunks, model.heads.values())
        with isolated(), without_a_trace(model, compiled=trainer.config.compile), once:
            batch = trainer.few_samples(2)
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                losses = strategy.losses(strategy.tasks, Labelled.of(strategy.tasks, *batch))
            del losses
    except Exception:  # whatever is wrong with it is said elsewhere: here it is but an estimate
        return None
    return sum(kept.values()) / 2


def _bytes(values: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in values)


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
