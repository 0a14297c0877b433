"""What a verdict costs by design: how much a tuning may train, how its choice is made, which test, how many looks.

Of every searcher seed the tunings of two strategies in several replicates are replayed, by the policy of `--scheduler
thaw` itself and nothing around it, so that thousands of tunings take minutes. What each chooses is trained on a fresh
seed. From these values the power of every design is counted.

    python benchmarks/designs.py --epochs 8,10,16 --searches 100

prints the table of docs/benchmarks.md. A share has a standard error of sqrt(share (1 - share) / searches). With
`--equal "best rates 10x apart"`, or another match of `verdicts.py` in which nobody is better, all shares are errors.
"""

import argparse
import heapq
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.replay import LEARNING_RATES, METRIC
from benchmarks.verdicts import Match, null_matches
from search_spaces import Choice, Space
from tune_mtl.core.objective import Objective
from tune_mtl.ray_tune.searcher import common_draw
from tune_mtl.ray_tune.thaw.curves import Curves
from tune_mtl.ray_tune.thaw.policy import Begin, Tuning
from tune_mtl.ray_tune.thaw.thaw import Thaw, _points
from tune_mtl.reporting.statistics.comparison import Looks
from tune_mtl.reporting.statistics.significance import ALPHA
from tune_mtl.results.settings import FRESH_SEEDS_FROM

TABLE = Path(__file__).with_name("curves") / "multidigits.jsonl"
PLANS: tuple[tuple[int, ...], ...] = ((3,), (4,), (5,), (6,), (3, 4, 5), (4, 5, 6), (3, 4, 5, 6))
"""After how many replicates is looked; with several looks, by the rule of ``--replicates auto``."""


@dataclass(frozen=True)
class Design:
    """How much a tuning may train.

    Attributes:
        epochs: Of all its trials together.
        trials: How many at most.
        startup: How many of them are drawn evenly.
        slots: Trials at once.
    """

    epochs: float
    trials: int = 8
    startup: int = 4
    slots: int = 2


@dataclass
class Paused:
    """A trial of a replayed tuning.

    Attributes:
        tuning: Whose it is.
        config: What it trains.
        curve: The values that it will report.
        epoch: How far it is.
    """

    tuning: Tuning
    config: Mapping[str, Any]
    curve: Sequence[float]
    epoch: int = 0

    @property
    def best(self) -> float:
        """The best value so far."""
        return min(self.curve[: self.epoch], default=math.inf)


@dataclass
class Tunings:
    """All tunings of a world, replayed: who trained how long, and what the policy knows."""

    world: World
    match: Match
    design: Design
    replicates: int
    trials: dict[str, Paused] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names, groups = tuple(self.match.contestants), self.world.groups
        self._space = Space(
            name="designs",
            strategies=names,
            dimensions={"lr": self.match.lr},
            per_strategy={name: {"groups": Choice(counts)} for name, counts in groups.items() if counts},
        )
        length, trials = self.world.table.epochs, self.design.trials
        self.policy = Thaw(
            self._space, Objective(METRIC), length=length, step=max(1, math.ceil(length / 12)), seed=self.world.seed,
            trials={(name, replicate): trials for replicate in range(self.replicates) for name in names},
            share=self.design.epochs / (trials * length), startup=self.design.startup,
        )  # fmt: skip
        self._run(random.Random(self.world.seed))

    def _run(self, clock: random.Random) -> None:
        running: dict[str, float] = {}
        queue: list[tuple[float, str]] = []

        def fill(now: float) -> None:
            while len(running) < self.design.slots and (step := self.policy.next(running)) is not None:
                name = self._begun(step) if isinstance(step, Begin) else step.trial
                running[name] = step.until
                heapq.heappush(queue, (now + clock.uniform(0.8, 1.25), name))

        fill(0.0)
        while queue:
            now, name = heapq.heappop(queue)
            trial = self.trials[name]
            trial.epoch += 1
            self.policy.seen(name, trial.epoch, trial.curve[trial.epoch - 1])
            done = trial.epoch == len(trial.curve)
            if done:
                self.policy.ended(name, reached=trial.epoch, diverged=False, failed=False)
            if done or trial.epoch >= running[name]:
                del running[name]
                fill(now)
            else:
                heapq.heappush(queue, (now + clock.uniform(0.8, 1.25), name))

    def _begun(self, step: Begin) -> str:
        (strategy, replicate), seed = step.tuning, self.world.seed
        place = sum(trial.tuning == step.tuning for trial in self.trials.values())

        def share(dimension: str) -> float:
            return common_draw(seed, replicate, dimension, place, self.design.startup)

        values = step.values
        if values is None:
            values = self._space.choose(strategy, lambda name, dimension: dimension.at(share(name)))
        config = {"strategy": strategy, **values, "seed": replicate}
        name = f"{len(self.trials):04d}"
        self.trials[name] = Paused(step.tuning, config, [float(value) for value in self.world.run(config)[0]])
        self.policy.begun(name, step.tuning, config)
        return name

    def spent(self, tuning: Tuning) -> int:
        """Return the epochs of a tuning's trials."""
        return sum(trial.epoch for trial in self.trials.values() if trial.tuning == tuning)

    def by_best_epoch(self, tuning: Tuning) -> Mapping[str, Any]:
        """Return what a tuning chooses as a search does: the config with the best value of all epochs."""
        return min((trial for trial in self.trials.values() if trial.tuning == tuning), key=lambda one: one.best).config

    def by_expected_end(self, tuning: Tuning) -> Mapping[str, Any]:
        """Return the config of the trial that the model of learning curves expects to end best."""
        policy = self.policy
        points, values = policy._observed(tuning)
        courses = policy._courses[tuning]
        ends = _points([policy._place(one) for one in courses], np.ones(len(courses)), [one.number for one in courses])
        expected, _ = Curves(policy._shape, points, values).expect(ends)
        return self.trials[courses[int(expected.argmin())].trial].config

    def value(self, config: Mapping[str, Any]) -> float:
        """Return the test value of a config that is trained again on the fresh seed of its replicate."""
        return self.world.run({**config, "seed": config["seed"] + FRESH_SEEDS_FROM})[1]


