"""Trials that report recorded curves, in simulated time."""

import heapq
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainables.keys import TRIAL


@dataclass(frozen=True)
class Epoch:
    """One evaluation of a trial, which cost one epoch."""

    trial: str
    config: Mapping[str, Any]
    epoch: int
    value: float


@dataclass
class StandIn:
    """A trial that reports a recorded curve. Schedulers of Ray's take it for one of theirs."""

    trial_id: str
    config: Mapping[str, Any]
    curve: Sequence[float]
    epoch: int = 0
    best: float = math.inf
    last: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its ordinal in one of our searches."""
        return str(self.config[TRIAL])

    def train(self) -> float:
        """Train an epoch; returns its value."""
        value = self.curve[self.epoch]
        self.epoch += 1
        self.best = min(value, self.best)
        return value


class Events:
    """Trials in the order in which their epochs end, each of which takes about a unit of time."""

    def __init__(self, clock: random.Random) -> None:
        self._clock, self._now, self._order = clock, 0.0, 0
        self._queue: list[tuple[float, int, StandIn]] = []

    def add(self, trial: StandIn) -> None:
        """Let a trial train one epoch from now on."""
        self._order += 1
        heapq.heappush(self._queue, (self._now + self._clock.uniform(0.8, 1.25), self._order, trial))

    def __iter__(self) -> Iterator[StandIn]:
        """Yield each trial when its epoch ends."""
        while self._queue:
            self._now, _, trial = heapq.heappop(self._queue)
            yield trial
