"""The small problems that strategies are held to laws on: networks, tasks and mini-batches, all drawn from a seed."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tune_mtl.core.data import Batch
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.nested import Nested
from tune_mtl.core.seeds import derive, generator
from tune_mtl.core.task import Task

FEATURES, HIDDEN, OUTPUTS = 5, 4, 2
SOONER_OR_LATER = 40
"""Mini-batches within which a strategy that picks tasks, by chance or by their losses, has picked each."""
NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, order=True)
class Case:
    """One example that a law is tried on.

    Attributes:
        tasks: How many tasks there are.
        steps: How many mini-batches are seen.
        rows: Samples of a mini-batch.
        seed: Of weights, data and the strategy's own randomness.
    """

    tasks: int = 3
    steps: int = 4
    rows: int = 4
    seed: int = 0

    def __str__(self) -> str:
        counts = ((self.tasks, "task"), (self.steps, "mini-batch"), (self.rows, "row"))
        return ", ".join(f"{count} {_plural(what, count)}" for count, what in counts)

    def smaller(self, least_tasks: int, least_steps: int) -> Iterator["Case"]:
        """Yield the cases up to this one from small to large: by tasks, then by mini-batches, then by rows."""
        for tasks in range(min(least_tasks, self.tasks), self.tasks + 1):
            for steps in range(min(least_steps, self.steps), self.steps + 1):
                for rows in sorted({min(2, self.rows), self.rows}):
                    yield replace(self, tasks=tasks, steps=steps, rows=rows)

    @property
    def names(self) -> list[str]:
        """Return the names of the tasks."""
        return [f"t{index}" for index in range(self.tasks)]

    def make_tasks(self, *, times: Mapping[str, float] = NOTHING, weights: Mapping[str, float] = NOTHING) -> list[Task]:
        """Return regressions whose losses differ in scale; ``times`` multiplies losses, by name as ``weights`` are."""
        return [
            Task(name, _loss(1.5**index * times.get(name, 1.0)), weight=weights.get(name, 1.0))
            for index, name in enumerate(self.names)
        ]

    def batch(self, step: int, *, missing: float | None = None) -> Batch:
        """Return the mini-batch of a step; ``missing`` is the share of labels that are not there."""
        draws = generator(self.seed, "batch", step)
        inputs = torch.randn(self.rows, FEATURES, generator=draws, dtype=torch.float64)
        targets = {name: torch.randn(self.rows, OUTPUTS, generator=draws, dtype=torch.float64) for name in self.names}
        present = None
        if missing is not None:
            present = {name: torch.rand(self.rows, generator=draws) >= missing for name in self.names}
        return Batch(inputs, targets, present)

    def network(self, meter: "Meter | None" = None) -> MultiTaskModel:
        """Return a network with a convolution and BatchNorm in its trunk: every strategy can train it."""
        with seeded(derive(self.seed, "weights")):
            trunk = nn.Sequential(
                nn.Linear(FEATURES, 12),
                Gate(meter),
                nn.Unflatten(1, (2, 6)),
                nn.Conv1d(2, 6, 3, padding=1),
                nn.BatchNorm1d(6),
                nn.Tanh(),
                nn.Flatten(),
                nn.Linear(36, HIDDEN),
                nn.Tanh(),
            )
            return MultiTaskModel(trunk, {name: nn.Linear(HIDDEN, OUTPUTS) for name in self.names}).double()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from torch's global generator with this seed within a ``with``, and leave it as it was."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


class Meter:
    """Counts passes through a trunk, and knows the graphs of which are still held.

    Attributes:
        forwards: Passes forward, with a graph or without.
        backwards: Passes back to the trunk's first layer.
    """

    def __init__(self) -> None:
        self.forwards = self.backwards = 0
        self._graphs: list[weakref.ref[_Mark]] = []

    def __deepcopy__(self, _: Any) -> "Meter":
        return self  # a strategy that copies the network is counted all the same

    def mark(self) -> "_Mark":
        """Return what lives as long as the graph of one pass."""
        mark = _Mark()
        self._graphs.append(weakref.ref(mark))
        return mark

    def held(self) -> int:
        """Return of how many passes the graph is still held."""
        self._graphs = [graph for graph in self._graphs if graph() is not None]
        return len(self._graphs)


class _Mark:
    __slots__ = ("__weakref__",)


class Gate(nn.Module):
    """Stands behind the first layer of a trunk, and lets everything through to be counted."""

    def __init__(self, meter: Meter | None) -> None:
        super().__init__()
        self.meter = meter

    def forward(self, features: Tensor) -> Tensor:
        """Return the features as they are."""
        return features if self.meter is None else counted(features, self.meter)


def counted(features: Tensor, meter: Meter) -> Tensor:
    """Return the same values, with this pass and those back counted."""
    meter.forwards += 1
    passed: Tensor = _Counted.apply(features, meter)
    return passed


class _Counted(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(features: Tensor, _meter: Meter) -> Tensor:
        return features.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.meter, ctx.mark = inputs[1], inputs[1].mark()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.meter.backwards += 1
        return gradient, None


class Scales(nn.Module):
    """A trunk that takes several inputs and returns several outputs, nested in tuples and dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.low, self.high = nn.Linear(FEATURES, 8), nn.Conv1d(2, 4, 3, padding=1), nn.Linear(16, HIDDEN)

    def forward(self, inputs: Nested) -> Nested:
        """Return ``{"low": features, "high": (features,)}``."""
        given, (factor,) = inputs["features"], inputs["more"]
        low = torch.tanh(self.low(torch.tanh(self.first(given) * factor).view(-1, 2, 4))).flatten(1)
        return {"low": low, "high": (torch.tanh(self.high(low)),)}


class Split(nn.Module):
    """A head on one of the outputs of :class:`Scales`; it predicts a pair."""

    def __init__(self, on_low: bool) -> None:
        super().__init__()
        self.on_low = on_low
        self.out = nn.Linear(16 if on_low else HIDDEN, OUTPUTS)

    def forward(self, features: Nested) -> Nested:
        """Return the predictions as ``(first, {"second": second})``."""
        out = self.out(features["low"] if self.on_low else features["high"][0])
        return out[:, :1], {"second": out[:, 1:]}


def nested_network(case: Case) -> MultiTaskModel:
    """Return a network whose inputs, features and predictions are nested; heads use different features."""
    with seeded(derive(case.seed, "weights")):
        heads = {name: Split(index % 2 == 0) for index, name in enumerate(case.names)}
        return MultiTaskModel(Scales(), heads).double()


def nested_batch(case: Case, step: int, *, missing: float | None = None) -> Batch:
    """Return the mini-batch of a step for :func:`nested_network`."""
    plain = case.batch(step, missing=missing)
    inputs = {"features": plain.inputs, "more": (plain.inputs[:, :1].abs() + 1.0,)}
    targets = {name: (target[:, :1], {"second": target[:, 1:]}) for name, target in plain.targets.items()}
    return Batch(inputs, targets, plain.present)


def nested_tasks(case: Case) -> list[Task]:
    """Return the tasks of :func:`nested_network`."""

    def loss(prediction: Nested, target: Nested) -> Tensor:
        first = F.mse_loss(prediction[0], target[0])
        return first + F.mse_loss(prediction[1]["second"], target[1]["second"])

    return [Task(name, loss) for name in case.names]


def _loss(factor: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda prediction, target: factor * F.mse_loss(prediction, target)


def _plural(what: str, count: int) -> str:
    return what if count == 1 else f"{what}{'es' if what.endswith('ch') else 's'}"
