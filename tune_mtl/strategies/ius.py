"""MTL-IUS: groups take turns, with one memory."""

from torch.optim import Optimizer

from tune_mtl.strategies.base import Labelled, Losses, Strategy


class IndividualUpdateSteps(Strategy):
    """MTL-IUS: groups take turns on the same mini-batch, all through one optimizer.

    Group l steps from the weights that group l-1 left:  w <- w - lr * m(sum of its tasks' gradients at w),
    where the moments m have seen all groups' gradients on the trunk, and each head only its own.
    """

    def make_optimizers(self) -> list[Optimizer]:
        """One, over everything; weights without a gradient (other groups' heads) are left alone by its step."""
        return [self.recipe.optimizer(self.trainable(self.tasks))]

    def learn(self, batch: Labelled) -> Losses:
        """One update per group."""
        losses: Losses = {}
        for group in self.groups:
            losses |= self.update(self.optimizers[0], group, batch)
        return losses
