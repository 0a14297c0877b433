"""Inner products of the tasks' gradients over the whole trunk, in bounded memory and without touching ``.grad``."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from tune_mtl.strategies.base import Labelled, Strategy, weights_of
from tune_mtl.strategies.gramian import gramian

MOST_BYTES = 2**29
"""Of gradients that are held at once: 40 tasks over 3.3 million weights. With more, some are computed again."""

_COLUMNS = 2**18


def trunk_gramian(strategy: Strategy[Any], batch: Labelled, most_bytes: int = MOST_BYTES) -> Tensor:
    """Return all inner products of gradients of the tasks' unweighted losses with respect to the trunk's weights.

    All trainable weights of the trunk count, BatchNorm's scale and offset too. Each task has one backward pass; where
    the gradients do not fit into ``most_bytes``, those of one part of the tasks are held and the others pass by, part
    after part.

    Returns:
        float64 ``[N, N]`` on the CPU, in the order of ``strategy.tasks``; NaN for tasks without labels in the batch.
    """
    weights = weights_of(strategy.model.trunk)
    labelled = [task for task in strategy.tasks if task in batch.rows]
    found = torch.full((len(strategy.tasks),) * 2, torch.nan, dtype=torch.float64)
    if not labelled or not weights:
        return found
    dtype = reduce(torch.promote_types, (weight.dtype for weight in weights))
    columns = sum(weight.numel() for weight in weights)
    rows = min(len(labelled), max(1, most_bytes // (columns * dtype.itemsize)))
    held = torch.empty(rows, columns, dtype=dtype, device=weights[0].device)
    products = torch.zeros(len(labelled), len(labelled), dtype=torch.float64, device=held.device)
    for start in range(0, len(labelled), rows):
        end = min(start + rows, len(labelled))
        own = held[: end - start]
        for place, (_, loss) in enumerate(strategy.each_loss(batch)):
            if start <= place < end:
                torch.cat(_gradient(loss, weights), out=own[place - start])
            if place == end - 1:
                products[start:end, start:end] = gramian([own])
            if place >= end:
                with_others = _products(own, torch.cat(_gradient(loss, weights)))
                products[start:end, place] = products[place, start:end] = with_others
    at = torch.tensor([list(strategy.tasks).index(task) for task in labelled])
    found[at[:, None], at] = products.cpu()
    return found


def _gradient(loss: Tensor, weights: Sequence[nn.Parameter]) -> list[Tensor]:
    if not loss.requires_grad:
        return [torch.zeros_like(weight).flatten() for weight in weights]
    found = torch.autograd.grad(loss, weights, retain_graph=True, materialize_grads=True)
    return [gradient.flatten() for gradient in found]


def _products(rows: Tensor, gradient: Tensor) -> Tensor:
    """Return ``rows @ gradient`` in float64, piece by piece."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for start in range(0, len(gradient), _COLUMNS):
        piece = slice(start, start + _COLUMNS)
        total += rows[:, piece].double() @ gradient[piece].double()
    return total
