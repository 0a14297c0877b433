"""AdaTask: every task has its own memory, but all look at the same weights."""

import torch
from torch import Tensor
from torch.optim import Optimizer

from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import NoOptions, StrategyInfo


class AdaTask(Strategy[NoOptions]):
    """Groups' gradients are all taken at the same point, in one forward pass; each steps with its own optimizer state.

    w <- w - lr * sum_l m_l(sum of group l's gradients at w), applied in turn.
    """

    info = StrategyInfo(
        name="adatask",
        title="AdaTask",
        rule="all groups' gradients at the same weights, each applied through its own optimizer state",
        family="later work",
        has_groups=True,
        backwards="G",
        updates="G",
        states="G",
        memory="one gradient per group (G x trunk)",
        fp16=True,
        reference="Yang et al. 2023, AdaTask: A Task-aware Adaptive Learning Rate Approach",
    )

    def make_optimizers(self) -> list[Optimizer]:
        """Make one per group, over the trunk and the group's heads."""
        return [self.recipe.optimizer(self.trainable(group)) for group in self.groups]

    def learn(self, batch: Labelled) -> Losses:
        """Take one update per group, all from one forward pass."""
        losses = self.losses(self.tasks, batch)
        pairs = zip(self.groups, self.optimizers, strict=True)
        gradients = [self._gradients(group, optimizer, losses) for group, optimizer in pairs]
        for group, optimizer, found in zip(self.groups, self.optimizers, gradients, strict=True):
            if found is not None:
                for parameter, gradient in zip(self.trainable(group), found, strict=True):
                    self.set_gradient(parameter, gradient)
                self.apply(optimizer)
        return {task: loss.detach() for task, loss in losses.items()}

    def _gradients(self, group: list[str], optimizer: Optimizer, losses: Losses) -> tuple[Tensor | None, ...] | None:
        own = {task: losses[task] for task in group if task in losses}
        total = self.total(own) if own else None
        if total is None or not total.requires_grad:
            return None
        total = self.loss_scaled(optimizer, total)
        return torch.autograd.grad(total, self.trainable(group), retain_graph=True, allow_unused=True)
