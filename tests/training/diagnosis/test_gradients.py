"""The Gramian of the tasks' gradients at the trunk, against gradients that are known or taken one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from
from torch import nn

from tests.toys import make_batch, make_conv_model, make_model, make_tasks, run_options
from tune_mtl import MultiTaskModel, Task, make_strategy
from tune_mtl.strategies.labels import Labelled
from tune_mtl.training.diagnosis.agreement import Agreement
from tune_mtl.training.diagnosis.gradients import trunk_gramian


def one_by_one(strategy, batch):
    """What the definition says: each task's gradient by itself, from its own pass, flattened, in float64."""
    weights = list(strategy.model.trunk.parameters())
    rows = []
    for task in batch.rows:
        (loss,) = strategy.losses([task], batch).values()
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        flat = [torch.zeros_like(w) if g is None else g for g, w in zip(found, weights, strict=True)]
        rows.append(torch.cat([gradient.flatten() for gradient in flat]).double())
    return torch.stack(rows) @ torch.stack(rows).T


class Linear(nn.Module):
    """A trunk of one weight vector that gives itself: the gradient of a loss a.w is a."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, dtype=torch.float64))

    def forward(self, inputs):
        return self.weight + 0 * inputs.sum()


def test_known_gradients_of_a_linear_trunk():
    gradients = torch.tensor([[1.0, 0, 0], [-2.0, 0, 0], [0, 3.0, 0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    tasks = [Task(f"t{i}", lambda prediction, _, g=g: prediction @ g) for i, g in enumerate(gradients)]
    model = MultiTaskModel(Linear(3), {task.name: nn.Identity() for task in tasks})
    strategy = make_strategy("sus", model, tasks, lr=0.1)
    batch = Labelled.of(strategy.tasks, torch.zeros(2, 1), dict.fromkeys(strategy.tasks, torch.zeros(2)))
    found = trunk_gramian(strategy, batch)
    assert torch.equal(found, gradients @ gradients.T)
    seen = Agreement.of(found, torch.ones(4).double())
    assert seen.conflict_share == 2 / 6
    assert seen.norm_spread == pytest.approx(3.0)


@settings(max_examples=15)
@given(
    name=sampled_from(["sus", "io", "mr", "pcgrad", "gradnorm"]),
    seed=integers(0, 2**20),
    held=integers(1, 5),
    missing=sampled_from([None, 0.5]),
)
def test_it_equals_one_pass_for_each_task_whatever_memory_allows(name, seed, held, missing):
    model = make_conv_model(4)
    strategy = make_strategy(name, model, make_tasks(4, scale=2.0), lr=0.1, seed=seed, **run_options(name, 9))
    batch = Labelled.of(strategy.tasks, *make_batch(4, seed=seed, missing=missing))
    strategy.predict(batch.inputs)  # masks have found their places
    size = 8 * sum(weight.numel() for weight in model.trunk.parameters())
    found = trunk_gramian(strategy, batch, most_bytes=held * size)
    at = [list(strategy.tasks).index(task) for task in batch.rows]
    assert torch.allclose(found[at][:, at], one_by_one(strategy, batch), rtol=1e-9, atol=1e-12)
    others = [index for index in range(4) if index not in at]
    assert found[others].isnan().all()
    assert all(weight.grad is None for weight in strategy.model.parameters())


def test_a_task_without_labels_has_no_pairs():
    strategy = make_strategy("io", make_model(3), make_tasks(3), lr=0.1)
    inputs, targets, _ = make_batch(3, seed=0)
    nobody = {"t1": torch.zeros(6, dtype=torch.bool)}
    seen = Agreement.of(
        trunk_gramian(strategy, Labelled.of(strategy.tasks, inputs, targets, nobody)), torch.ones(3).double()
    )
    assert seen.cosines.isfinite().nonzero().tolist() == [[0, 2], [2, 0]]
    assert seen.norms.isfinite().tolist() == [True, False, True]


def test_mr_sees_the_trunk_through_each_tasks_own_masks():
    model = make_conv_model(3)
    strategy = make_strategy("mr", model, make_tasks(3), lr=0.1, mr_sigma=0.5, mr_updates_end=10)
    batch = Labelled.of(strategy.tasks, *make_batch(3, seed=1))
    strategy.predict(batch.inputs)
    masked = trunk_gramian(strategy, batch)
    for mask in strategy.model.masks:
        mask.used.fill_(True)
    assert not torch.allclose(masked, trunk_gramian(strategy, batch))
