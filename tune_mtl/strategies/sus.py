"""MTL-SUS: the common practice."""

from torch.optim import Optimizer

from tune_mtl.strategies.base import Labelled, Losses, Strategy


class SharedUpdateSteps(Strategy):
    """MTL-SUS: one step on the sum of all task losses.

    w <- w - lr * m(sum_k c_k g_k(w)).
    """

    def make_optimizers(self) -> list[Optimizer]:
        """One, over everything."""
        return [self.recipe.optimizer(self.trainable(self.tasks))]

    def learn(self, batch: Labelled) -> Losses:
        """One update."""
        return self.update(self.optimizers[0], self.tasks, batch)
