"""Where configs lie in a space: numbers as shares of their range, choices as codes. What a model of them sees."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from search_spaces.dimension import Choice, Dimension, IntRange, LogRange
from search_spaces.space import Space

_MISSING = 0.5, -1
"""The share and the code of a dimension that a config does not have."""


@dataclass(frozen=True)
class Place:
    """A config: a share (0 to 1) of the range of every numeric dimension, and a code for each choice."""

    shares: tuple[float, ...]
    codes: tuple[int, ...]


Drawn = tuple[str, dict[str, Any], Place]
"""A config that could be tried: its strategy, its values by dimension, and its place."""


class Places:
    """Puts the configs of some strategies at places that can be compared.

    Args:
        space: What may be chosen.
        strategies: Whose configs are compared; several only where the strategy is searched like a dimension.
    """

    def __init__(self, space: Space, strategies: Sequence[str]) -> None:
        self._space, self._strategies = space, tuple(strategies)
        known: dict[str, Dimension] = {}
        for strategy in strategies:
            known |= space.of(strategy)
        self._numeric = [name for name, dimension in known.items() if not isinstance(dimension, Choice)]
        self._chosen = [name for name, dimension in known.items() if isinstance(dimension, Choice)]

    @property
    def size(self) -> tuple[int, int]:
        """How many shares and codes a place has."""
        return len(self._numeric), 1 + len(self._chosen)

    def of(self, strategy: str, values: Mapping[str, Any]) -> Place:
        """Return the place of a config's values, as ``Space.values`` names them."""
        dimensions = self._space.of(strategy)
        has = values.keys() & dimensions.keys()
        return Place(
            tuple(
                share_of(dimensions[name], values[name]) if name in has else _MISSING[0] for name in self._numeric
            ),
            (
                self._strategies.index(strategy),
                *(_code(dimensions[name], values[name]) if name in has else _MISSING[1] for name in self._chosen),
            ),
        )  # fmt: skip

    def drawn(self, seeds: Mapping[str, np.random.Generator], count: int) -> Iterator[Drawn]:
        """Yield ``count`` configs that fill every dimension evenly: the strategy, its values, and their place.

        ``seeds`` gives every dimension, and ``strategy``, a generator of its own: strategies that share a dimension
        share its draws.
        """
        shares = {name: (random.permutation(count) + random.random(count)) / count for name, random in seeds.items()}
        for index in range(count):
            strategy = Choice(self._strategies).at(float(shares["strategy"][index]))
            values = self._space.choose(strategy, lambda name, its: its.at(float(shares[name][index])))  # noqa: B023
            yield strategy, values, self.of(strategy, values)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of all dimensions, and ``strategy``."""
        return ("strategy", *self._numeric, *self._chosen)


def share_of(dimension: Dimension, value: float) -> float:
    """Return at which share (0 to 1) of its range a number lies: the inverse of ``at``.

    Raises:
        TypeError: for a choice, whose values have no order.
    """
    if isinstance(dimension, Choice):
        raise TypeError(f"the values of {dimension} have no order")
    low, high = float(dimension.low), float(dimension.high)
    if isinstance(dimension, LogRange) or (isinstance(dimension, IntRange) and dimension.log):
        low, high, value = np.log(low), np.log(high), np.log(value)
    return float(np.clip((value - low) / (high - low), 0.0, 1.0)) if high > low else _MISSING[0]


def _code(dimension: Dimension, value: Any) -> int:
    """Return which of a choice's values this is; one that JSON has changed (a tuple became a list) is known too."""
    assert isinstance(dimension, Choice)
    for code, known in enumerate(dimension.values):
        if known == value or (isinstance(known, tuple) and list(known) == value):
            return code
    return _MISSING[1]
