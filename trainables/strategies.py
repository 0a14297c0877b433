"""One importable class per registered strategy: ``IOTrainable`` is :class:`MTLTrainable` with ``strategy="io"``."""

from trainables.base import MTLTrainable
from tune_mtl.strategies.registry import registry


def _class_name(strategy: str) -> str:
    return f"{strategy.upper() if '_' not in strategy else strategy.title().replace('_', '')}Trainable"


for _name, _info in registry.items():
    globals()[_class_name(_name)] = type(
        _class_name(_name),
        (MTLTrainable,),
        {"__doc__": f"{_info.title}: {_info.rule}.", "__module__": __name__, "strategy": _name},
    )

__all__ = [_class_name(_name) for _name in registry]
