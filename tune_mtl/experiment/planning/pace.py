"""How long a trial takes, extrapolated from a few small mini-batches: a plan must come within seconds."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.problem import Problem
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import Config
from tune_mtl.training.trainer import Trainer

_FEWEST_SAMPLES = 2
"""Of a mini-batch that is timed: one sample cannot be normalised over a batch."""
_PATIENCE = 0.7
"""Seconds of timing for each strategy: as soon as they are spent, the mini-batches grow no further."""
_CHEAP, _REPEATS = 0.05, 3
"""Seconds under which a mini-batch is timed so often, and the median taken."""


@dataclass(frozen=True)
class Pace:
    """What was timed of one config.

    Attributes:
        config: It, with as few groups as any.
        samples: In the largest mini-batch that was timed.
        seconds: Of that mini-batch.
        per_sample: Seconds that every further sample takes, by the two largest; None if only one was timed.
        evaluation: Seconds of a prediction for as many samples.
    """

    config: Config
    samples: int
    seconds: float
    per_sample: float | None
    evaluation: float


def take_pace(problem: Problem, config: Config) -> Pace:
    """Time a few mini-batches of ``config``, of ever more samples until patience is spent or they are whole."""
    trainer = Trainer(problem, config)
    data = problem.data("train")
    assert data is not None
    trainer.strategy.model.train()

    def step(samples: int) -> Callable[[], object]:
        return lambda: trainer.strategy.step(*trainer.place(data.batch(torch.arange(samples))))

    def predict() -> None:
        with torch.no_grad():
            trainer.strategy.predict(trainer.place(data.batch(torch.arange(samples))).inputs)

    timed: list[tuple[int, float]] = []
    samples, spent = min(_FEWEST_SAMPLES, config.batch_size), 0.0
    while True:
        started = time.perf_counter()
        timed.append((samples, _seconds(step(samples))))
        spent += time.perf_counter() - started
        if samples == config.batch_size or spent + 2 * timed[-1][1] > _PATIENCE:
            break
        samples = min(2 * samples, config.batch_size)
    evaluation = _seconds(predict)
    trainer.close()
    slope = None
    if len(timed) > 1:
        (fewer, quicker), (more, slower) = timed[-2:]
        slope = max(0.0, slower - quicker) / (more - fewer)
    return Pace(config, *timed[-1], slope, evaluation)


def _seconds(action: Callable[[], object]) -> float:
    taken: list[float] = []
    while not taken or (len(taken) < _REPEATS and taken[-1] < _CHEAP):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def trial_seconds(problem: Problem, config: Config, pace: Pace, one_pass: float) -> float:
    """Return how long a whole trial of ``config`` takes, evaluations included.

    A mini-batch takes as long as the timed one, times its updates; each sample that the timed one lacked takes what a
    further sample took, or, where only one size was timed, ``one_pass`` for every pass through the trunk.

    Args:
        problem: What is learned.
        config: The trial; its strategy is the one that was timed.
        pace: What was timed.
        one_pass: Seconds of one sample's way forward and back.
    """
    if config.max_seconds is not None:
        return config.max_seconds
    train, val = problem.data("train"), problem.data("val")
    if train is None or val is None:
        raise UserError(f"problem '{problem.name}' has no training or validation data.")
    tasks = len(problem.tasks)
    growth = _passes(config, tasks) / _passes(pace.config, tasks)
    per_sample = one_pass * _passes(pace.config, tasks) if pace.per_sample is None else pace.per_sample
    mini_batch = growth * (pace.seconds + max(0, config.batch_size - pace.samples) * per_sample)
    mini_batches = config.mini_batches(max(1, len(train) // config.batch_size), tasks)
    epochs = mini_batches / max(1, len(train) // config.batch_size)
    evaluations = max(1.0, epochs / config.evaluate_every)
    return mini_batches * mini_batch + evaluations * len(val) * pace.evaluation / pace.samples


def one_pass(paces: list[Pace], tasks: int) -> float:
    """Return the seconds that a sample takes forward and back, by the strategy of which most samples were timed."""
    pace = max(paces, key=lambda pace: pace.samples)
    passes = _passes(pace.config, tasks)
    return (pace.seconds / pace.samples if pace.per_sample is None else pace.per_sample) / passes


def _passes(config: Config, tasks: int) -> float:
    """Return how often a mini-batch goes forward and back through the trunk; back takes twice as long."""
    info = strategy_info(config.strategy)
    groups = len(config.groups) if isinstance(config.groups, list) else config.groups or tasks
    return (count(info.forwards, tasks, groups) + 2 * count(info.backwards, tasks, groups)) / 3
