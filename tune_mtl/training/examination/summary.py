"""A problem that is ready, in a line."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.strategies.base import weights_of
from tune_mtl.training.network import fresh_model


def summary(problem: Problem, config: Mapping[str, Any]) -> str:
    """Return tasks, samples of each split, and how many weights of trunk and heads train.

    Args:
        problem: One without findings.
        config: Flat values of a trial: ``model_...``.
    """
    flat = {**problem.defaults, **config}
    options = {key.removeprefix("model_"): value for key, value in flat.items() if key.startswith("model_")}
    with isolated():
        splits = {split: problem.data(split) for split in ("train", "val", "test")}
        model = fresh_model(problem, options, lambda: splits["train"])
    heads = [model.heads[task.name] for task in problem.tasks]
    trunk, own = (sum(weight.numel() for weight in weights_of(*parts)) for parts in ([model.trunk], heads))
    names = [task.name for task in problem.tasks]
    listed = ", ".join(names if len(names) <= 8 else [*names[:7], "..."])
    samples = ", ".join(f"{split} {'none' if data is None else len(data)}" for split, data in splits.items())
    plural = "" if len(names) == 1 else "s"
    return (
        f"{problem.name} with {len(names)} task{plural} ({listed}); samples: {samples};"
        f" weights that train: trunk {trunk}, heads {own}"
    )
