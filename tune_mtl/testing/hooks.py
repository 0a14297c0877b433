"""What happens around the steps of a strategy's optimizers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tune_mtl.strategies.base import Strategy


@contextmanager
def around_steps(strategy: Strategy[Any], before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """Call ``before`` and ``after`` each step of any of the optimizers, within a ``with``."""
    hooks = [optimizer.register_step_pre_hook(before) for optimizer in strategy.optimizers]
    hooks += [optimizer.register_step_post_hook(after) for optimizer in strategy.optimizers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
