"""A module that is called like the function it is named after: ``tune_mtl.search`` is both."""

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*arguments, **keywords)


def make_callable(module: str) -> None:
    """Let the module of that name be called; it then calls its function of its own name."""
    sys.modules[module].__class__ = _CallableModule
