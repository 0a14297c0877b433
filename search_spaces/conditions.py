"""Which dimensions a trial has depends on what it is: options of an optimizer or a schedule are for trials with it."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.strategies.optimizers import known_optimizers
from tune_mtl.strategies.schedules import known_schedules


def owner_of(name: str) -> tuple[str, str] | None:
    """Return what option ``name`` belongs to: ``("optimizer", "adam")``, ``("schedule", "cosine")``; else None."""
    option = name.partition(".")[0]
    parts: Mapping[str, Mapping[str, Any]] = {"optimizer": known_optimizers(), "schedule": known_schedules()}
    for part, known in parts.items():
        for owner, info in known.items():
            if option.startswith(f"{owner}_") and option.removeprefix(f"{owner}_") in info.options.model_fields:
                return part, owner
    return None


def applies(name: str, chosen: Mapping[str, Any]) -> bool:
    """Return whether a trial for which this much was ``chosen`` has the dimension ``name``.

    Where no optimizer was chosen, all trials have the same one, and the option is taken to be of it: a config with an
    option of another optimizer is refused when it is resolved.
    """
    owned = owner_of(name)
    return owned is None or chosen.get(*owned) == owned[1]
