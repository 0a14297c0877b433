"""Random loss weighting: what any clever choice of weights has to beat."""

import torch

from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import NoOptions, StrategyInfo


class RandomLossWeights(Strategy[NoOptions]):
    """RLW: w <- w - lr * m(sum_k a_k c_k g_k(w)), heads included, a drawn anew for each mini-batch.

    a = softmax(z), z_k standard normal, over the tasks with labels: the a_k are above 0 and sum to 1. `jd_random` is
    RGW, the same for gradients: it weighs the rows on the trunk, and leaves the heads as they are.
    """

    info = StrategyInfo(
        name="rlw",
        title="Random loss weighting (RLW)",
        rule="one step on a sum of all task losses with random weights, heads included",
        family="loss weights",
        fp16=True,
        reference="Lin et al. 2022, Reasonable Effectiveness of Random Weighting",
    )

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        losses = self.losses(self.tasks, batch)
        chosen = self.taking_part(losses)
        if chosen:
            draws = torch.randn(len(chosen), dtype=torch.float64, generator=self.recipe.generator)
            weights = torch.softmax(draws, dim=0).tolist()  # on the CPU, where the generator is: no wait
            weighted = {task: weight * loss for weight, (task, loss) in zip(weights, chosen.items(), strict=True)}
            self.descend(self.optimizers[0], self.total(weighted))
        return {task: loss.detach() for task, loss in losses.items()}
