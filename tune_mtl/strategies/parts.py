"""The parts of a trial besides its strategy that users may bring: its optimizer and its schedule. Loads no torch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tune_mtl.strategies.optimizers import known_optimizers, optimizer_info, optimizers
from tune_mtl.strategies.own_optimizers import admit_optimizer, optimizer_given_as_object
from tune_mtl.strategies.own_schedules import admit_schedule, schedule_given_as_object
from tune_mtl.strategies.schedules import known_schedules, schedule_info, schedules

if TYPE_CHECKING:
    from tune_mtl.core.options import Options

Part: TypeAlias = Literal["optimizer", "schedule"]
PARTS: tuple[Part, ...] = ("optimizer", "schedule")
"""Their keys in a config; ``optimizer_from`` and ``schedule_from`` say where one that was brought is found."""
BUILT_IN: Mapping[Part, Mapping[str, Any]] = {"optimizer": optimizers, "schedule": schedules}


def admit_part(part: Part, asked: Any, directory: str | None = None) -> str:
    """Return the name of an optimizer or a schedule; one that is brought is known by that name from then on.

    Raises:
        UserError: if there is none, or what there is cannot be one.
    """
    return admit_optimizer(asked, directory) if part == "optimizer" else admit_schedule(asked, directory)


def reference_of_part(part: Part, name: str) -> str | None:
    """Return where a part that was brought is found; None for one that is built in, and for unknown names."""
    known = known_optimizers() if part == "optimizer" else known_schedules()
    found = known.get(name)
    return None if found is None else found.reference


def brought_part(part: Part, name: str) -> Any:
    """Return the class or function of a part that was brought."""
    return optimizer_info(name).brought if part == "optimizer" else schedule_info(name).brought


def part_given_as_object(part: Part, reference: str) -> Any:
    """Return what was given as an object under ``reference``, or None."""
    return optimizer_given_as_object(reference) if part == "optimizer" else schedule_given_as_object(reference)


def options_of_part(part: Part, name: str) -> "type[Options]":
    """Return the record of the options of a part.

    Raises:
        UserError: if there is none of that name.
    """
    return optimizer_info(name).options if part == "optimizer" else schedule_info(name).options


def every_part() -> "dict[str, type[Options]]":
    """Return the records of options of all optimizers and schedules that are known in this process, by name."""
    found = {name: info.options for name, info in known_optimizers().items()}
    return found | {name: info.options for name, info in known_schedules().items()}


def parts_from(config: Mapping[str, Any]) -> dict[str, str]:
    """Return what a config has to say besides of the parts it names: where those that were brought are found."""
    found = {f"{part}_from": reference_of_part(part, str(config[part])) for part in PARTS if part in config}
    return {key: reference for key, reference in found.items() if reference is not None}
