"""Fixed task weights: the baseline that a fair comparison tunes."""

from collections.abc import Mapping

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.options import Options
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.options import NonNegative


class ScalarOptions(Options):
    """Fixed task weights, multiplied with each task's own ``weight``; tasks not named keep 1."""

    weights: Mapping[str, NonNegative] = {}


class ScalarWeights(Strategy[ScalarOptions]):
    """SUS on a weighted sum: w <- w - lr * m(sum_k a_k c_k g_k(w)), a_k fixed by ``scalar_weights``."""

    info = StrategyInfo(
        name="scalar",
        title="Fixed task weights",
        rule="one step on a weighted sum of all task losses",
        options=ScalarOptions,
        family="baselines",
        fp16=True,
        reference="Xin et al. 2022, Do Current Multi-Task Optimization Methods Even Help?",
    )

    def setup(self) -> None:
        """Multiply the tasks' own weights by the given ones."""
        given = self.options.weights
        for task, weight in given.items():
            if task not in self.weights:
                raise UserError(f"scalar_weights names an unknown task '{task}'. {did_you_mean(task, self.tasks)}")
            self.weights[task] *= weight
        if not any(self.weights.values()):
            raise UserError(f"scalar_weights={dict(given)} leaves no task with a weight above 0.")

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        return self.update(self.optimizers[0], self.tasks, batch)
