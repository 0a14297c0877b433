"""Trials on the simulated device, and what their steps cost there."""

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tests.device import parts
from tests.device.simulated import counted, present
from tests.training.trainers import Stop, timeless
from tune_mtl import MultiTaskModel, Problem
from tune_mtl.strategies.admission import admit
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training import checkpoint
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Trainer
from tune_mtl.training.trial import build_model

LOOK = "_local_scalar_dense"
"""The wait with which a trainer ends an epoch: has every loss been a finite number?"""


@dataclass(frozen=True)
class Trial:
    """What a trial has said.

    Attributes:
        records: One for each period, without the clock.
        test: What the best weights score on the test split.
        model: The network with the best weights, on the CPU.
        waits: Of each mini-batch of the first epoch; the last one's end with the trainer's look.
    """

    records: list[dict[str, Any]]
    test: dict[str, Any]
    model: MultiTaskModel
    waits: list[list[str]]


def config(strategy: str, place: Any, **more: Any) -> dict[str, Any]:
    plain = {"optimizer": "tests.device.parts:plain_adam", "schedule": "cosine", "clip_norm": 1.0}
    return {"strategy": strategy, "lr": 0.01, "device": str(place), **plain, **more}


def trainer(strategy: str, place: Any, problem: Problem | None = None, **more: Any) -> Trainer:
    problem = problem or MET
    return Trainer(problem, resolve(problem, config(strategy, place, **more)))


def waits_of_an_epoch(trained: Trainer) -> list[list[str]]:
    """Train an epoch, and return the waits of each of its mini-batches."""
    waits: list[list[str]] = [[]]
    with counted() as found:

        def next_one() -> None:
            waits[-1] += found
            waits.append([])
            found.clear()

        trained._run_epoch(next_one)
    waits[-1] += found
    return waits


def told(trained: Trainer, waits: list[list[str]]) -> Trial:
    assert trained.best is not None
    *records, test = timeless([*trained.history, trained.test_best()])
    model = build_model(trained.problem, trained.config, trained.best.weights)
    return Trial([comparable(record) for record in records], comparable(test), model, waits)


def comparable(record: dict[str, float]) -> dict[str, Any]:
    """Return a record in which what is undefined equals itself."""
    return {name: "undefined" if math.isnan(value) else value for name, value in record.items()}


MET = parts.problem()
"""The problem of trials that are given no other."""


@cache
def on_the_cpu(strategy: str, problem: Problem, **more: Any) -> Trial:
    """Train here, without a break."""
    trained = trainer(strategy, "cpu", problem, **more)
    while not trained.finished:
        trained.run_period()
    return told(trained, [])


@cache
def on_the_device(strategy: str, problem: Problem, **more: Any) -> Trial:
    """Train there; in the middle of the second epoch another process would take over, from a checkpoint."""
    with present() as place, TemporaryDirectory() as folder:
        first = trainer(strategy, place, problem, **more)
        waits = waits_of_an_epoch(first)
        first._finish_period()

        def leave() -> None:
            checkpoint.save(Path(folder) / "checkpoint.pt", first.state_dict())
            raise Stop

        try:
            first.run_period(leave)
        except Stop:
            second = trainer(strategy, place, problem, **more)
            second.load_state_dict(checkpoint.load(Path(folder) / "checkpoint.pt"))
        while not second.finished:
            second.run_period()
        assert all(weight.device == place for weight in second.strategy.model.state_dict().values())
        return told(second, waits)


def check_numbers(strategy: str, problem: Problem = MET, **more: Any) -> None:
    """The law: a trial on the device, resumed in its second epoch, says what one on the CPU says."""
    there, here = on_the_device(strategy, problem, **more), on_the_cpu(strategy, problem, **more)
    assert len(there.records) == 2
    assert there.records == here.records
    assert there.test == here.test


def check_waits(strategy: str, problem: Problem = MET, **more: Any) -> None:
    """The law: every step waits as often as the strategy's record says, and nothing else in the loop waits."""
    *others, last = on_the_device(strategy, problem, **more).waits
    assert last[-1:] == [LOOK], "the trainer looks at the losses at the end of an epoch, and at nothing after it"
    found = [*others, last[:-1]]
    usual, rare = waits_in(strategy_info(admit(strategy)).waits)
    steps = sorted(len(waits) for waits in found)
    assert steps in ([usual] * len(steps), [usual] * (len(steps) - 1) + [rare]), found


def check_model(strategy: str) -> None:
    """The law: the best weights make a model on the CPU that predicts what it predicts after a trial there."""
    inputs, models = (
        parts.data("val").everything.inputs,
        (on_the_device(strategy, MET).model, on_the_cpu(strategy, MET).model),
    )
    there, here = (model(inputs) for model in models)
    assert there.keys() == here.keys()
    for task in here:
        torch.testing.assert_close(there[task], here[task], rtol=0, atol=0)


def waits_in(record: str) -> tuple[int, int]:
    """Return how often a record says that a step waits: usually, and in the steps that it names."""
    found = re.fullmatch(r"(\d)(, .+)?", record)
    assert found is not None, f"waits={record!r} must read '0', '1' or '1, at the end of ...'"
    return 0 if found[2] else int(found[1]), int(found[1])
