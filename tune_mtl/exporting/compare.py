"""Whether an exported network predicts what the trained one does, and if not, how far it is off."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested
from tune_mtl.exporting.sample import batches_of, named_tensors

TOLERANCE = 1e-5
"""How far a prediction may be off, in relation to the largest number of its kind (or to 1, if that is larger)."""

Flat = Mapping[str, Tensor]


def flat(predictions: Mapping[str, Nested]) -> dict[str, Tensor]:
    """Return predictions as tensors by name: that of the task; ``task_0``, ``task_key`` where a task has several."""
    found: dict[str, Tensor] = {}
    for task, value in predictions.items():
        found |= named_tensors(value, task, nested=True)
    return found


def predicted(network: Callable[[Nested], Mapping[str, Nested]], inputs: Nested) -> dict[str, Tensor]:
    """Return what a network predicts, by name."""
    with torch.no_grad():
        return flat(network(inputs))


def check_predictions(model: nn.Module, predict: Callable[[Nested], Flat], inputs: Nested, what: str) -> float:
    """Return how far ``predict`` is off what ``model`` predicts, on batches of several sizes; 0 is bit for bit.

    Raises:
        UserError: if it is off by more than the tolerance, or predicts something of another kind.
    """
    furthest = 0.0
    for batch in batches_of(inputs):
        expected = predicted(model, batch)
        got = predict(batch)
        if list(got) != list(expected):
            raise UserError(f"{what} predicts {', '.join(got)}, the network {', '.join(expected)}: nothing was kept.")
        for name, tensor in expected.items():
            off = difference(tensor, got[name])
            if not off <= TOLERANCE:
                raise UserError(
                    f"{what} predicts '{name}' differently from the network that was trained: off by {off:.2g}"
                    f" in relation to the largest value, where {TOLERANCE:g} is allowed. Nothing was kept."
                )
            furthest = max(furthest, off)
    return furthest


def difference(expected: Tensor, got: Tensor) -> float:
    """Return the largest difference in relation to the largest expected number, or to 1 if that is larger."""
    if expected.shape != got.shape:
        return math.inf
    if torch.equal(expected, got):
        return 0.0
    wide, other = expected.double(), got.double()
    same = (wide == other) | (wide.isnan() & other.isnan())
    if bool(same.all()):
        return 0.0
    finite = wide[wide.isfinite()]
    scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
    off = (wide - other).abs()[~same] / scale
    return math.inf if bool(off.isnan().any()) else float(off.max())
