"""MTL-IO: groups take turns, each with its own memory."""

from torch.optim import Optimizer

from tune_mtl.strategies.base import Labelled, Losses, Strategy


class IndividualOptimizers(Strategy):
    """MTL-IO: groups take turns on the same mini-batch, each with its own optimizer state.

    Group l steps from the weights that group l-1 left:  w <- w - lr * m_l(sum of its tasks' gradients at w).
    """

    def make_optimizers(self) -> list[Optimizer]:
        """One per group, over the trunk and the group's heads."""
        return [self.recipe.optimizer(self.trainable(group)) for group in self.groups]

    def learn(self, batch: Labelled) -> Losses:
        """One update per group."""
        losses: Losses = {}
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            losses |= self.update(optimizer, group, batch)
        return losses
