"""`celeba`: 40 binary attributes of faces."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tune_mtl.core.data import Batch
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.task import Task
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.problems.binary_metrics import binary_metrics
from tune_mtl.problems.prepared import PreparedProblem, Protocol


class CelebA(PreparedProblem):
    """Each attribute is a task: binary cross-entropy, error and F1. The official partition has all three splits."""

    name = "celeba"
    contents = (("train", "val", "test"), ("images", "attributes"), ("attributes",))
    paper_options: ClassVar[Mapping[str, Any]] = {}
    defaults: Mapping[str, Any] = {
        "epochs": 15,
        "batch_size": 256,
        "eval_batch_size": 256,
        "evaluate_every": 1,
        "channels_last": True,
    }

    def __init__(self, protocol: Protocol = "holdout", data: str | None = None) -> None:
        super().__init__(protocol, data)
        self.attributes = list(self.prepared.manifest.notes["attributes"])
        self.tasks = [Task(name, F.binary_cross_entropy_with_logits, binary_metrics) for name in self.attributes]

    def model(self, channels: int = 64) -> MultiTaskModel:  # type: ignore[override]
        """Return the paper's convolutional network; ``channels`` scales its width."""
        return celeba_net(self.attributes, channels)

    def to_device(self, batch: Batch, generator: torch.Generator) -> Batch:  # noqa: ARG002
        """Turn bytes into [0, 1], and bits into 0.0 or 1.0."""
        images, packed = batch.inputs, batch.targets["attributes"]
        assert isinstance(images, Tensor)
        assert isinstance(packed, Tensor)
        shifts = torch.arange(7, -1, -1, device=packed.device, dtype=torch.uint8)
        bits = ((packed[:, :, None] >> shifts) & 1).flatten(1).float()
        targets = dict(zip(self.attributes, bits[:, : len(self.attributes)].unbind(1), strict=True))
        return Batch(images.float().div_(255), targets)
