"""Ray Tune classes around the engine's trainer: `MTLTrainable`, and one thin class per strategy.

The latter are made when one is asked for: a trial's process, which knows its strategy by name, loads no other.
"""

import importlib
from typing import Any

from tune_mtl.core.process.loading import loading

with loading():
    from trainables.base import MTLTrainable as MTLTrainable


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    strategies = importlib.import_module("trainables.strategies")
    return ["MTLTrainable", *strategies.__all__] if name == "__all__" else getattr(strategies, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__getattr__("__all__")])
