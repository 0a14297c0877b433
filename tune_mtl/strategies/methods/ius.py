"""MTL-IUS: groups take turns, with one memory."""

from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import PAPER, NoOptions, StrategyInfo


class IndividualUpdateSteps(Strategy[NoOptions]):
    """MTL-IUS: groups take turns on the same mini-batch, all through one optimizer.

    Group l steps from the weights that group l-1 left:  w <- w - lr * m(sum of its tasks' gradients at w),
    where the moments m have seen all groups' gradients on the trunk, and each head only its own:
    weights without a gradient are left alone by a step.
    """

    info = StrategyInfo(
        name="ius",
        title="Individual update steps",
        rule="one step per group on the same mini-batch, all through one optimizer",
        has_groups=True,
        forwards="G",
        backwards="G",
        updates="G",
        family="paper",
        fp16=True,
        reference=PAPER,
    )

    def learn(self, batch: Labelled) -> Losses:
        """Take one update per group."""
        losses: Losses = {}
        for group in self.groups:
            losses |= self.update(self.optimizers[0], group, batch)
        return losses