CHOICES: dict[str, Callable[[Tunings, Tuning], Mapping[str, Any]]] = {
    "best epoch": Tunings.by_best_epoch,
    "expected end": Tunings.by_expected_end,
}
SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"differences": np.asarray, "log ratios": np.log}


def replayed(
    match: Match, table: Table, design: Design, seeds: Sequence[int], replicates: int
) -> tuple[dict[str, np.ndarray], float]:
    """Return by choice the values ``[seeds, strategies, replicates]``, and the epochs of a tuning on average."""
    found: dict[str, list[list[list[float]]]] = {choice: [] for choice in CHOICES}
    spent = []
    for seed in seeds:
        tunings = Tunings(World(table, match.contestants, seed=seed), match, design, replicates)
        places = [[(name, replicate) for replicate in range(replicates)] for name in match.contestants]
        spent += [tunings.spent(place) for row in places for place in row]
        for choice, choose in CHOICES.items():
            found[choice].append([[tunings.value(choose(tunings, place)) for place in row] for row in places])
    return {choice: np.array(values) for choice, values in found.items()}, float(np.mean(spent))


def decided(differences: np.ndarray, looks: Sequence[int]) -> tuple[float, float]:
    """Return in which share of rows a search with these ``looks`` finds a difference, and its replicates on average."""
    rule = Looks(tuple(looks))
    found, ended = np.zeros(len(differences), dtype=bool), np.full(len(differences), looks[-1])
    for size in looks:
        level = ALPHA if len(looks) == 1 else rule.level(ALPHA, size)
        now = (stats.ttest_1samp(differences[:, :size], 0.0, axis=1).pvalue < level) & ~found
        ended[now] = size
        found |= now
    return float(found.mean()), float(ended.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--strategies", default="sus,io")
    parser.add_argument("--equal", help="two equally good strategies instead, by the name of the match")
    parser.add_argument("--epochs", default="8,10,16", help="of a tuning")
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=3000)
    given = parser.parse_args()
    table, replicates = Table.read(given.table), max(plan[-1] for plan in PLANS)
    match = Match({name: Contestant(name) for name in given.strategies.split(",")}, LEARNING_RATES)
    if given.equal:
        match = null_matches(table)[given.equal]
    cells = [", ".join(map(str, plan)) for plan in PLANS]
    print(
        "| epochs of a tuning | choice by | test of | effect | " + " | ".join(f"after {cell}" for cell in cells) + " |"
    )
    print("|---:|---|---|---:|" + "---:|" * len(PLANS))
    for epochs in map(float, given.epochs.split(",")):
        seeds = range(given.first_seed, given.first_seed + given.searches)
        found, spent = replayed(match, table, Design(epochs), seeds, replicates)
        for choice, values in found.items():
            for scale, scaled in SCALES.items():
                differences = scaled(values[:, 0]) - scaled(values[:, 1])
                effect = abs(differences.mean() / differences.std(ddof=1))
                shares = [decided(differences, plan) for plan in PLANS]
                each = 2 * (spent + table.epochs)
                told = " | ".join(f"{share:.0%} ({size * each:.0f})" for share, size in shares)
                print(f"| {spent:.0f} | {choice} | {scale} | {effect:.2f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
