"""In which order trials are tried: the turns of every strategy in every repetition of the tuning."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from search_spaces.space import Space
from tune_mtl.results.settings import FRESH_SEEDS_FROM, Growth

ANY = "any strategy"
"""The name of the one tuning in which strategy is a dimension like any other."""


@dataclass(frozen=True)
class Turn:
    """Who is tried next.

    Attributes:
        strategy: Its name; None where the searcher chooses.
        replicate: The repetition of the tuning, from 0.
        config: The point of a grid; None where the searcher chooses.
    """

    strategy: str | None
    replicate: int
    config: Mapping[str, Any] | None = None


def guided_turns(
    space: Space, samples: int, replicates: int, grown: Sequence[Growth] = (), *, balanced: bool
) -> list[Turn]:
    """Return the turns of a guided search: replicate after replicate, the strategies taking turns within each.

    What is added to a replicate goes on with whose turn it is.
    """
    first = Growth(replicates=tuple(range(replicates)), strategies=space.strategies, trials=samples)
    turns: list[Turn] = []
    had: Counter[int] = Counter()
    for growth in (first, *grown):
        for replicate, count in zip(
            growth.replicates, equal_shares(growth.trials, len(growth.replicates)), strict=True
        ):
            strategies = growth.strategies if balanced else (None,)
            places = range(had[replicate], had[replicate] + count)
            turns += [Turn(strategies[place % len(strategies)], replicate) for place in places]
            had[replicate] += count
    return turns


def grid_turns(space: Space, samples: int | None, seeds: Mapping[int, int], grown: Sequence[Growth] = ()) -> list[Turn]:
    """Return the turns of a grid on the training seed of every replicate (``seeds``), the first ``samples`` of them."""
    added = {replicate for growth in grown for replicate in growth.replicates}
    first = replace(space, seeds=tuple(seed for replicate, seed in seeds.items() if replicate not in added))
    grids = [interleaved_grid(first)[:samples]]
    for growth in grown:
        its = tuple(seeds[replicate] for replicate in growth.replicates)
        grids.append(interleaved_grid(replace(space, seeds=its, strategies=growth.strategies)))
    replicate_of = {seed: replicate for replicate, seed in seeds.items()}
    return [Turn(config["strategy"], replicate_of[config["seed"]], config) for grid in grids for config in grid]


def interleaved_grid(space: Space) -> list[dict[str, Any]]:
    """Return every config of every strategy, the strategies taking turns."""
    queues = [list(space.grid(strategy)) for strategy in space.strategies]
    longest = max(len(queue) for queue in queues)
    return [queue[index] for index in range(longest) for queue in queues if index < len(queue)]


def equal_shares(total: int, parts: int) -> Iterator[int]:
    """Yield ``total`` in ``parts`` whole numbers that differ by at most one, the larger ones first."""
    for part in range(parts):
        yield total // parts + (part < total % parts)


def fresh_seeds(training: Sequence[int], count: int) -> dict[int, list[int]]:
    """Return, by training seed, the ``count`` seeds on which what was chosen with it is judged.

    With one training seed, or with seeds that no other could be told from, they are the first ones above the largest.
    """
    if len(training) == 1 or max(training) - min(training) >= FRESH_SEEDS_FROM:
        first = max(training) + 1
        return {seed: [first + index + place * count for index in range(count)] for place, seed in enumerate(training)}
    return {seed: [seed + FRESH_SEEDS_FROM * (index + 1) for index in range(count)] for seed in training}
