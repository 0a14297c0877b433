"""Ray Tune classes around the engine's trainer: `MTLTrainable`, and one thin class per strategy."""

from trainables.base import MTLTrainable
from trainables.strategies import *  # noqa: F403
from trainables.strategies import __all__ as _strategies

__all__ = ["MTLTrainable", *_strategies]
