"""The networks of a search whose size is searched: each takes a step on a few samples before anything starts."""

import warnings
from itertools import islice
from typing import Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.seeds import isolated
from tune_mtl.experiment.planning.first_steps import ROWS, first_steps
from tune_mtl.experiment.planning.plan import Plan, ends
from tune_mtl.training.examination.finding import said
from tune_mtl.training.examination.samples import Samples

_MODEL = "model_"


def require_networks(plan: Plan) -> None:
    """Refuse values of searched ``model_...`` options with which the problem makes no network that can be trained.

    Where the data are not on this machine, trials will say what is wrong.

    Raises:
        UserError: for the first such value.
    """
    searched: dict[str, Any] = {
        key: dimension
        for strategy in plan.space.strategies
        for key, dimension in plan.space.of(strategy).items()
        if key.startswith(_MODEL) and len(dimension.points()) > 1
    }
    if not searched:
        return
    first = plan.first_config(plan.space.strategies[0])
    with isolated(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples = Samples.open(plan.problem, "train", torch.device("cpu"))
            few = list(islice(samples.batches(min(ROWS, samples.few(ROWS)), 1), 1))
        except Exception:
            return
        for key, dimension in searched.items():
            for value in ends(dimension):
                config = first.model_copy(update={"options": {**first.options, key: value}})
                try:
                    first_steps(plan.problem, config, few, samples)
                except Exception as error:
                    raise UserError(
                        f"--search {key}: problem '{plan.problem.name}' has no network that can be trained with"
                        f" {key}={value!r}: {said(error)}"
                    ) from error
