"""Strategies, problems and metrics with faults that no CPU shows."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from tests.device import parts
from tune_mtl import Batch, Problem, StrategyInfo, Task
from tune_mtl.strategies.base import Labelled, Losses
from tune_mtl.strategies.methods.sus import SharedUpdateSteps


def faulty(name: str) -> StrategyInfo:
    return StrategyInfo(name=name, title=name, rule="one step on the sum of all task losses, with a fault")


class ReadsALoss(SharedUpdateSteps):
    """It looks at a value in every step."""

    info = faulty("reads_a_loss")

    def learn(self, batch: Labelled) -> Losses:
        losses = super().learn(batch)
        self.largest = max(loss.item() for loss in losses.values())
        return losses


class ReadsNow(SharedUpdateSteps):
    """It looks at a value in every other step."""

    info = faulty("reads_now")

    def learn(self, batch: Labelled) -> Losses:
        losses = super().learn(batch)
        if self.mini_batches % 2:
            assert all(loss > 0 for loss in losses.values())
        return losses


class WeighsOnTheHost(SharedUpdateSteps):
    """Its tensor of weights is made on the CPU."""

    info = faulty("weighs_on_the_host")

    def total(self, losses: Losses) -> Tensor:
        return (torch.ones(len(losses)) * torch.stack(list(losses.values()))).sum()


class BringsWeights(SharedUpdateSteps):
    """Its tensor of weights is made where it belongs, of numbers: the copy waits."""

    info = faulty("brings_weights")

    def total(self, losses: Losses) -> Tensor:
        stacked = torch.stack(list(losses.values()))
        return (torch.tensor([1.0] * len(losses), device=stacked.device) * stacked).sum()


class MasksOnTheHost(SharedUpdateSteps):
    """Its mask of the losses that count is on the CPU."""

    info = faulty("masks_on_the_host")

    def total(self, losses: Losses) -> Tensor:
        stacked = torch.stack(list(losses.values()))
        return torch.where(torch.ones(len(losses), dtype=torch.bool), stacked, 0.0).sum()


class SelectsByMask(SharedUpdateSteps):
    """Its mask is on the device, and selects: how many it selects must be known."""

    info = faulty("selects_by_mask")

    def total(self, losses: Losses) -> Tensor:
        stacked = torch.stack(list(losses.values()))
        return stacked[stacked.detach() > -1.0].sum()


class ForgetsOnResume(SharedUpdateSteps):
    """What it remembers comes back from a checkpoint on the CPU."""

    info = faulty("forgets_on_resume")

    def setup(self) -> None:
        self.last = torch.ones(len(self.tasks), device=next(self.model.parameters()).device)

    def total(self, losses: Losses) -> Tensor:
        return (self.last[: len(losses)] * torch.stack(list(losses.values()))).sum()

    def state_dict(self) -> dict[str, object]:
        return super().state_dict() | {"last": self.last}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        super().load_state_dict(state)
        self.last = state["last"]


class ComparesLosses(SharedUpdateSteps):
    """It asks whether its losses are those of the step before."""

    info = faulty("compares_losses")

    def learn(self, batch: Labelled) -> Losses:
        losses = super().learn(batch)
        now = torch.stack([losses[task] for task in ("numbers", "marks")])
        self.same = torch.equal(now, getattr(self, "last", now))
        self.last = now
        return losses


STRATEGIES = {
    ReadsALoss: "_local_scalar_dense",
    ReadsNow: "_local_scalar_dense",
    WeighsOnTheHost: "same device",
    BringsWeights: "copy to the device",
    MasksOnTheHost: "same device",
    SelectsByMask: "nonzero",
    ForgetsOnResume: "same device",
    ComparesLosses: "equal",
}
"""Strategies with a fault, and a word of the law that they break."""


def with_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Problem]:
    """Return what makes the problem with this loss of its classes."""

    def make() -> Problem:
        return parts.problem(tasks=[Task(task.name, loss if task.name == "classes" else task.loss) for task in tasks()])

    return make


def with_metric(metric: Callable[[], Metric]) -> Callable[[], Problem]:
    """Return what makes the problem with this metric of its numbers."""

    def make() -> Problem:
        own = {"numbers": lambda: MetricCollection({"own": metric()})}
        return parts.problem(tasks=[Task(task.name, task.loss, own.get(task.name)) for task in tasks()])

    return make


def tasks() -> list[Task]:
    return list(parts.problem().tasks)


class OnTheHost(Metric):
    """A metric with a sum that torchmetrics does not know of: it stays where it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(2)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        self.total += (prediction - target).abs().sum(dim=0)

    def compute(self) -> Tensor:
        return self.total.sum()


class NumberOnTheHost(OnTheHost):
    """The same with a single number, which operations of two numbers would take."""

    def update(self, prediction: Tensor, target: Tensor) -> None:
        self.total = self.total.sum()
        self.total += (prediction - target).abs().sum()


def noise_of_the_host(batch: Batch, generator: torch.Generator) -> Batch:
    return batch._replace(inputs=batch.inputs + 0.1 * torch.randn(batch.inputs.shape))


def source_of_the_host(batch: Batch, generator: torch.Generator) -> Batch:
    own = torch.Generator().manual_seed(5)
    return batch._replace(inputs=torch.randn(batch.inputs.shape, generator=own, device=batch.inputs.device))


def masks_on_the_device(batch: Batch, generator: torch.Generator) -> Batch:
    return batch._replace(present={task: mask.to(batch.inputs.device) for task, mask in batch.present.items()})


PROBLEMS = {
    "class weights on the host": (with_loss(lambda p, t: F.cross_entropy(p, t, torch.ones(3))), "same device"),
    "a mask on the host": (
        with_loss(lambda p, t: F.cross_entropy(p, t, reduction="none").masked_fill(torch.ones(len(t)) > 1, 0.0).mean()),
        "same device",
    ),
    "a loss that asks": (with_loss(lambda p, t: F.cross_entropy(p, t) * (2 if t.any() else 1)), "_local_scalar_dense"),
    "a loss that selects": (
        with_loss(lambda p, t: F.cross_entropy(p, t) + 0.0 * p[t >= 0].sum()),
        "nonzero",
    ),
    "a metric on the host": (with_metric(OnTheHost), "same device"),
    "a metric's number on the host": (with_metric(NumberOnTheHost), "same device"),
    "noise of the host": (lambda: parts.problem(to_device=noise_of_the_host), "same device"),
    "a source of the host": (lambda: parts.problem(to_device=source_of_the_host), "generator"),
    "masks of labels on the device": (lambda: parts.problem(to_device=masks_on_the_device), "copy to the device"),
}
"""What makes problems with a fault, and a word of the law that they break."""
