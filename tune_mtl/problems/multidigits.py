"""`multidigits`: two real handwritten digits on one canvas, four tasks of different nature. No download."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex

from tune_mtl.core.data import TensorData
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.task import Task
from tune_mtl.models.small_conv import small_conv_net

HEIGHT, WIDTH, DIGIT = 10, 14, 8
IMAGES = {"train": 3000, "val": 1000, "test": 1000}
_POOL_SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}
_COMPOSITION_SEED = 2024
_CLASSES, _SEGMENTS = 10, 3
_JITTER_X, _JITTER_Y = 2, HEIGHT - DIGIT + 1


def compose(split: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the images and targets of a split, always the same.

    Digits are shared out to the splits *before* composing, so that none is in two. The left digit stands in the first
    or second column, the right one in the last or last but one; where they overlap the brighter pixel shows.

    Returns:
        images ``[n, 1, 10, 14]`` in [0, 1], and targets: ``left``, ``right`` int64 ``[n]``, ``sum`` float32 ``[n]``,
        ``segment`` int64 ``[n, 10, 14]`` (0 background, 1 left, 2 right).
    """
    digits = load_digits()
    pool = digit_pools(len(digits.target))[split]
    random = np.random.default_rng([_COMPOSITION_SEED, list(IMAGES).index(split)])
    count = IMAGES[split]
    layers, labels = [], []
    for first_column in (0, WIDTH - DIGIT - _JITTER_X + 1):
        chosen = random.choice(pool, count)
        columns = first_column + random.integers(0, _JITTER_X, count)
        rows = random.integers(0, _JITTER_Y, count)
        layer = np.zeros((count, HEIGHT, WIDTH), dtype=np.float32)
        at_row = rows[:, None, None] + np.arange(DIGIT)[None, :, None]
        at_column = columns[:, None, None] + np.arange(DIGIT)[None, None, :]
        layer[np.arange(count)[:, None, None], at_row, at_column] = digits.images[chosen] / 16.0
        layers.append(layer)
        labels.append(torch.from_numpy(digits.target[chosen].astype(np.int64)))
    left, right = layers
    canvas = np.maximum(left, right)
    segment = np.where(canvas == 0, 0, np.where(left >= right, 1, 2)).astype(np.int64)
    targets = {
        "left": labels[0],
        "right": labels[1],
        "sum": (labels[0] + labels[1]).float(),
        "segment": torch.from_numpy(segment),
    }
    return torch.from_numpy(canvas).unsqueeze(1), targets


def digit_pools(digits: int) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return which digits (by index) each split composes from: a random partition."""
    shuffled = np.random.default_rng(_COMPOSITION_SEED).permutation(digits)
    ends = np.cumsum([round(share * digits) for share in _POOL_SHARES.values()])[:-1]
    return dict(zip(_POOL_SHARES, np.split(shuffled, ends), strict=True))


def entropy(labels: Tensor, classes: int) -> float:
    """Return the cross-entropy of the best constant prediction: the labels' frequencies."""
    shares = torch.bincount(labels.flatten(), minlength=classes).double() / labels.numel()
    return float(torch.special.entr(shares).sum())


@cache
def _split(name: str) -> TensorData:
    return TensorData(*compose(name))


@cache
def _tasks() -> tuple[Task, ...]:
    targets = compose("train")[1]

    def classes() -> MetricCollection:
        return MetricCollection({"accuracy": MulticlassAccuracy(_CLASSES, average="micro", validate_args=False)})

    def numbers() -> MetricCollection:
        return MetricCollection({"mae": MeanAbsoluteError(), "rmse": MeanSquaredError(squared=False)})

    def pixels() -> MetricCollection:
        return MetricCollection(
            {
                "miou": MulticlassJaccardIndex(_SEGMENTS, validate_args=False),
                "accuracy": MulticlassAccuracy(_SEGMENTS, average="micro", validate_args=False),
            },
            compute_groups=False,
        )

    digit = {side: entropy(targets[side], _CLASSES) for side in ("left", "right")}
    return (
        Task("left", F.cross_entropy, classes, reference_loss=digit["left"]),
        Task("right", F.cross_entropy, classes, reference_loss=digit["right"]),
        Task("sum", F.mse_loss, numbers, reference_loss=float(targets["sum"].double().var(correction=0))),
        Task("segment", F.cross_entropy, pixels, reference_loss=entropy(targets["segment"], _SEGMENTS)),
    )


class MultiDigits(Problem):
    """Four heterogeneous tasks on real digits; `sum` is in raw units, so its loss is of another scale."""

    name = "multidigits"
    defaults: Mapping[str, Any] = {
        "epochs": 12,
        "batch_size": 100,
        "eval_batch_size": 500,
        "threads": 1,
        "channels_last": True,
    }
    objective = Objective("val/relative_loss", "min")

    def __init__(self) -> None:
        super().__init__(tasks=_tasks())

    def model(self, channels: int = 32) -> MultiTaskModel:  # type: ignore[override]
        """Return the small convolutional network; ``channels`` scales its width."""
        return small_conv_net(HEIGHT, WIDTH, _CLASSES, _SEGMENTS, channels)

    def data(self, split: str) -> TensorData:
        """Return 3000, 1000 or 1000 images from disjoint digits."""
        return _split(split)
