"""Real inputs of a problem: what an export is traced with, checked on and shown by."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested, map_tensors, row_count
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator, isolated

CHECKED_ROWS = 7
"""The number of samples on which an export is checked, besides the first one alone."""

INPUTS = "inputs"


def sample_inputs(problem: Problem) -> Nested:
    """Return the first validation samples as the network takes them: after ``problem.to_device``, on the CPU.

    Raises:
        UserError: if there is no validation split, or nothing in it.
    """
    data = problem.data("val")
    if data is None or len(data) == 0:
        raise UserError(f"problem '{problem.name}' has no validation samples: an export is checked on some of them.")
    with isolated():
        batch = data.batch(torch.arange(min(CHECKED_ROWS, len(data)))).to(torch.device("cpu"))
        return map_tensors(Tensor.contiguous, problem.to_device(batch, generator(0, "export")).inputs)


def first_rows(inputs: Nested, count: int) -> Nested:
    """Return the first ``count`` samples."""
    return map_tensors(lambda tensor: tensor[:count].clone(), inputs)


def batches_of(inputs: Nested) -> Iterator[Nested]:
    """Yield batches of several sizes, so that a prediction that depends on the size shows."""
    for count in sorted({1, min(2, row_count(inputs)), row_count(inputs)}):
        yield first_rows(inputs, count)


def named_tensors(value: Nested, name: str = INPUTS, *, nested: bool = False) -> dict[str, Tensor]:
    """Return the tensors of a nested value by name and in order.

    One tensor is called ``name``, those of a tuple ``name_0``, ``name_1``, those of a dict by their keys; deeper ones,
    and with ``nested`` those of a dict too, by all that leads to them, joined with ``_``.
    """
    if isinstance(value, Tensor):
        return {name: value}
    found: dict[str, Tensor] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            found |= named_tensors(item, f"{name}_{key}" if nested else str(key), nested=True)
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            found |= named_tensors(item, f"{name}_{index}", nested=True)
    return found


def spelled(value: Nested, name: str = INPUTS, *, nested: bool = False) -> str:
    """Return the Python expression that puts the tensors of :func:`named_tensors` together again."""
    if isinstance(value, Tensor):
        return name
    if isinstance(value, dict):
        items = (
            f"{key!r}: {spelled(item, f'{name}_{key}' if nested else str(key), nested=True)}"
            for key, item in value.items()
        )
        return f"{{{', '.join(items)}}}"
    parts = [spelled(item, f"{name}_{index}", nested=True) for index, item in enumerate(value)]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
