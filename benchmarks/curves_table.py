"""Recorded learning curves as a world in which searches can be replayed: any learning rate, any number of seeds.

A table holds complete curves of the objective over a grid of learning rates, on a few seeds. Between two recorded
learning rates the mean curve over seeds is interpolated, epoch by epoch: linearly in the logarithm of the learning
rate, as the logarithm of the value; beyond the recorded ones the outermost stands. A training seed's luck is a recorded
one: the whole curve of residuals (a recorded curve minus the mean over seeds, in logarithms, widened by
sqrt(n / (n - 1)) for the mean's own) of a row near that learning rate. So residuals keep their course over epochs, and
their size and skewness at that learning rate (two groups of four tasks can be drawn in three ways, of which one may be
much better); a seed's test value has the ratio to its best validation value that the row had.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

_NEAR = 3
"""Residuals are drawn from so many of the nearest recorded learning rates."""
_WORST = 1e3
"""The value of a curve that ended because it diverged, as a multiple of its first."""


@dataclass(frozen=True)
class Arm:
    """One strategy with one group count: curves by learning rate and seed.

    Attributes:
        rates: The recorded learning rates, ascending, as logarithms.
        means: The mean log curve over seeds at each, ``[rates, epochs]``.
        residuals: Of every seed at each: ``[rates][seeds, epochs]``.
        tests: Likewise the log ratio of the test value to the best validation value, ``[rates][seeds]``.
        minima: Likewise the best validation value, as it was recorded.
    """

    rates: np.ndarray
    means: np.ndarray
    residuals: Sequence[np.ndarray]
    tests: Sequence[np.ndarray]
    minima: Sequence[np.ndarray] = ()

    def curve(
        self, log_lr: float, draw: np.random.Generator, seeds: np.random.Generator, noise: float = 1.0
    ) -> tuple[np.ndarray, float]:
        """Return a run's validation curve at a learning rate, and its test value at the best epoch.

        ``draw`` chooses the learning rate whose residuals are taken, ``seeds`` the recorded seed. ``noise`` scales the
        level of the luck over the whole run, not its course from epoch to epoch: the best of noisier epochs would be
        better.
        """
        place = float(np.interp(log_lr, self.rates, np.arange(len(self.rates))))
        below, above = self.means[math.floor(place)], self.means[math.ceil(place)]
        mean = below + (place % 1) * (above - below)
        near = np.argsort(np.abs(self.rates - log_lr), kind="stable")[:_NEAR]
        at = int(near[draw.integers(len(near))])
        row = int(seeds.random() * len(self.residuals[at]))
        luck = self.residuals[at][row]
        curve = np.exp(mean + luck + (noise - 1.0) * luck.mean())
        return curve, float(curve.min() * math.exp(self.tests[at][row]))


@dataclass(frozen=True)
class Table:
    """The recorded curves of a problem, by strategy and group count (0: none)."""

    arms: Mapping[tuple[str, int], Arm]
    epochs: int

    @classmethod
    def read(cls, path: Path) -> "Table":
        """Read JSON lines: ``key`` = [strategy, groups, lr, seed], ``curve``, and ``test`` if it was recorded."""
        rows: dict[tuple[str, int], dict[float, list[dict[str, Any]]]] = {}
        epochs = 0
        for row in map(json.loads, path.read_text().splitlines()):
            strategy, groups, lr, _ = row["key"]
            rows.setdefault((strategy, groups), {}).setdefault(lr, []).append(row)
            epochs = max(epochs, len(row["curve"]))
        return cls({arm: _arm(found, epochs) for arm, found in rows.items()}, epochs)

    def counts(self, strategy: str) -> tuple[int, ...]:
        """Return the group counts that were recorded of a strategy; empty if it has no groups."""
        return tuple(sorted(groups for name, groups in self.arms if name == strategy and groups))

    def grid_epochs(self, strategies: Sequence[str]) -> int:
        """Return the epochs of the whole recorded grid of ``strategies``, on one seed."""
        return sum(len(arm.rates) * self.epochs for (name, _), arm in self.arms.items() if name in strategies)


def _arm(rows: Mapping[float, Sequence[Mapping[str, Any]]], epochs: int) -> Arm:
    rates = sorted(rows)
    curves = [np.log([_whole(row["curve"], epochs) for row in rows[rate]]) for rate in rates]
    means = np.array([found.mean(axis=0) for found in curves])
    residuals = [
        (found - found.mean(axis=0)) * math.sqrt(len(found) / (len(found) - 1)) if len(found) > 1 else found * 0.0
        for found in curves
    ]
    tests = [
        np.array([math.log(row["test"] / min(row["curve"])) if row.get("test") else 0.0 for row in rows[rate]])
        for rate in rates
    ]
    minima = [np.exp(found.min(axis=1)) for found in curves]
    return Arm(np.log(rates), means, residuals, tests, minima)


def _whole(curve: Sequence[float], epochs: int) -> list[float]:
    """Return a curve of full length: one that diverged stays at a value that cannot win."""
    return [*curve, *[(curve[0] if curve else 1.0) * _WORST] * (epochs - len(curve))]


@dataclass(frozen=True)
class Contestant:
    """What stands behind a strategy's name in a replay.

    Attributes:
        source: The recorded strategy.
        mirror: Its curves are mirrored about this learning rate: as good as before at any budget of uniform draws, with
            the best learning rate elsewhere. None: as recorded.
        noise: The factor of the level of the seeds' luck.
    """

    source: str
    mirror: float | None = None
    noise: float = 1.0


@dataclass
class World:
    """A table and who takes part: gives every run its curve, the same for the same config and seed.

    Attributes:
        table: The recorded curves.
        contestants: By the strategy's name in the replayed search.
        seed: Of all luck in this world.
    """

    table: Table
    contestants: Mapping[str, Contestant]
    seed: int = 0
    _known: dict[str, tuple[np.ndarray, float]] = field(default_factory=dict, repr=False)

    def run(self, config: Mapping[str, Any]) -> tuple[np.ndarray, float]:
        """Return the validation curve of a run with ``config``, and its test value at the best epoch."""
        key = f"{config['strategy']} {config.get('groups', 0)} {config['lr']!r} {config['seed']}"
        if key not in self._known:
            contestant = self.contestants[config["strategy"]]
            log_lr = math.log(config["lr"])
            if contestant.mirror is not None:
                log_lr = 2 * math.log(contestant.mirror) - log_lr
            draw = np.random.default_rng([self.seed, *key.encode()])
            arm = self.table.arms[contestant.source, config.get("groups", 0)]
            of_seed = f"{config['strategy']} {config.get('groups', 0)} {config['seed']}"
            seeds = np.random.default_rng([self.seed, *of_seed.encode()])
            self._known[key] = arm.curve(log_lr, draw, seeds, contestant.noise)
        return self._known[key]

    @cached_property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The group counts that each contestant may choose."""
        return {name: self.table.counts(one.source) for name, one in self.contestants.items()}
