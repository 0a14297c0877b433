"""Typed records of options, one per owner, and their flat names: ``owner_option``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tune_mtl.core.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Tunable:
    """Marks an option as worth searching: between two numbers (``log``: by order of magnitude), or among values."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ShareOfRun:
    """Marks an option counted in mini-batches: a trial that does not give it takes this share of its own length."""

    share: float


_Mark = TypeVar("_Mark", Tunable, ShareOfRun)


class Options(BaseModel):
    """A frozen, validated record; its fields are the options of one owner (a strategy, an optimizer, ...)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def marked(cls, mark: type[_Mark]) -> dict[str, _Mark]:
        """The options that carry such a mark, with it."""
        return {
            name: found for name, info in cls.model_fields.items() for found in info.metadata if isinstance(found, mark)
        }

    def flat(self, owner: str) -> dict[str, Any]:
        """``{owner_option: value}`` for the values that differ from their defaults."""
        return {f"{owner}_{name}": value for name, value in self.model_dump(exclude_defaults=True).items()}


_Record = TypeVar("_Record", bound=Options)


def flat_names(owners: Mapping[str, type[Options]]) -> dict[str, tuple[str, str]]:
    """Every flat name of ``owners``, with its owner and its option."""
    return {f"{owner}_{name}": (owner, name) for owner, record in owners.items() for name in record.model_fields}


def read_options(flat: Mapping[str, Any], owners: Mapping[str, type[Options]]) -> dict[str, Options]:
    """One record per owner from flat options; missing ones take their defaults.

    Raises:
        UserError: for an unknown name or a value its record refuses.
    """
    names = flat_names(owners)
    values: dict[str, dict[str, Any]] = {owner: {} for owner in owners}
    for key, value in flat.items():
        if key not in names:
            raise UserError(f"unknown option '{key}'. {did_you_mean(key, names)}")
        owner, name = names[key]
        values[owner][name] = value
    return {owner: build(record, values[owner], f"{owner}_") for owner, record in owners.items()}


def build(record: type[_Record], values: Mapping[str, Any], prefix: str = "") -> _Record:
    """``record(**values)``, its validation errors as one clear line."""
    try:
        return record(**values)
    except ValidationError as error:
        raise UserError("; ".join(_line(problem, prefix) for problem in error.errors())) from None


def _line(problem: Any, prefix: str) -> str:
    name = prefix + ".".join(str(part) for part in problem["loc"]) if problem["loc"] else prefix.rstrip("_")
    if problem["type"] == "missing":
        return f"{name} is missing"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}={problem['input']!r} {message}"
