"""Typed records of options, one per owner, and their flat names: ``owner_option``."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from tune_mtl.core.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Tunable:
    """Marks an option as worth searching: between two numbers (``log``: by order of magnitude), or among values.

    Raises:
        UserError: if it says neither, or both, or what cannot be searched.
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.low is None and self.high is None and self.values and not self.log and not isinstance(self.values, str):
            return
        ends = [end for end in (self.low, self.high) if isinstance(end, int | float) and not isinstance(end, bool)]
        if (
            self.values
            or len(ends) < 2
            or not (math.isfinite(ends[1]) and math.isfinite(ends[0]) and ends[0] < ends[1])
        ):
            raise UserError(f"{self!r} must be Tunable(LOW, HIGH), two finite numbers, or Tunable(values=(A, B)).")
        if self.log and ends[0] <= 0:
            raise UserError(f"{self!r} must begin above 0: it is searched by order of magnitude.")

    def __str__(self) -> str:
        if self.values:
            return ", ".join(map(str, self.values))
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class TunableCount:
    """Marks a count as worth searching: with N tasks, from ``least`` to ``(N - spare) // divisor``."""

    least: int
    spare: int = 0
    divisor: int = 1

    def most(self, tasks: int) -> int:
        """Return the largest count worth searching with so many tasks; it is never below ``least``."""
        return max(self.least, (tasks - self.spare) // self.divisor)

    def __str__(self) -> str:
        spared = f"N - {self.spare}" if self.spare else "N"
        return f"{self.least} to {spared if self.divisor == 1 else f'({spared}) / {self.divisor}'}"


@dataclass(frozen=True)
class ShareOfRun:
    """Marks an option counted in mini-batches: a trial that does not give it takes this share of its own length.

    A trial may also give a share itself: a number above 0, up to 1.0, the whole run. (1 is one mini-batch.)
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UserError(f"{self!r} must be a share above 0, and 1.0, the whole run, at most.")

    @staticmethod
    def is_share(given: Any) -> bool:
        """Return whether what is ``given`` (None: nothing) depends on a run's length."""
        return given is None or (isinstance(given, float) and 0 < given <= 1)

    def in_mini_batches(self, given: Any, length: int) -> Any:
        """Return what is ``given`` as a number of mini-batches, for a run of so many of them."""
        if not self.is_share(given):
            return given
        return max(1, round((self.share if given is None else given) * length))


@dataclass(frozen=True)
class Verbatim:
    """Marks an option that is a text even where it looks like a number: the layer ``1.10`` is not ``1.1``."""


_Mark = TypeVar("_Mark", Tunable, TunableCount, ShareOfRun, Verbatim)


class Options(BaseModel):
    """A frozen, validated record; its fields are the options of one owner (a strategy, an optimizer, ...)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_booleans_as_numbers(cls, value: Any, field: ValidationInfo) -> Any:
        assert field.field_name is not None
        allowed = set(kinds(cls.model_fields[field.field_name].annotation))
        if isinstance(value, bool) and allowed & {int, float} and bool not in allowed:
            raise ValueError("must be a number")
        return value

    @classmethod
    def marked(cls, mark: type[_Mark]) -> dict[str, _Mark]:
        """Return the options that carry such a mark, with it."""
        return {
            name: found for name, info in cls.model_fields.items() for found in info.metadata if isinstance(found, mark)
        }

    def flat(self, owner: str) -> dict[str, Any]:
        """Return ``{owner_option: value}`` for the values that differ from their defaults."""
        return {f"{owner}_{name}": value for name, value in self.model_dump(exclude_defaults=True).items()}


def kinds(annotation: Any) -> Iterator[Any]:
    """Yield what an annotation is made of: ``int | None`` of ``int`` and ``None``."""
    parts = get_args(annotation)
    for part in parts:
        yield from kinds(part)
    if not parts:
        yield annotation


def described(owner: str, record: type[Options]) -> list[tuple[str, str, str]]:
    """Return of each option its flat name, its default, and what a wide space searches, for people."""
    shares = record.marked(ShareOfRun)
    searched = {**record.marked(Tunable), **record.marked(TunableCount)}
    found = []
    for name, field in record.model_fields.items():
        default = "needed" if field.is_required() else str(field.default)
        if name in shares:
            default = f"{shares[name].share:.0%} of a trial's mini-batches"
        found.append((f"{owner}_{name}", default, str(searched.get(name, "-"))))
    return found


_Record = TypeVar("_Record", bound=Options)


def flat_names(owners: Mapping[str, type[Options]]) -> dict[str, tuple[str, str]]:
    """Return every flat name of ``owners``, with its owner and its option."""
    return {f"{owner}_{name}": (owner, name) for owner, record in owners.items() for name in record.model_fields}


def read_options(flat: Mapping[str, Any], owners: Mapping[str, type[Options]]) -> dict[str, Options]:
    """Return one record per owner from flat options; missing ones take their defaults.

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
    """Return ``record(**values)``, or say its validation errors as one clear line."""
    try:
        return record(**values)
    except ValidationError as error:
        raise UserError("; ".join(_line(problem, prefix) for problem in error.errors())) from None


def _line(problem: Any, prefix: str) -> str:
    name = prefix + ".".join(str(part) for part in problem["loc"]) if problem["loc"] else prefix.rstrip("_")
    if problem["type"] == "missing":
        return f"{name} is missing"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}={problem['input']!r} {message}" if name else message  # of several values: it names them
