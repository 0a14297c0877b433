"""`cityscapes`: seven binary segmentations of street scenes, one per category."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import MetricCollection

from tune_mtl.core.data import Batch
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.task import Task
from tune_mtl.models.unet import unet
from tune_mtl.problems.dense_metrics import PerImageIoU, PixelAccuracy
from tune_mtl.problems.prepared import PreparedProblem, Protocol


def category_metrics() -> MetricCollection:
    """Return the IoU per image, over the images that contain the category."""
    return MetricCollection({"iou": PerImageIoU(1)})


class Cityscapes(PreparedProblem):
    """Each category is a task: binary cross-entropy over all pixels, IoU; pixel accuracy over all categories."""

    name = "cityscapes"
    contents = (("train", "val"), ("images", "categories"), ("categories",))
    defaults: Mapping[str, Any] = {
        "epochs": 150,
        "batch_size": 24,
        "eval_batch_size": 24,
        "evaluate_every": 8,
        "channels_last": True,
    }

    def __init__(self, protocol: Protocol = "holdout", data: str | None = None) -> None:
        super().__init__(protocol, data)
        self.categories = list(self.prepared.manifest.notes["categories"])
        self.tasks = [Task(name, F.binary_cross_entropy_with_logits, category_metrics) for name in self.categories]

    def model(self, channels: int = 64) -> MultiTaskModel:  # type: ignore[override]
        """Return the U-Net with a map per category; ``channels`` scales its width."""
        return unet(dict.fromkeys(self.categories, 1), channels)

    def to_device(self, batch: Batch, generator: torch.Generator) -> Batch:  # noqa: ARG002
        """Turn bytes into [0, 1], and the category map into one map ``[B, 1, H, W]`` per category."""
        images, found = batch.inputs, batch.targets["categories"]
        assert isinstance(images, Tensor)
        assert isinstance(found, Tensor)
        targets = {name: (found == number)[:, None].float() for number, name in enumerate(self.categories, start=1)}
        return Batch(images.float().div_(255), targets)

    def joint_metrics(self) -> "Mapping[str, JointPixelAccuracy]":
        """Return the metrics of all categories together."""
        return {"pixel_accuracy": JointPixelAccuracy(self.categories)}


class JointPixelAccuracy(PixelAccuracy):
    """Pixel accuracy of the category with the largest logit."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def update(self, predictions: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> None:  # type: ignore[override]
        """Count a batch of all tasks' predictions and targets."""
        stacked = (torch.cat([part[name] for name in self._names], dim=1) for part in (predictions, targets))
        super().update(*stacked)
