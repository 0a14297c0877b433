"""Dimensions: which values one key of a config may have, declared once, for a grid and for guided searches."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tune_mtl.core.errors import UserError

if TYPE_CHECKING:
    from optuna import Trial


_MOST = 10_000
"""Whole numbers in a range: enough for any count, and few enough to be listed."""


@dataclass(frozen=True)
class Choice:
    """One of some values, in no order."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise UserError("a choice needs at least one value.")

    def points(self) -> tuple[Any, ...]:
        """Return all values."""
        return self.values

    def at(self, share: float) -> Any:
        """Return the value at ``share`` (0 to 1) of the list of values: equal shares for all."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def suggest(self, trial: "Trial", name: str) -> Any:
        """Return the value that Optuna suggests."""
        return self.values[0] if len(self.values) == 1 else trial.suggest_categorical(name, self.values)

    def to_ray(self) -> Any:
        """Return the dimension as Ray Tune has it: a choice; a single value is itself."""
        from ray import tune

        return self.values[0] if len(self.values) == 1 else tune.choice(list(self.values))


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``grid`` are the ones a grid search tries."""

    low: float
    high: float
    grid: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise UserError(f"range {self.low:g}:{self.high:g} must go from a smaller to a larger finite number.")

    def points(self) -> tuple[float, ...]:
        """Return the grid; without one, five equal steps."""
        return self.grid or tuple(self.low + (self.high - self.low) * step / 4 for step in range(5))

    def at(self, share: float) -> float:
        """Return the number at ``share`` (0 to 1) of the way from ``low`` to ``high``."""
        return min(self.low + share * (self.high - self.low), self.high)

    def suggest(self, trial: "Trial", name: str) -> float:
        """Uniform."""
        return trial.suggest_float(name, self.low, self.high)

    def to_ray(self) -> Any:
        """Return the dimension as Ray Tune has it."""
        from ray import tune

        return tune.uniform(self.low, self.high)


@dataclass(frozen=True)
class LogRange(Range):
    """Positive numbers whose order of magnitude matters: learning rates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise UserError(f"range {self.low:g}:{self.high:g} must be above 0: it is searched on a log scale.")

    def points(self) -> tuple[float, ...]:
        """Return the grid; without one, the 1-2-5 steps within the range."""
        return self.grid or one_two_five(self.low, self.high)

    def at(self, share: float) -> float:
        """Return the number at ``share`` (0 to 1) of the way from ``low`` to ``high``, by order of magnitude."""
        return min(max(self.low * math.pow(self.high / self.low, share), self.low), self.high)

    def suggest(self, trial: "Trial", name: str) -> float:
        """Log-uniform."""
        return trial.suggest_float(name, self.low, self.high, log=True)

    def to_ray(self) -> Any:
        """Return the dimension as Ray Tune has it."""
        from ray import tune

        return tune.loguniform(self.low, self.high)


@dataclass(frozen=True)
class IntRange:
    """Whole numbers from ``low`` to ``high``, both included; ``log``: their order of magnitude matters."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise UserError(f"range {self.low}:{self.high} must go from a smaller to a larger whole number.")
        if self.log and self.low < 1:
            raise UserError(f"range {self.low}:{self.high} must be above 0: it is searched on a log scale.")
        if not self.log and self.high - self.low >= _MOST:
            raise UserError(
                f"range {self.low}:{self.high} has more than {_MOST:,} whole numbers: search their order of magnitude,"
                f" {max(self.low, 1)}:{self.high}:log."
            )

    def points(self) -> tuple[int, ...]:
        """Return all values; of a log scale each that is twice the one before, and the highest."""
        if not self.log:
            return tuple(range(self.low, self.high + 1))
        doubled = (self.low * 2**power for power in range((self.high // self.low).bit_length()))
        return tuple(dict.fromkeys([*(value for value in doubled if value <= self.high), self.high]))

    def at(self, share: float) -> int:
        """Return the number at ``share`` (0 to 1) of the list of all: equal shares for all, or on the log scale."""
        if self.log:
            return min(int(self.low * math.pow((self.high + 1) / self.low, share)), self.high)
        return min(self.low + int(share * (self.high - self.low + 1)), self.high)

    def suggest(self, trial: "Trial", name: str) -> int:
        """Uniform, or log-uniform."""
        return trial.suggest_int(name, self.low, self.high, log=self.log)

    def to_ray(self) -> Any:
        """Return the dimension as Ray Tune has it, whose upper end is left out."""
        from ray import tune

        return (tune.lograndint if self.log else tune.randint)(self.low, self.high + 1)


Dimension: TypeAlias = Choice | Range | LogRange | IntRange


def one_two_five(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times every power of ten between ``low`` and ``high``, both included."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    steps = [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]
    chosen = tuple(step for step in steps if low * (1 - 1e-9) <= step <= high * (1 + 1e-9))
    return chosen or (low, high)
