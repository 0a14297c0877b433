"""Fixed task weights: the baseline that a fair comparison tunes."""

from collections.abc import Sequence

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.task import Task
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.options import ScalarOptions
from tune_mtl.strategies.recipe import Recipe
from tune_mtl.strategies.sus import SharedUpdateSteps


class ScalarWeights(SharedUpdateSteps):
    """SUS on a weighted sum: w <- w - lr * m(sum_k a_k c_k g_k(w)), a_k fixed by ``scalar_weights``."""

    def __init__(
        self, info: StrategyInfo, model: MultiTaskModel, tasks: Sequence[Task], groups: list[list[str]], recipe: Recipe
    ) -> None:
        super().__init__(info, model, tasks, groups, recipe)
        options = recipe.options
        assert isinstance(options, ScalarOptions)
        for task, weight in options.weights.items():
            if task not in self.weights:
                raise UserError(f"scalar_weights names an unknown task '{task}'. {did_you_mean(task, self.tasks)}")
            self.weights[task] *= weight
        if not any(self.weights.values()):
            raise UserError(f"scalar_weights={dict(options.weights)} leaves no task with a weight above 0.")
