"""Names of optimizers and schedules that users bring: short, and nobody else's. Loads no torch."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.strategies.optimizers import known_optimizers
from tune_mtl.strategies.registry import everyone_named
from tune_mtl.strategies.schedules import known_schedules

OTHER_OWNERS = frozenset(["all", "clip", "model", "problem"])
"""What owns options of a config besides strategies, optimizers and schedules, or means something else in a list."""


def short_name(made_by: Callable[..., Any]) -> str:
    """Return the name of a class or function in configs, as torch names its modules: ``radam``, ``sparse_adam``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", made_by.__name__).lower()


def check_name_is_free(name: str, kind: str, who: str) -> None:
    """Refuse a name that a config could not tell from others.

    Args:
        name: The short name.
        kind: ``optimizer`` or ``schedule``.
        who: How messages name what was brought: ``optimizer 'mine:Lamb'``.

    Raises:
        UserError: if something else has that name, or it is none.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise UserError(f"{who} is named '{name}': a name has small letters, digits and _ only. Rename it.")
    taken: Mapping[str, Any] = {
        "a strategy": everyone_named(),
        "an optimizer": {key: info for key, info in known_optimizers().items() if _other(info, kind, "optimizer")},
        "a schedule": {key: info for key, info in known_schedules().items() if _other(info, kind, "schedule")},
        "something else": OTHER_OWNERS,
    }
    for owner, names in taken.items():
        if name in names:
            raise UserError(f"{who} is named '{name}', as {owner} of a config is: rename it.")


def _other(info: Any, kind: str, its_kind: str) -> bool:
    """Return whether a record keeps its name from a newcomer: the latest of a kind that was brought counts."""
    return kind != its_kind or info.reference is None
