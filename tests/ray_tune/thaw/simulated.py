"""A search whose trials are functions: every step that a policy decides is carried out at once."""

import json
import math

import numpy as np

from search_spaces import Choice, LogRange, Space
from tune_mtl.core.objective import Objective
from tune_mtl.ray_tune.thaw.policy import Begin
from tune_mtl.ray_tune.thaw.thaw import Thaw

SPACE = Space(
    name="s",
    strategies=("sus", "jd_sum"),
    dimensions={"lr": LogRange(1e-4, 1e-1)},
)
GROUPED = Space(
    name="g",
    strategies=("sus", "io"),
    dimensions={"lr": LogRange(1e-4, 1e-1)},
    per_strategy={"io": {"groups": Choice((2, 4))}},
)
LENGTH = 12


def valley(config, epoch):
    """Return a loss that falls with epochs, and is lowest at a learning rate of 3e-3."""
    return 0.1 * (1 + math.log10(config["lr"] / 3e-3) ** 2) * epoch**-0.3


def thaw(trials=8, replicates=1, *, space=SPACE, mode="min", **more):
    tunings = {(name, replicate): trials for replicate in range(replicates) for name in space.strategies}
    given = {"length": LENGTH, "step": 1, "seed": 3, **more}
    return Thaw(space, Objective("val/loss", mode), trials=tunings, **given)


class Search:
    """Carries out what a policy decides, some trials at a time."""

    def __init__(self, policy, curve=valley, *, slots=1, space=SPACE, length=LENGTH):
        self.policy, self.curve, self.slots, self.space, self.length = policy, curve, slots, space, length
        self.steps, self.configs, self.reached, self.tunings, self.ended = [], {}, {}, {}, set()
        self.running = {}

    def fill(self):
        while len(self.running) < self.slots:
            step = self.policy.next(list(self.running))
            if step is None:
                return
            self.steps.append(step)
            name = self.begin(step) if isinstance(step, Begin) else step.trial
            assert name not in self.ended
            assert name not in self.running
            assert self.reached[name] < step.until <= self.length
            self.running[name] = step.until

    def begin(self, step):
        name = f"{len(self.configs):04d}"
        strategy, replicate = step.tuning
        draw = np.random.default_rng([replicate, sum(other[1] == replicate and other[0] == strategy
                                                     for other in self.tunings.values())])  # fmt: skip
        values = step.values or self.space.choose(strategy, lambda _, its: its.at(float(draw.random())))
        self.configs[name] = {"strategy": strategy, "seed": replicate, **values}
        self.tunings[name], self.reached[name] = step.tuning, 0
        self.policy.begun(name, step.tuning, json.loads(json.dumps(self.configs[name])))
        return name

    def run(self, most=10_000):
        self.fill()
        while self.running and most:
            most -= 1
            name = next(iter(self.running))
            until = self.running.pop(name)
            self.reached[name] += 1
            value = self.curve(self.configs[name], self.reached[name])
            diverged = value is None
            if not diverged:
                self.policy.seen(name, float(self.reached[name]), value)
            if diverged or self.reached[name] >= self.length:
                self.ended.add(name)
                self.policy.ended(name, reached=float(self.reached[name]), diverged=diverged, failed=False)
            elif self.reached[name] < until:
                self.running[name] = until
            self.fill()
        return self

    def spent(self, tuning):
        return sum(self.reached[name] for name, its in self.tunings.items() if its == tuning)

    def longest(self, tuning):
        return max((name for name, its in self.tunings.items() if its == tuning), key=self.reached.__getitem__)
