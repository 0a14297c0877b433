"""Tensors, or tuples, lists and dicts of tensors: what models take and give."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

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


def row_count(value: Nested) -> int:
    """Return the length of the first dimension of a nested value's first tensor."""
    for tensor in tensors(value):
        return len(tensor)
    raise ValueError(f"no tensor in {type(value).__name__}")
