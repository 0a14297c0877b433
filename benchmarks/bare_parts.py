"""What all bare loops are made of."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from tune_mtl import Batch, MultiTaskModel

LR = 1e-4
Step = Callable[[Batch], None]
LossFunctions = Mapping[str, Callable[[Tensor, Tensor], Tensor]]


def adam(*modules: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for module in modules for p in module.parameters()], lr=LR, fused=True)


def summed(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def terms(model: MultiTaskModel, losses: LossFunctions, tasks: Sequence[str], features: Tensor, batch: Batch):
    return [losses[task](model.heads[task](features), batch.targets[task]) for task in tasks]
