"""What is said where memory runs out: what needs it, by arithmetic that a test can redo, and what would fit."""

import re

import pytest
import torch

from tests.toys import toy_problem
from tests.training.trainers import make_trainer
from tune_mtl import Task, UserError, train
from tune_mtl.training import memory
from tune_mtl.training.memory import estimate, explained, is_out_of_memory

REFUSED = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore")


def bytes_of(weights):
    return sum(weight.numel() * weight.element_size() for weight in weights)


@pytest.mark.parametrize(("strategy", "sets"), [("sus", 1), ("io", 3), ("adatask", 3)])
def test_states_are_counted_before_and_after_they_are_there(strategy, sets):
    trained = make_trainer(strategy=strategy)
    model = trained.strategy.model
    trunk, heads = bytes_of(model.trunk.parameters()), bytes_of(model.heads.parameters())
    before = estimate(trained).states
    assert before == 2 * (sets * trunk + heads)
    trained.run_period()
    after = estimate(trained).states
    assert before <= after <= before + 4 * len(list(model.parameters())) * sets  # a counter for each weight besides


@pytest.mark.parametrize(
    ("strategy", "rows"), [("sus", 0), ("pcgrad", 3), ("modo", 6), ("moco", 3), ("adatask", 3), ("mgda_ub", 0)]
)
def test_gradients_side_by_side_are_counted_as_the_record_says(strategy, rows):
    trained = make_trainer(strategy=strategy)
    assert estimate(trained).rows == rows * bytes_of(trained.strategy.model.trunk.parameters())


def test_what_passes_keep_grows_with_the_network_and_shrinks_when_computed_again():
    problem = toy_problem(conv=True)
    narrow, wide = (estimate(make_trainer(problem, strategy="sus", model_width=width)).sample for width in (8, 80))
    assert narrow is not None
    assert wide is not None
    assert 5 * narrow < wide < 10 * narrow  # inputs and outputs stay as they are
    again = estimate(make_trainer(problem, strategy="sus", model_width=80, checkpoint_trunk=True)).sample
    assert again is not None
    assert again < wide


def test_an_estimate_changes_nothing():
    def epoch(looks):
        trained = make_trainer(toy_problem(conv=True), strategy="io")
        if looks:
            estimate(trained)
        return {name: value for name, value in trained.run_period().items() if name != "seconds"}

    assert epoch(True) == epoch(False)


def said(monkeypatch, available, **config):
    """Return the line for a device of so many bytes, and the trial's needs."""
    monkeypatch.setattr(memory, "capacity", lambda _: available)
    trained = make_trainer(**config)
    return explained(trained, REFUSED), estimate(trained)


def test_a_smaller_batch_that_fits_is_named(monkeypatch):
    needs = estimate(make_trainer(strategy="sus", batch_size=48))
    room = (needs.fixed + 17 * needs.sample) / memory._USABLE
    line, _ = said(monkeypatch, room, strategy="sus", batch_size=48)
    assert "with batch_size=48:" in line
    assert "About batch_size=16 would fit; with accumulate=3 its updates are as large as these." in line
    assert line.endswith("(CUDA out of memory. Tried to allocate 2.00 GiB.)")


def test_fewer_groups_are_named_where_their_states_are_too_much(monkeypatch):
    needs = estimate(make_trainer(toy_problem(8), strategy="io", batch_size=8, model_width=400))
    room = (needs.weights + needs.rows + needs.sample + 5.5 * needs.states / 8) / memory._USABLE
    line, _ = said(monkeypatch, room, problem=toy_problem(8), strategy="io", batch_size=8, model_width=400)
    assert "batch_size=8, 8 groups" in line
    assert "(8 sets, one per group)" in line
    assert "About groups=5 would fit." in line


def test_what_cannot_fit_and_what_should_have_are_said(monkeypatch):
    assert "too large already" in said(monkeypatch, 10, strategy="sus")[0]
    line, _ = said(monkeypatch, 2**40, strategy="sus", batch_size=8, accumulate=2)
    assert "Try batch_size=4 with accumulate=4, or checkpoint_trunk=true." in line


def test_errors_of_the_host_are_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(REFUSED)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))


def test_training_ends_with_the_line():
    calls = 0

    def greedy(prediction, target):
        nonlocal calls
        calls += prediction.requires_grad
        if calls > 30:
            torch.empty(2**50)
        return (prediction - target).square().mean()

    problem = toy_problem()
    problem.tasks = [Task(task.name, greedy) for task in problem.tasks]
    with pytest.raises(UserError, match=r"out of memory on cpu \(.* GiB\) with batch_size=8, 3 groups: ") as caught:
        train(problem, {"strategy": "io", "lr": 0.01})
    assert re.search(r"optimizer states \d+\.\d MiB \(3 sets, one per group\)", str(caught.value))
    assert "\n" not in str(caught.value)
