"""MTL-IO: groups take turns, each with its own memory."""

from torch.optim import Optimizer

from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import PAPER, NoOptions, StrategyInfo


class IndividualOptimizers(Strategy[NoOptions]):
    """MTL-IO: groups take turns on the same mini-batch, each with its own optimizer state.

    Group l steps from the weights that group l-1 left:  w <- w - lr * m_l(sum of its tasks' gradients at w).
    """

    info = StrategyInfo(
        name="io",
        title="Individual optimizers",
        rule="one step per group on the same mini-batch, each with its own optimizer state",
        has_groups=True,
        forwards="G",
        backwards="G",
        updates="G",
        states="G",
        family="paper",
        fp16=True,
        reference=PAPER,
    )

    def make_optimizers(self) -> list[Optimizer]:
        """Make one per group, over the trunk and the group's heads."""
        return [self.recipe.optimizer(self.trainable(group)) for group in self.groups]

    def learn(self, batch: Labelled) -> Losses:
        """Take one update per group."""
        losses: Losses = {}
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            losses |= self.update(optimizer, group, batch)
        return losses
