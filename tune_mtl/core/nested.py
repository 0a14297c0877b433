"""Tensors, or tuples, lists and dicts of tensors: what models take and give."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Nested: TypeAlias = Any
"""A tensor, or a tuple, list or dict of nested tensors."""


def map_tensors(function: Callable[[Tensor], Tensor], value: Nested) -> Nested:
    """Return the same structure with ``function`` applied to every tensor; anything else is left as it is."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        mapped = copy.copy(value)  # of its own class, which may have more to it than its items
        for key, item in value.items():
            mapped[key] = map_tensors(function, item)
        return mapped
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(function, item) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(map_tensors(function, item) for item in value)
    return value


def tensors(value: Nested) -> Iterator[Tensor]:
    """Yield every tensor of a nested value, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)


def rows_of(value: Nested, start: int, end: int) -> Nested:
    """Return the rows from ``start`` to before ``end`` of every tensor; a tensor without rows is left as it is."""
    return map_tensors(lambda tensor: tensor[start:end] if tensor.ndim else tensor, value)


def join(parts: Sequence[Nested]) -> Nested:
    """Return one nested value with the rows of all ``parts``, which are built alike; what is no tensor is the first's.

    Raises:
        RuntimeError: for tensors that do not fit together.
    """
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, dict):
        joined = copy.copy(first)
        for key in first:
            joined[key] = join([part[key] for part in parts])
        return joined
    if isinstance(first, tuple | list):
        items = [join(items) for items in zip(*parts, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    return first


def row_count(value: Nested) -> int:
    """Return the length of the first dimension of a nested value's first tensor."""
    for tensor in tensors(value):
        return len(tensor)
    raise ValueError(f"no tensor in {type(value).__name__}")
