"""A mini-batch's labels are looked up once, and a step says how many there were."""

import copy
import pickle

import pytest
import torch

from tests.toys import make_batch, make_conv_model, make_model, make_tasks, run_options, toy_problem
from tune_mtl import TensorData, make_strategy
from tune_mtl.strategies import labels
from tune_mtl.strategies.registry import registry
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Trainer


@pytest.mark.parametrize("name", sorted(registry))
@pytest.mark.parametrize("missing", [None, 0.7])
def test_a_step_says_over_how_many_rows_each_loss_is_the_mean(name, missing):
    strategy = make_strategy(name, make_conv_model(4), make_tasks(4), lr=0.01, **run_options(name, 5))
    batch = make_batch(4, seed=3, missing=missing)
    present = batch.present or {task: torch.ones(6, dtype=torch.bool) for task in batch.targets}
    losses = strategy.step(*batch)
    assert losses.counts == {task: int(mask.sum()) for task, mask in present.items() if mask.any()}
    assert losses.keys() == losses.counts.keys()


def test_losses_are_a_dict_that_can_be_copied_and_pickled():
    losses = make_strategy("sus", make_model(2), make_tasks(2), lr=0.1).step(*make_batch(2, seed=0))
    for other in (copy.deepcopy(losses), pickle.loads(pickle.dumps(losses))):
        assert (other, other.counts) == (losses, {"t0": 6, "t1": 6})
    assert dict(losses) == losses


def test_inputs_that_are_no_rows_count_as_one():
    class Point(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(5))

        def forward(self, _):
            return self.weight

    model = make_model(1)
    model.trunk, model.heads["t0"] = Point(), torch.nn.Identity()
    strategy = make_strategy("sus", model, make_tasks(1), lr=0.1)
    for inputs in (torch.tensor(0.0), None):
        assert strategy.step(inputs, {"t0": torch.zeros(5)}).counts == {"t0": 1}


def test_training_looks_labels_up_once_per_mini_batch(monkeypatch):
    looked, own = [], labels.labelled_rows
    monkeypatch.setattr(labels, "labelled_rows", lambda *given: looked.append(own(*given)) or looked[-1])
    batch = make_batch(3, seed=0, rows=24, dtype=torch.float32, missing=0.5)
    problem = toy_problem(3)
    problem.data = lambda _: TensorData(*batch)
    trainer = Trainer(problem, resolve(problem, {"strategy": "io", "lr": 0.01, "epochs": 1}))
    record = trainer.run_period()
    training, evaluating = 24 // 8, 2  # mini-batches of 8 and of 16
    assert len(looked) == training + evaluating
    assert record["train/loss"] > 0
