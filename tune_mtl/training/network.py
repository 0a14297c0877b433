"""A fresh network of a problem, all of whose weights are there, and the device that it trains on."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator

AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Values of ``precision``, and what forward passes are made in."""


def fresh_model(problem: Problem, options: Mapping[str, Any], train: Callable[[], Data | None]) -> MultiTaskModel:
    """Make a network on the CPU, initialised from the global random state.

    Lazy modules learn their sizes from two training samples, as nothing can be optimised before.

    Args:
        problem: Whose network it is.
        options: Keyword arguments of ``problem.model``.
        train: Gives the training data; asked for lazy modules only.

    Raises:
        UserError: if the options given make no network.
    """
    try:
        model = problem.model(**options)
    except Exception as error:
        if not options or isinstance(error, UserError):
            raise
        given = ", ".join(f"model_{key}={value!r}" for key, value in options.items())
        raise UserError(f"problem '{problem.name}' makes no model with {given}: {error}") from error
    if isinstance(model, torch.nn.Module) and any(is_lazy(weight) for weight in model.parameters()):
        data = train()
        if data is not None:
            _materialise(model, problem, data)
    return model


def choose_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU.

    Raises:
        UserError: for a name torch does not know or a device that is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except Exception as error:  # each backend has its own way to say that it is not there
        raise UserError(f"device '{name}' cannot be used here: {str(error).splitlines()[0]}") from None
    return device


def _materialise(model: MultiTaskModel, problem: Problem, data: Data) -> None:
    """Give lazy modules their sizes; without gradients, and without BatchNorm's averages learning from it."""
    got = data.batch(torch.arange(min(2, len(data))))
    batch = got if isinstance(got, Batch) else Batch(*got)
    placed = problem.to_device(batch.to(torch.device("cpu")), generator(0, "augmentation"))
    model.eval()
    with torch.no_grad():
        model(placed.inputs)
    model.train()
