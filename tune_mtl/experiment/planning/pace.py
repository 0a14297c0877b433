"""How long a trial takes, extrapolated from a few small mini-batches: a plan must come within seconds."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import map_tensors, tensors
from tune_mtl.core.problem import Problem
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import Config
from tune_mtl.training.trainer import Trainer

_FEWEST_SAMPLES = 2
"""The fewest samples of a mini-batch that is timed: one sample cannot be normalised over a batch."""
_CUTS = (8, 4, 2, 1)
"""Into how many parts the sides of images are cut where every pixel has a target; only one part is learned from."""
_SIDE = 16
"""Pixels: sides of what is cut out are multiples of it, since networks halve them several times."""
_PATIENCE, _PATIENCE_WITH_OTHERS = 0.7, 1.2
"""Seconds of timing for the quickest strategy, and for one mini-batch of each other one together."""
_CHEAP, _REPEATS = 0.1, 3
"""Seconds within which a mini-batch is timed so often; the quickest counts, as other programs only add to it."""


@dataclass(frozen=True)
class Timed:
    """One mini-batch that was timed.

    Attributes:
        samples: The number of samples in it.
        cut: Into how many parts the sides of its images were cut, of which one was left.
        size: The size in whole samples: a quarter of an image is 0.25.
        seconds: The seconds that it took.
    """

    samples: int
    cut: int
    size: float
    seconds: float


@dataclass(frozen=True)
class Pace:
    """What is known of how fast one config learns.

    Attributes:
        config: It, with as few groups as any.
        size: The size of a mini-batch, in whole samples.
        seconds: The seconds that such a mini-batch takes.
        per_sample: Seconds that every further sample takes.
        evaluation: Seconds of a prediction, per sample.
        timed: The largest mini-batch that was timed; None if all is reckoned from another strategy's.
    """

    config: Config
    size: float
    seconds: float
    per_sample: float
    evaluation: float
    timed: Timed | None


def take_paces(problem: Problem, configs: Mapping[str, Config]) -> dict[str, Pace]:
    """Return the pace of each strategy's config.

    The one with the fewest passes through the trunk is timed on ever larger mini-batches. Of the others one smallest
    mini-batch is timed, as long as patience lasts; every further sample of theirs takes as many passes more as their
    records say, and so does the whole of what is not timed at all.
    """
    tasks = len(problem.tasks)
    first, *others = sorted(configs, key=lambda strategy: _passes(configs[strategy], tasks))
    rungs, evaluation = _climb(problem, configs[first])
    least, most = rungs[0], rungs[-1]
    slope = _slope(rungs)
    found = {first: Pace(configs[first], most.size, most.seconds, slope, evaluation, most)}
    spent = 0.0
    for strategy in others:
        config = configs[strategy]
        times = _passes(config, tasks) / _passes(configs[first], tasks)
        seconds, timed = times * least.seconds, None
        if spent + seconds <= _PATIENCE_WITH_OTHERS:
            started = time.perf_counter()
            trial = _Trial(problem, config)
            timed = trial.learn(least.samples, least.cut)
            trial.close()
            seconds, spent = timed.seconds, spent + time.perf_counter() - started
        predictions = tasks if strategy_info(strategy).forwards == "N" else 1  # each task has a network, or a way
        found[strategy] = Pace(config, least.size, seconds, times * slope, predictions * evaluation, timed)
    return found


def _climb(problem: Problem, config: Config) -> tuple[list[Timed], float]:
    """Time mini-batches of ever more pixels, then samples, until they are whole or the next would try patience.

    Returns:
        Them, and the seconds of a prediction per sample.
    """
    trial = _Trial(problem, config)
    fewest = min(_FEWEST_SAMPLES, config.batch_size)
    cuts = trial.cuts(fewest)
    ladder = [(fewest, cut) for cut in cuts]
    while ladder[-1][0] < config.batch_size:
        ladder.append((min(2 * ladder[-1][0], config.batch_size), 1))
    rungs: list[Timed] = []
    started = time.perf_counter()
    for samples, cut in ladder:
        spent = time.perf_counter() - started + _straight_on(rungs, samples / cut**2) if len(rungs) > 1 else 0.0
        if len(rungs) == 1:  # two make a line, and are worth waiting for on a busy machine
            spent = rungs[0].seconds
        if spent > _PATIENCE:
            break
        rungs.append(trial.learn(samples, cut))
    evaluation = trial.predict(rungs[-1].samples, rungs[-1].cut)
    trial.close()
    return rungs, evaluation


def _straight_on(rungs: list[Timed], size: float) -> float:
    """Return the seconds of a mini-batch of ``size``, on the line through those that were timed."""
    return rungs[-1].seconds + (size - rungs[-1].size) * _slope(rungs)


def _slope(rungs: list[Timed]) -> float:
    """Return the seconds that every further sample takes."""
    if len(rungs) == 1:
        return rungs[0].seconds / rungs[0].size
    first, last = rungs[0], rungs[-1]
    return max(0.0, last.seconds - first.seconds) / (last.size - first.size)


class _Trial:
    """A trial that is about to begin, to be timed."""

    def __init__(self, problem: Problem, config: Config) -> None:
        self._trainer = Trainer(problem, config)
        data = problem.data("train")
        assert data is not None
        self._data: Data = data
        self._trainer.strategy.model.train()
        self.close = self._trainer.close

    def cuts(self, samples: int) -> list[int]:
        """Return into how many parts images may be cut, the most first; the first step, which loads much, is done."""
        whole = self._batch(samples, 1)
        possible = [cut for cut in _CUTS if cut == 1 or cut_out(whole, cut) is not None]
        while True:
            try:
                self._trainer.strategy.step(*self._batch(samples, possible[0]))
                return possible
            except Exception:  # a network may take images of one size alone
                if possible.pop(0) == 1:
                    raise

    def learn(self, samples: int, cut: int) -> Timed:
        """Time one mini-batch."""
        batch = self._batch(samples, cut)
        taken = self._seconds(lambda: self._trainer.strategy.step(*batch))
        return Timed(samples, cut, self._size(samples, batch), taken)

    def predict(self, samples: int, cut: int) -> float:
        """Return the seconds of a prediction, per whole sample."""
        batch = self._batch(samples, cut)
        with torch.no_grad():
            return self._seconds(lambda: self._trainer.strategy.predict(batch.inputs)) / self._size(samples, batch)

    def _batch(self, samples: int, cut: int) -> Batch:
        whole = self._trainer.place(self._data.batch(torch.arange(samples)))
        self._whole = _pixels(whole)
        return cut_out(whole, cut) or whole

    def _size(self, samples: int, batch: Batch) -> float:
        return samples * _pixels(batch) / self._whole

    def _seconds(self, action: Callable[[], object]) -> float:
        """Return the seconds of ``action``: of the processor where one thread does it all, whatever else runs there."""
        on_cuda = self._trainer.device.type == "cuda"
        alone = self._trainer.device.type == "cpu" and self._trainer.config.threads == 1
        clock = time.process_time if alone else time.perf_counter
        taken: list[float] = []
        while not taken or (len(taken) < _REPEATS and sum(taken) < _CHEAP):
            started = clock()
            action()
            if on_cuda:
                torch.cuda.synchronize(self._trainer.device)
            taken.append(clock() - started)
        return min(taken)


def cut_out(batch: Batch, cut: int) -> Batch | None:
    """Return the upper left part of all images, ``1 / cut`` of their sides; None unless every pixel has a target."""
    images = batch.inputs
    if not isinstance(images, Tensor) or images.ndim != 4 or batch.present is not None:
        return None
    shape = images.shape[-2:]
    if any(target.shape[-2:] != shape for target in tensors(dict(batch.targets))) or min(shape) < cut * _SIDE:
        return None
    height, width = (side // cut // _SIDE * _SIDE if cut > 1 else side for side in shape)

    def part(tensor: Tensor) -> Tensor:
        return tensor[..., :height, :width]

    return Batch(part(images), map_tensors(part, dict(batch.targets)))


def _pixels(batch: Batch) -> int:
    """Return how many pixels an image of ``batch`` has, or whatever its inputs are made of."""
    return max(1, next(tensors(batch.inputs))[0].numel())


def trial_seconds(problem: Problem, config: Config, pace: Pace) -> float:
    """Return how long a whole trial of ``config`` takes, evaluations included.

    A mini-batch takes as long as that of its strategy's pace, with what further samples take, times its passes.

    Args:
        problem: What is learned.
        config: The trial.
        pace: The pace of its strategy.
    """
    if config.max_seconds is not None:
        return config.max_seconds
    train, val = problem.data("train"), problem.data("val")
    if train is None or val is None:
        raise UserError(f"problem '{problem.name}' has no training or validation data.")
    tasks = len(problem.tasks)
    growth = _passes(config, tasks) / _passes(pace.config, tasks)
    mini_batch = growth * (pace.seconds + max(0.0, config.batch_size - pace.size) * pace.per_sample)
    per_epoch = config.steps_per_epoch(len(train))
    steps = config.mini_batches(per_epoch, tasks)
    evaluations = max(1.0, steps / per_epoch / config.evaluate_every)
    mini_batches = steps / per_epoch * max(1, len(train) // config.batch_size)
    return mini_batches * mini_batch + evaluations * len(val) * pace.evaluation


def how_measured(paces: Mapping[str, Pace]) -> str:
    """Return in a sentence what was timed, and what follows from it."""
    most = max((pace.timed for pace in paces.values() if pace.timed), key=lambda timed: timed.size)
    first = next(strategy for strategy, pace in paces.items() if pace.timed is most)
    said = [f"{first} was timed on mini-batches of up to {_said(most, paces[first].config)}"]
    others = [strategy for strategy, pace in paces.items() if pace.timed and strategy != first]
    if others:
        timed = paces[others[0]].timed
        assert timed is not None
        said.append(f"{', '.join(others)} on one of {_said(timed, paces[others[0]].config)}")
    reckoned = [strategy for strategy, pace in paces.items() if pace.timed is None]
    if reckoned:
        said.append(f"{', '.join(reckoned)} not at all: what {first} took, times their passes through the network")
    return f"Times are extrapolated from a few small mini-batches: {'; '.join(said)}. Take them as orders of magnitude."


def _said(timed: Timed, config: Config) -> str:
    part = "" if timed.cut == 1 else f" ({timed.size / timed.samples:.0%} of their pixels)"
    return f"{timed.samples} of {config.batch_size} samples{part}"


def _passes(config: Config, tasks: int) -> float:
    """Return how often a mini-batch goes forward and back through the trunk; back takes twice as long.

    With ``checkpoint_trunk`` each pass back goes forward once more.
    """
    info = config.costs
    groups = len(config.groups) if isinstance(config.groups, list) else config.groups or tasks
    back = 3 if config.checkpoint_trunk else 2
    return (count(info.forwards, tasks, groups) + back * count(info.backwards, tasks, groups)) / 3
