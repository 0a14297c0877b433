"""Dimensions and spaces: declared once, compiled to a grid and to Optuna's define-by-run suggestions."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.strategies.registry import known_strategy

if TYPE_CHECKING:
    from optuna import Trial


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
    """Whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise UserError(f"range {self.low}:{self.high} must go from a smaller to a larger whole number.")

    def points(self) -> tuple[int, ...]:
        """Return all values."""
        return tuple(range(self.low, self.high + 1))

    def at(self, share: float) -> int:
        """Return the number at ``share`` (0 to 1) of the list of all: equal shares for all."""
        return min(self.low + int(share * (self.high - self.low + 1)), self.high)

    def suggest(self, trial: "Trial", name: str) -> int:
        """Uniform."""
        return trial.suggest_int(name, self.low, self.high)

    def to_ray(self) -> Any:
        """Return the dimension as Ray Tune has it, whose upper end is left out."""
        from ray import tune

        return tune.randint(self.low, self.high + 1)


Dimension: TypeAlias = Choice | Range | LogRange | IntRange


@dataclass(frozen=True, kw_only=True)
class Space:
    """Which strategies, and for each the dimensions it has.

    Attributes:
        name: ``paper``, ``wide``, or a problem's own.
        strategies: In the order they are served.
        dimensions: Those of every strategy: ``lr``, and config values such as ``batch_size``.
        per_strategy: Further ones by strategy, ``groups`` and own options. A name ``owner_option.key`` sets one key of
            an option that is a mapping.
        seeds: A grid runs every config on each of them; other algorithms use the first. Never a searched dimension.
    """

    name: str
    strategies: tuple[str, ...]
    dimensions: Mapping[str, Dimension]
    per_strategy: Mapping[str, Mapping[str, Dimension]] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if not self.strategies or len(set(self.strategies)) != len(self.strategies):
            raise UserError(
                f"strategies must be one or more different ones, got {', '.join(self.strategies) or 'none'}."
            )
        for strategy in (*self.strategies, *self.per_strategy):
            known_strategy(strategy)

    def of(self, strategy: str) -> dict[str, Dimension]:
        """Return the dimensions of a trial with ``strategy``."""
        return {**self.dimensions, **self.per_strategy.get(strategy, {})}

    def grid(self, strategy: str) -> Iterator[dict[str, Any]]:
        """Every config of ``strategy`` on every seed; the learning rate varies slowest."""
        dimensions = self.of(strategy)
        for values in itertools.product(*(dimension.points() for dimension in dimensions.values())):
            for seed in self.seeds:
                yield folded({"strategy": strategy, **dict(zip(dimensions, values, strict=True)), "seed": seed})

    def grid_size(self, strategy: str) -> int:
        """Return how many configs :meth:`grid` has."""
        return math.prod(len(dimension.points()) for dimension in self.of(strategy).values()) * len(self.seeds)

    def suggest(self, trial: "Trial", strategy: str) -> dict[str, Any]:
        """Return one config of ``strategy``, as Optuna suggests it."""
        chosen = {name: dimension.suggest(trial, name) for name, dimension in self.of(strategy).items()}
        return folded({"strategy": strategy, **chosen, "seed": self.seeds[0]})

    def to_ray(self, strategy: str) -> dict[str, Any]:
        """Return the dimensions of ``strategy`` as Ray Tune's own, for ``tune.Tuner(..., param_space=...)``.

        Strategy and first seed are in it; the problem is not.

        Raises:
            UserError: for an unknown strategy.
        """
        known_strategy(strategy)
        drawn = {name: dimension.to_ray() for name, dimension in self.of(strategy).items()}
        return folded({"strategy": strategy, **drawn, "seed": self.seeds[0]})

    def values(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``config`` has in each dimension of its strategy."""
        found = {}
        for name in self.of(config["strategy"]):
            outer, _, inner = name.partition(".")
            value = config.get(outer)
            found[name] = value[inner] if inner and isinstance(value, Mapping) else value
        return found

    def narrowed(
        self,
        *,
        strategies: Sequence[str] | None = None,
        lr: Dimension | None = None,
        groups: Dimension | None = None,
        fixed: Mapping[str, Any] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> "Space":
        """Return the same space with some of it decided.

        Args:
            strategies: These only; ones that the space lacks are added with the space's common dimensions.
            lr: Instead of the space's learning rates.
            groups: Instead of the space's group counts, for the strategies that have groups.
            fixed: Config values that are no longer searched.
            seeds: Instead of the space's.

        Raises:
            UserError: for an unknown strategy, or groups where no strategy has any.
        """
        chosen = tuple(strategies or self.strategies)
        for name in chosen:
            known_strategy(name)
        common = {**self.dimensions, **({"lr": lr} if lr is not None else {})}
        own = {name: dict(self.per_strategy.get(name, {})) for name in chosen}
        if groups is not None:
            grouped = [name for name in chosen if known_strategy(name).has_groups]
            if not grouped:
                raise UserError(f"groups cannot be searched: none of {', '.join(chosen)} has groups.")
            for name in grouped:
                own[name]["groups"] = groups
        for key, value in (fixed or {}).items():
            if key == "seed":
                raise UserError("seed is no dimension of a search: use --seed.")
            common = {name: dimension for name, dimension in common.items() if name != key}
            own = {
                name: {n: dimension for n, dimension in dimensions.items() if not n.startswith(f"{key}.")}
                for name, dimensions in own.items()
            }
            owner = next((name for name in chosen if key.startswith(f"{name}_")), None)
            for name, dimensions in own.items():
                dimensions.pop(key, None)
                if owner == name:
                    dimensions[key] = Choice((value,))
            if owner is None:
                common[key] = Choice((value,))
        return replace(self, strategies=chosen, dimensions=common, per_strategy=own, seeds=tuple(seeds or self.seeds))


def folded(flat: Mapping[str, Any]) -> dict[str, Any]:
    """``{"scalar_weights.left": 2}`` as a config writes it: ``{"scalar_weights": {"left": 2}}``."""
    config: dict[str, Any] = {}
    for name, value in flat.items():
        outer, dot, inner = name.partition(".")
        if dot:
            config.setdefault(outer, {})[inner] = value
        else:
            config[name] = value
    return config


def one_two_five(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times every power of ten between ``low`` and ``high``, both included."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    steps = [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]
    chosen = tuple(step for step in steps if low * (1 - 1e-9) <= step <= high * (1 + 1e-9))
    return chosen or (low, high)


def parse_numbers(text: str, *, log: bool) -> Dimension:
    """``1e-4:1e-2`` is a range, ``1e-4,1e-3`` a choice, ``1e-3`` one value.

    Raises:
        UserError: for anything else.
    """
    try:
        if ":" in text:
            low, high = (float(part) for part in text.split(":"))
            return LogRange(low, high) if log else IntRange(int(low), int(high))
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{text!r} must be numbers: LOW:HIGH, or A,B,C, or one value.") from None
    return Choice(tuple(values if log else [int(value) for value in values]))


def check_known(name: str, known: Sequence[str], what: str) -> None:
    """Refuse a name that is not among ``known``."""
    if name not in known:
        raise UserError(f"unknown {what} '{name}'. {did_you_mean(name, known)}")
