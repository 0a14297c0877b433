"""Spaces: declared once, compiled to a grid and to Optuna's define-by-run suggestions."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from search_spaces.conditions import applies, owner_of
from search_spaces.dimension import Choice, Dimension, IntRange, LogRange, Range
from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.strategies.parts import PARTS, parts_from
from tune_mtl.strategies.registry import known_strategy, named

if TYPE_CHECKING:
    from optuna import Trial

__all__ = ["Choice", "Dimension", "IntRange", "LogRange", "Range", "Space", "check_known", "folded"]
"""Dimensions too: the snapshots of searches name them here."""

GROUPS_SEED = "groups_seed"
"""Draws the groups of a strategy that has groups, beside the seed of everything else."""


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
        """Return the dimensions of a trial with ``strategy``: options of optimizers and schedules after these."""
        found = {**self.dimensions, **self.per_strategy.get(strategy, {})}
        return dict(sorted(found.items(), key=lambda item: owner_of(item[0]) is not None))

    def each(self, change: Callable[[str, Dimension], Dimension]) -> "Space":
        """Return the same space with every dimension as ``change`` has it, which is given its name too."""
        common = {name: change(name, its) for name, its in self.dimensions.items()}
        own = {
            key: {name: change(name, its) for name, its in its_own.items()}
            for key, its_own in self.per_strategy.items()
        }
        return replace(self, dimensions=common, per_strategy=own)

    def choose(self, strategy: str, pick: Callable[[str, Dimension], Any]) -> dict[str, Any]:
        """Return what ``pick`` takes of each dimension of ``strategy`` that applies beside what it took before.

        Options of an optimizer are picked for trials with that optimizer only, and so are those of a schedule.
        """
        chosen: dict[str, Any] = {}
        for name, dimension in self.of(strategy).items():
            if applies(name, chosen):
                chosen[name] = pick(name, dimension)
        return chosen

    def branches(self, strategy: str) -> Iterator[tuple[dict[str, Any], dict[str, Dimension]]]:
        """Yield each combination of optimizer and schedule that may be tried, and the other dimensions it has."""
        dimensions = self.of(strategy)
        needed = {owned[0] for name in dimensions if (owned := owner_of(name)) is not None}
        parts = [name for name in dimensions if name in needed]
        for values in itertools.product(*(dimensions[part].points() for part in parts)):
            fixed = dict(zip(parts, values, strict=True))
            others = {name: own for name, own in dimensions.items() if name not in fixed and applies(name, fixed)}
            yield fixed, others

    def grid(self, strategy: str) -> Iterator[dict[str, Any]]:
        """Every config of ``strategy`` on every seed; the learning rate varies slowest."""
        for chosen in self._grid(list(self.of(strategy).items()), {}):
            for seed in self.seeds:
                yield folded({**named(strategy), **chosen, **parts_from(chosen), "seed": seed})

    def _grid(self, rest: Sequence[tuple[str, Dimension]], chosen: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if not rest:
            yield chosen
            return
        (name, dimension), *others = rest
        if not applies(name, chosen):
            yield from self._grid(others, chosen)
            return
        for value in dimension.points():
            yield from self._grid(others, {**chosen, name: value})

    def grid_size(self, strategy: str) -> int:
        """Return how many configs :meth:`grid` has."""
        sizes = (
            math.prod(len(dimension.points()) for dimension in others.values()) for _, others in self.branches(strategy)
        )
        return sum(sizes) * len(self.seeds)

    def suggest(self, trial: "Trial", strategy: str) -> dict[str, Any]:
        """Return one config of ``strategy``, as Optuna suggests it."""
        chosen = self.choose(strategy, lambda name, dimension: dimension.suggest(trial, name))
        return folded({**named(strategy), **chosen, **parts_from(chosen), "seed": self.seeds[0]})

    def to_ray(self, strategy: str) -> dict[str, Any]:
        """Return the dimensions of ``strategy`` as Ray Tune's own, for ``tune.Tuner(..., param_space=...)``.

        Strategy and first seed are in it; the problem is not.

        Raises:
            UserError: for an unknown strategy, or options that only some of the optimizers or schedules have.
        """
        known_strategy(strategy)
        branches = list(self.branches(strategy))
        if len(branches) > 1:
            parts = " and ".join(branches[0][0])
            raise UserError(
                f"space '{self.name}' has options that depend on the {parts} of a trial, which Ray Tune's own spaces"
                f" cannot say: narrow it to one {parts} with space.narrowed(fixed=...), or use tune_mtl.search."
            )
        (chosen, others), *_ = branches
        drawn = {name: its.to_ray() for name, its in self.of(strategy).items() if name in chosen or name in others}
        fixed: dict[str, Any] = {part: drawn[part] for part in PARTS if isinstance(drawn.get(part), str)}
        return folded({**named(strategy), **drawn, **parts_from(fixed), "seed": self.seeds[0]})

    def values(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``config`` has in each dimension of its strategy, optimizer and schedule."""

        def value_of(name: str, _dimension: Dimension) -> Any:
            outer, _, inner = name.partition(".")
            value = config.get(outer)
            return value.get(inner) if inner and isinstance(value, Mapping) else value

        return self.choose(config["strategy"], value_of)

    def narrowed(
        self,
        *,
        strategies: Sequence[str] | None = None,
        lr: Dimension | None = None,
        groups: Dimension | None = None,
        vary: Mapping[str, Dimension] | None = None,
        fixed: Mapping[str, Any] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> "Space":
        """Return the same space with some of it decided.

        Args:
            strategies: These only; ones that the space lacks are added with the space's common dimensions.
            lr: Instead of the space's learning rates.
            groups: Instead of the space's group counts, for the strategies that have groups.
            vary: Further dimensions, or other ones than the space's. An option of a strategy is one of that strategy.
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
        decided = {**(vary or {}), **{key: Choice((value,)) for key, value in (fixed or {}).items()}}
        for key, dimension in decided.items():
            if key == "seed":
                raise UserError("seed is no dimension of a search: use --seed.")
            owners = owners_among(chosen, key)
            common = {name: its for name, its in common.items() if name != key}
            own = {
                name: {n: its for n, its in dimensions.items() if not n.startswith(f"{key}.")}
                for name, dimensions in own.items()
            }
            for name, dimensions in own.items():
                dimensions.pop(key, None)
                if name in (owners or ()):
                    dimensions[key] = dimension
            if owners is None:
                common[key] = dimension
        return replace(self, strategies=chosen, dimensions=common, per_strategy=own, seeds=tuple(seeds or self.seeds))


def owners_among(strategies: Sequence[str], key: str) -> list[str] | None:
    """Return the strategies that a dimension of this name is for; None: it is for all of them.

    Raises:
        UserError: for a seed that draws groups, where no strategy has any.
    """
    if key == GROUPS_SEED:
        grouped = [name for name in strategies if known_strategy(name).has_groups]
        if not grouped:
            raise UserError(f"{key} draws groups, and none of {', '.join(strategies)} has groups: leave it out.")
        return grouped
    grouped = [name for name in strategies if known_strategy(name).has_groups] if key == "groups_by" else []
    if grouped:
        return grouped
    owner = owner_among(strategies, key)
    return None if owner is None else [owner]


def owner_among(strategies: Sequence[str], key: str) -> str | None:
    """Return the strategy that an option of this name belongs to, if it is one of ``strategies``."""
    return max((name for name in strategies if key.startswith(f"{name}_")), key=len, default=None)


def folded(flat: Mapping[str, Any]) -> dict[str, Any]:
    """``{"scalar_weights.left": 2}`` as a config writes it: ``{"scalar_weights": {"left": 2}}``."""
    config: dict[str, Any] = {}
    for name, value in flat.items():
        outer, dot, inner = name.partition(".")
        if not dot:
            config[name] = value
        elif isinstance(config.setdefault(outer, {}), dict):
            config[outer][inner] = value
        else:
            raise UserError(f"{name} is a part of {outer}, which has a value of its own: leave one of them out.")
    return config


def check_known(name: str, known: Sequence[str], what: str) -> None:
    """Refuse a name that is not among ``known``."""
    if name not in known:
        raise UserError(f"unknown {what} '{name}'. {did_you_mean(name, known)}")
