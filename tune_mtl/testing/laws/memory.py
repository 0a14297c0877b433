"""Laws about memory: a long run holds no more than a short one."""

import gc
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

from tune_mtl.strategies.base import Strategy
from tune_mtl.testing.cases import Case, Meter
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, take

_OTHERS = ("torch", "numpy", "tune_mtl", *sys.stdlib_module_names)
"""Packages whose functions are not looked into: what they hold is not the user's."""
_LONG = 300
"""Mini-batches after which a memory that is bounded has reached its bound."""


@law(
    way_out="Keep a running mean, or the last few values in a deque(maxlen=...), instead of all that was seen.",
    case=Case(steps=18),
    least_steps=9,
)
def memory_does_not_grow(subject: Subject, case: Case) -> Broken | None:
    """What it holds does not grow with the number of mini-batches."""
    strategy = subject.make(case)
    third = case.steps // 3
    sizes = []
    for start in range(0, case.steps, third):
        take(strategy, [case.batch(step) for step in range(start, start + third)])
        sizes.append(_held(strategy))
    if not sizes[-1] > sizes[-2]:
        return None
    take(strategy, [case.batch(step) for step in range(case.steps, _LONG)])
    sizes.append(_held(strategy))
    take(strategy, [case.batch(step) for step in range(_LONG, _LONG + third)])
    sizes.append(_held(strategy))
    if not sizes[-1] > sizes[-2]:
        return None
    where = _growing(strategy, case, third)
    return Broken(f"after {_LONG} mini-batches {third} more still add {sizes[-1] - sizes[-2]} values{where}")


@law(
    way_out="Detach what is kept beyond a step: loss.detach().",
    case=Case(steps=3),
)
def keeps_no_graph(subject: Subject, case: Case) -> Broken | None:
    """No graph of a forward pass, with all its activations, is held after the step."""
    meter = Meter()
    strategy = subject.make(case, meter=meter)
    for step in range(case.steps):
        strategy.step(*case.batch(step))
        if meter.held():
            gc.collect()
        if meter.held():
            return Broken(f"after a step the graphs of {meter.held()} forward passes are still held{_graph(strategy)}")
    return None


def _held(strategy: Strategy[Any]) -> int:
    """Return how many numbers and objects a strategy holds, with its network and hooks, its class and its module."""
    return sum(_sizes(strategy).values())


def _sizes(strategy: Strategy[Any]) -> dict[str, int]:
    known: set[int] = set()
    return {name: _size(value, known) for name, value in _attributes(strategy).items()}


def _attributes(strategy: Strategy[Any]) -> dict[str, Any]:
    """Return its attributes by name, with what its classes and their functions hold for all of their objects."""
    shared = [vars(kind) for kind in reversed(type(strategy).__mro__) if issubclass(kind, Strategy)]
    kinds = (list, dict, set, deque, FunctionType)
    held = {name: value for names in shared for name, value in names.items() if isinstance(value, kinds)}
    return {**vars(strategy), **held}


def _size(value: Any, known: set[int]) -> int:
    total, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if id(item) in known or item is None or isinstance(item, type):
            continue
        if isinstance(item, Tensor):
            known.add(id(item))
            total += item.numel() + len(item._backward_hooks or ())
            continue
        if isinstance(item, int | float | complex):
            total += 1
            continue
        known.add(id(item))
        total += 1
        total += len(item) if isinstance(item, str | bytes) else getattr(item, "size", 0) if _is_array(item) else 0
        waiting += _inside(item)
    return total


def _inside(item: Any) -> Iterator[Any]:
    if isinstance(item, Mapping):
        yield from item.keys()
        yield from item.values()
    elif isinstance(item, list | tuple | set | frozenset | deque):
        yield from item
    elif isinstance(item, FunctionType | MethodType):
        yield from _seen_by(getattr(item, "__func__", item))
    elif isinstance(item, nn.Module) or type(item).__module__.split(".")[0] not in ("torch", "numpy", "builtins"):
        yield from getattr(item, "__dict__", {}).values()
        for kind in type(item).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            yield from (getattr(item, name, None) for name in ([slots] if isinstance(slots, str) else slots))
    elif hasattr(item, "param_groups"):
        yield item.param_groups
        yield item.state


def _seen_by(function: Any) -> Iterator[Any]:
    """Yield what a function of the user's holds: cells of a closure, defaults, attributes, globals that it names."""
    if not function.__module__ or function.__module__.split(".")[0] in _OTHERS:
        return
    yield from (cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *vars(function).values())
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        named = (function.__globals__.get(name) for name in code.co_names)
        yield from (value for value in named if not isinstance(value, ModuleType))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_array(item: Any) -> bool:
    return type(item).__module__ == "numpy" and hasattr(item, "size")


def _growing(strategy: Strategy[Any], case: Case, steps: int) -> str:
    """Return which attribute grows, for people."""
    before = _sizes(strategy)
    take(strategy, [case.batch(step) for step in range(steps)])
    grown = [name for name, size in _sizes(strategy).items() if size > before.get(name, 0)]
    return f" to self.{grown[0]}" if grown else ""


def _graph(strategy: Strategy[Any]) -> str:
    """Return which attribute holds tensors with a graph, for people."""
    for name, value in vars(strategy).items():
        waiting: list[Any] = [value] if value is not strategy.model else []
        while waiting:
            item = waiting.pop()
            if isinstance(item, Tensor) and item.grad_fn is not None:
                return f", by self.{name}"
            if isinstance(item, Mapping | list | tuple | deque):
                waiting += item.values() if isinstance(item, Mapping) else item
    return ""
