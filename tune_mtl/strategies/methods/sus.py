"""MTL-SUS: the common practice."""

from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import PAPER, NoOptions, StrategyInfo


class SharedUpdateSteps(Strategy[NoOptions]):
    """MTL-SUS: one step on the sum of all task losses.

    w <- w - lr * m(sum_k c_k g_k(w)).
    """

    info = StrategyInfo(
        name="sus",
        title="Shared update steps",
        rule="one step on the sum of all task losses",
        family="paper",
        fp16=True,
        reference=PAPER,
    )

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        return self.update(self.optimizers[0], self.tasks, batch)
