"""Runs on every pair of a draw of groups and a seed, read back: whose luck is it?"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_mtl.core.outcome import Outcome
from tune_mtl.results.search_data import SearchData, Trained, without_seed
from tune_mtl.strategies.group_draws import count_groupings
from tune_mtl.tracking import names

_FREE = ("seed", "groups_seed")


@dataclass(frozen=True)
class Layout:
    """One strategy with one group count: its runs by draw and seed, as a rectangle without holes.

    Attributes:
        strategy: The name of the strategy.
        groups: The number of groups.
        tasks: The number of tasks.
        draws: The seeds that drew the groups.
        seeds: The seeds of everything else.
        runs: By draw and seed.
        lost: How many runs diverged or failed; their draw or their seed is left out.
    """

    strategy: str
    groups: int
    tasks: int
    draws: Sequence[int]
    seeds: Sequence[int]
    runs: Mapping[tuple[int, int], Trained]
    lost: int

    @property
    def possible(self) -> int | None:
        """How many groupings there are; None where the search has not kept what its tasks are."""
        return count_groupings(self.tasks, self.groups) if self.tasks >= self.groups else None

    @property
    def whole(self) -> bool:
        """Return whether there is enough for a split of the variance."""
        return len(self.draws) > 1 and len(self.seeds) > 1

    def metric(self, quality: str) -> str:
        """Return the metric of ``quality`` that all runs have: on test, or else on validation."""
        tested = all(f"test/{quality}" in run.metrics for run in self.runs.values())
        return f"test/{quality}" if tested else f"best/val/{quality}"

    def values(self, quality: str) -> list[list[float]]:
        """Return a row for each draw, with a value for each seed."""
        metric = self.metric(quality)
        return [[self.runs[draw, seed].metrics[metric] for seed in self.seeds] for draw in self.draws]

    @property
    def seconds(self) -> float:
        """The training time of the runs."""
        return sum(run.metrics.get("seconds", 0.0) for run in self.runs.values())


def layouts(search: SearchData) -> list[Layout]:
    """Return what was crossed, of configs that are the best of their strategy and group count still."""
    found: dict[tuple[str, int], list[Trained]] = {}
    for run in search.crossed:
        if run.strategy in search.winners and run.groups:
            found.setdefault((run.strategy, run.groups), []).append(run)
    order = {strategy: place for place, strategy in enumerate(search.winners)}
    made = []
    for (strategy, groups), runs in sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        chosen = _fixed(best_with(search, strategy, groups) or {})
        ended = [run for run in runs if _fixed(run.config) == chosen and run.ended]
        if ended:
            made.append(_rectangle(strategy, groups, len(search.tasks), ended, search.quality))
    return made


def _rectangle(strategy: str, groups: int, tasks: int, ended: Sequence[Trained], quality: str) -> Layout:
    """Leave out draws and seeds with most holes, until there are none."""
    metric = f"best/val/{quality}"
    good = {
        (int(run.config["groups_seed"]), int(run.config["seed"])): run
        for run in ended
        if run.outcome == Outcome.COMPLETED and metric in run.metrics
    }
    draws, seeds = (sorted({int(run.config[key]) for run in ended}) for key in ("groups_seed", "seed"))
    while any((draw, seed) not in good for draw in draws for seed in seeds):
        holes = [(sum((draw, seed) not in good for seed in seeds) / len(seeds), 0, draw) for draw in draws]
        holes += [(sum((draw, seed) not in good for draw in draws) / len(draws), 1, seed) for seed in seeds]
        _, of_seed, worst = max(holes)
        draws = [draw for draw in draws if of_seed or draw != worst]
        seeds = [seed for seed in seeds if not of_seed or seed != worst]
    kept = {cell: run for cell, run in good.items() if cell[0] in draws and cell[1] in seeds}
    return Layout(strategy, groups, tasks, draws, seeds, kept, len(ended) - len(good))


def best_with(search: SearchData, strategy: str, groups: int) -> dict[str, Any] | None:
    """Return the best config of ``strategy`` with so many drawn groups: the winner's, or the best trial's with them.

    Where none was tried with so many: the winner's, with so many groups. None if the strategy has no winner.
    """
    won = search.winners.get(strategy)
    if won is None:
        return None
    if won.config.get("groups") == groups:
        return dict(won.config)
    metric, found = names.best_metric(search.objective.metric), dict[str, list[Trained]]()
    for run in search.trials:
        if run.strategy == strategy and run.config.get("groups") == groups and run.ranked and metric in run.metrics:
            found.setdefault(without_seed(run.config), []).append(run)
    most = max(map(len, found.values()), default=0)
    means = {
        text: search.sign * statistics.fmean(run.metrics[metric] for run in runs)
        for text, runs in found.items()
        if len(runs) == most
    }
    if not means:
        return {**won.config, "groups": groups}
    return dict(found[min(means, key=lambda text: means[text])][0].config)


def _fixed(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _FREE}
