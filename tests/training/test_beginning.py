"""A longer run goes on where a shorter one has ended: bit for bit, or not at all."""

from copy import deepcopy

import pytest
import torch

from tests.toys import toy_problem
from tune_mtl import Batch, UserError
from tune_mtl.core.problem import Problem
from tune_mtl.training.beginning import continue_run, why_not
from tune_mtl.training.checkpoint import digest
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Trainer

LONGER = {"lr": 0.03, "epochs": 5, "max_updates": 33, "seed": 3}
"""An epoch of the toy problem has 7 mini-batches: it ends in the middle of its last one."""
SHORT = 2


def noisy(batch: Batch, generator: torch.Generator) -> Batch:
    """Augment what is evaluated too, so that a look at the test split would move the generator."""
    return Batch(
        batch.inputs + 0.1 * torch.randn(batch.inputs.shape, generator=generator), batch.targets, batch.present
    )


def trained(problem: Problem, given: dict, state: dict | None = None) -> tuple[Trainer, dict]:
    """A run to its end and its test, from the beginning or from a shorter run's state; and its own state."""
    trainer = Trainer(problem, resolve(problem, given, None))
    if state is not None:
        continue_run(trainer, state)
    while not trainer.finished:
        trainer.run_period()
    trainer.test_best()
    return trainer, deepcopy(trainer.state_dict())


def timeless(records: list[dict]) -> list[dict]:
    return [{name: value for name, value in record.items() if "seconds" not in name} for record in records]


def content(state: dict) -> str:
    """All that the rest of a run depends on, but for the time it took."""
    (record,), history = timeless([state["best"]["record"]]), timeless(state["history"])
    return digest({**state, "seconds": 0, "history": history, "best": {**state["best"], "record": record}})


@pytest.mark.parametrize(
    "given",
    [
        {"strategy": "sus"},
        {"strategy": "io", "groups": 2, "max_updates": 55},
        {"strategy": "gradnorm", "optimizer": "momentum"},
        {"strategy": "mr", "mr_updates_end": 4, "optimizer": "adamw", "max_updates": 100},
        {"strategy": "rlw", "schedule": "step", "step_every": 9},
        {"strategy": "ius", "schedule": "cosine", "cosine_steps": 20, "max_updates": 100},
        {"strategy": "sus", "evaluate_every": 2, "diagnose_every": 1},
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_a_run_that_took_over_a_shorter_one_is_the_same_as_one_that_did_not(given):
    problem = toy_problem(4, conv=given["strategy"] == "mr", to_device=noisy)
    longer = {**LONGER, **given}
    short, its_end = trained(problem, {**longer, "epochs": SHORT, "max_updates": None})
    whole, expected = trained(problem, longer)
    continued, found = trained(problem, longer, its_end)
    assert whole.updates > short.updates
    assert content(found) == content(expected)
    assert timeless([continued.summary() | continued.test_best()]) == timeless([whole.summary() | whole.test_best()])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"schedule": "cosine"}, "cosine_steps is a share of its length"),
        ({"strategy": "mr", "max_updates": 100}, "mr_updates_end is a share of its length"),
        ({"evaluate_every": 3}, "evaluate_every=3 does not look at it after 2 epochs"),
        ({"diagnose_every": 4}, "diagnose_every=4 does not look at it after 2 epochs"),
        ({"max_updates": 10}, "it ends sooner"),
        ({"max_updates": None, "max_seconds": 9.0}, "the clock ends it"),
        ({"epochs": 1, "max_updates": None}, "it has 1 epochs, not 2 or more"),
    ],
    ids=lambda given: None if isinstance(given, str) else "-".join(map(str, given)),
)
def test_what_would_differ_is_not_taken_over(given, reason):
    problem = toy_problem(4)
    longer = resolve(problem, {"strategy": "sus", **LONGER, **given}, None)
    assert why_not(problem, longer, SHORT, per_epoch=7) == reason


def test_a_cosine_over_the_run_is_really_another_run():
    problem, longer = toy_problem(4), {"strategy": "sus", **LONGER, "schedule": "cosine"}
    short, its_end = trained(problem, {**longer, "epochs": SHORT, "max_updates": None})
    assert short.history[-1]["val/loss"] != trained(problem, longer)[0].history[SHORT - 1]["val/loss"]
    with pytest.raises(UserError, match="cosine_steps is a share"):
        trained(problem, longer, its_end)


def test_another_config_or_problem_is_refused():
    problem, longer = toy_problem(4), {"strategy": "sus", **LONGER}
    _, short = trained(problem, {**longer, "epochs": SHORT, "max_updates": None})
    with pytest.raises(UserError, match=r"another config: lr=0.03 there, 0.04 now"):
        trained(problem, {**longer, "lr": 0.04}, short)
    with pytest.raises(UserError, match="it diverged"):
        trained(problem, longer, {**short, "diverged": "at once"})
    looks = toy_problem(4)
    looks.analyse = lambda _, updates, config: {"val/share": updates / config["epochs"]}
    with pytest.raises(UserError, match="analyses it by its config"):
        trained(looks, longer, short)
