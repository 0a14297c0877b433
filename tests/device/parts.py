"""A small problem with everything in it that meets a device, and trials of it there and on the CPU."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import MeanMetric, MetricCollection, R2Score
from torchmetrics.classification import BinaryAccuracy, MulticlassAccuracy

from tune_mtl import Batch, MultiTaskModel, Problem, Task, TensorData
from tune_mtl.core.objective import Objective

FEATURES, CLASSES, SAMPLES, BATCH = 5, 3, 30, 6


def plain_adam(params, lr=0.01):
    """Adam in its plainest form: the same operations in the same order on every device."""
    return torch.optim.Adam(params, lr=lr, foreach=False, fused=False)


class Worst(MeanMetric):
    """A metric of all tasks together: the mean of their largest predictions."""

    def update(self, predictions: Mapping[str, Tensor], _: Mapping[str, Tensor]) -> None:
        super().update(torch.stack([prediction.detach().max() for prediction in predictions.values()]).max())


def model(width: int = 12) -> MultiTaskModel:
    """Return a trunk with a convolution, its norm and dropout, and a head for each kind of target."""
    trunk = nn.Sequential(
        nn.Linear(FEATURES, 16),
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(48, width),
        nn.Tanh(),
        nn.Dropout(0.2),
    )
    heads = {"numbers": nn.Linear(width, 2), "classes": nn.Linear(width, CLASSES), "marks": nn.Linear(width, 1)}
    return MultiTaskModel(trunk, heads)


def data(split: str) -> TensorData:
    """Return samples whose labels are missing in places; those of all tasks are there in some mini-batches."""
    generator = torch.Generator().manual_seed(("train", "val", "test").index(split))
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    targets = {
        "numbers": torch.stack([inputs.sum(dim=1), inputs.prod(dim=1)], dim=1),
        "classes": inputs[:, :CLASSES].argmax(dim=1),
        "marks": (inputs[:, :1] > 0).float(),
    }
    missing = torch.rand(SAMPLES, generator=generator) < 0.3
    missing[BATCH:] &= split == "train"
    return TensorData(inputs, targets, {"classes": ~missing})


def jittered(batch: Batch, generator: torch.Generator) -> Batch:
    """Add noise where the batch is, from the generator that lives there."""
    assert isinstance(batch.inputs, Tensor)
    noise = torch.randn(batch.inputs.shape, generator=generator, device=batch.inputs.device)
    return batch._replace(inputs=batch.inputs + 0.01 * noise)


def problem(**parts: Any) -> Problem:
    """Return the problem; ``parts`` replace its own."""
    tasks = [
        Task("numbers", F.mse_loss, lambda: MetricCollection({"r2": R2Score()}), weight=0.5),
        Task("classes", F.cross_entropy, lambda: MetricCollection({"accuracy": MulticlassAccuracy(CLASSES)})),
        Task("marks", F.binary_cross_entropy_with_logits, lambda: MetricCollection({"accuracy": BinaryAccuracy()})),
    ]
    given = {
        "tasks": tasks,
        "model": model,
        "data": data,
        "to_device": jittered,
        "objective": Objective("val/loss"),
        "joint_metrics": lambda: {"worst": Worst()},
        "defaults": {"epochs": 2, "batch_size": BATCH, "eval_batch_size": 8, "threads": 1},
    }
    return Problem("met", **{**given, **parts})
