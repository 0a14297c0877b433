"""`nyuv2`: segmentation, depth and surface normals of indoor scenes."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import MetricCollection

from tune_mtl.core.data import Batch
from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.task import Task
from tune_mtl.models.unet import unet
from tune_mtl.problems.dense_metrics import AngleError, AnglesWithin, DepthError, PerImageIoU, PixelAccuracy, cosines
from tune_mtl.problems.prepared import PreparedProblem, Protocol

CLASSES = 13
_WITHIN = {"11_25": 11.25, "22_5": 22.5, "30": 30.0}
"""Degrees, by how metrics are named (a name cannot hold a dot)."""


def depth_loss(predicted: Tensor, depth: Tensor) -> Tensor:
    """Return the L1 distance over known pixels, in metres; 0 where none is known."""
    known = depth > 0
    return torch.where(known, (predicted - depth).abs(), 0.0).sum() / known.sum().clamp(min=1)


def normals_loss(*, encoded: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Return 1 - the mean cosine over known pixels; 0 where none is known."""

    def loss(predicted: Tensor, normals: Tensor) -> Tensor:
        known = normals.abs().sum(dim=1) > 0
        total = torch.where(known, 1.0 - cosines(predicted, normals, encoded=encoded), 0.0).sum()
        return total / known.sum().clamp(min=1)

    return loss


class NYUv2(PreparedProblem):
    """Three heterogeneous tasks.

    ``segmentation``: 13 sigmoid maps, binary cross-entropy over all pixels and maps (unlabelled pixels are zero in
    all). ``depth``: L1 in metres over known pixels. ``normals``: 1 - mean cosine over known pixels.

    Args:
        protocol: ``holdout`` or ``paper``.
        data: The folder of prepared sets.
        normals_encoding: ``unit`` vectors, or ``paper``: dot products of vectors encoded to [0, 1], only to compare
            with the printed table. Those are no angles.
    """

    name = "nyuv2"
    contents = (("train", "test"), ("images", "labels", "depth", "normals"), ())
    own_options: ClassVar[tuple[str, ...]] = ("protocol", "normals_encoding")
    defaults: Mapping[str, Any] = {
        "epochs": 500,
        "batch_size": 8,
        "eval_batch_size": 8,
        "evaluate_every": 5,
        "channels_last": True,
    }

    def __init__(
        self,
        protocol: Protocol = "holdout",
        data: str | None = None,
        normals_encoding: Literal["unit", "paper"] = "unit",
    ) -> None:
        if normals_encoding not in ("unit", "paper"):
            raise UserError(f"normals_encoding={normals_encoding!r} must be unit or paper.")
        encoded = normals_encoding == "paper"
        super().__init__(protocol, data)

        def segments() -> MetricCollection:
            return MetricCollection(
                {"miou": PerImageIoU(CLASSES), "pixel_accuracy": PixelAccuracy()}, compute_groups=False
            )

        def distances() -> MetricCollection:
            return MetricCollection(
                {"absolute_error": DepthError(relative=False), "relative_error": DepthError(relative=True)},
                compute_groups=False,
            )

        def angles() -> MetricCollection:
            made = {f"{kind}_angle": AngleError(kind, encoded=encoded) for kind in ("mean", "median")}
            made |= {f"within_{name}": AnglesWithin(limit, encoded=encoded) for name, limit in _WITHIN.items()}
            return MetricCollection(made, compute_groups=False)  # type: ignore[arg-type]

        self.tasks = [
            Task("segmentation", F.binary_cross_entropy_with_logits, segments),
            Task("depth", depth_loss, distances),
            Task("normals", normals_loss(encoded=encoded), angles),
        ]

    def model(self, channels: int = 64) -> MultiTaskModel:  # type: ignore[override]
        """Return the U-Net, 17,268,433 parameters; ``channels`` scales its width."""
        return unet({"segmentation": CLASSES, "depth": 1, "normals": 3}, channels)

    def to_device(self, batch: Batch, generator: torch.Generator) -> Batch:  # noqa: ARG002
        """Turn bytes into [0, 1], labels into 13 maps ``[B, 13, H, W]``; depth has one channel, normals have three."""
        images, stored = batch.inputs, batch.targets
        assert isinstance(images, Tensor)
        labels, depth, normals = stored["labels"], stored["depth"], stored["normals"]
        assert isinstance(labels, Tensor)
        assert isinstance(depth, Tensor)
        assert isinstance(normals, Tensor)
        classes = torch.arange(CLASSES, device=labels.device, dtype=labels.dtype)
        masks = (labels[:, None] == classes[:, None, None]).float()
        targets = {"segmentation": masks, "depth": depth[:, None].float(), "normals": normals.float()}
        return Batch(images.float().div_(255), targets)
