"""Groups by affinity find the families that were put into the data; they are the same on every resume."""

import json

import pytest
import torch
from torch import nn

from tests.toys import task_names, toy_problem
from tests.training.trainers import Stop, make_trainer, timeless
from tune_mtl import Batch, MultiTaskModel, Problem, Task, TensorData, UserError, train
from tune_mtl.core.seeds import global_state
from tune_mtl.strategies.grouping import make_groups
from tune_mtl.training.config import resolve

FAMILIES = [["t0", "t3", "t4", "t6"], ["t1", "t2", "t5", "t7"]]


def two_families(missing=False):
    """Eight tasks on a shared linear trunk: gradients of one family point one way, those of the other against it."""
    sign = {task: 1.0 if task in FAMILIES[0] else -1.0 for task in task_names(8)}

    def data(split):
        random = torch.Generator().manual_seed(len(split))
        inputs = torch.rand(64, 4, generator=random) + 0.5
        noise = {task: 0.3 * torch.randn(64, generator=random) for task in sign}
        targets = {task: 100 * sign[task] + noise[task] for task in sign}
        present = {task: torch.rand(64, generator=random) < 0.6 for task in sign} if missing else None
        return TensorData(inputs, targets, present)

    def loss(prediction, target):
        return (prediction - target).square().mean()

    def model():
        heads = {task: Summed() for task in sign}
        return MultiTaskModel(nn.Linear(4, 1, bias=False), heads)

    defaults = {"epochs": 2, "batch_size": 8, "threads": 1}
    return Problem("families", [Task(task, loss) for task in sign], model, data, defaults=defaults)


class Summed(nn.Module):
    """A head that gives the trunk's one output, with a scale that is trained."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, features):
        return self.scale * features.squeeze(1)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("strategy", ["io", "ius", "adatask"])
def test_groups_by_affinity_are_the_families(strategy, missing):
    for seed in range(3):
        trainer = make_trainer(
            two_families(missing), strategy=strategy, lr=1e-4, groups=2, groups_by="affinity", seed=seed
        )
        assert trainer.strategy.groups == FAMILIES
        assert 0 < trainer.summary()["groups/seconds"] <= trainer.seconds


def test_groups_by_conflict_mix_the_families():
    groups = make_trainer(two_families(), lr=1e-4, groups=4, groups_by="conflict").strategy.groups
    assert [len(group) for group in groups] == [2, 2, 2, 2]
    assert all(len({task in FAMILIES[0] for task in group}) == 2 for group in groups)


@pytest.mark.parametrize("count", [1, 8])
def test_where_there_is_nothing_to_choose_nothing_is_measured(count):
    trainer = make_trainer(two_families(), lr=1e-4, groups=count, groups_by="affinity")
    assert trainer.strategy.groups == make_groups(task_names(8), count, 0)
    assert "groups/seconds" not in trainer.summary()


def test_random_is_what_it_is_without_a_word():
    given = {"lr": 0.01, "groups": 2, "seed": 3}
    said, silent = (
        train(toy_problem(), {"strategy": "io", "groups_by": "random", **given}),
        train(toy_problem(), {"strategy": "io", **given}),
    )
    assert timeless(said.history) == timeless(silent.history)
    assert "groups_by" not in silent.config


def test_measuring_leaves_training_as_explicit_groups_would_have_it():
    problem = toy_problem(4, conv=True)
    measured = train(problem, {"strategy": "io", "lr": 0.01, "groups": 2, "groups_by": "affinity"})
    torch.manual_seed(1)
    before = json.dumps(global_state()["torch"].tolist())
    trainer = make_trainer(problem, strategy="io", groups=2, groups_by="affinity")
    assert before != json.dumps(global_state()["torch"].tolist())  # a trial seeds it
    explicit = train(problem, {"strategy": "io", "lr": 0.01, "groups": trainer.strategy.groups})
    assert timeless(measured.history) == timeless(explicit.history)


def test_a_resumed_trial_keeps_the_groups_that_began(tmp_path, monkeypatch):
    config = {"strategy": "io", "lr": 1e-3, "groups": 2, "groups_by": "affinity", "epochs": 4}
    problem = toy_problem(5)
    whole = train(problem, config, out=tmp_path / "whole")

    def stop(record, _):
        if record["epoch"] == 2:
            raise Stop

    with pytest.raises(Stop):
        train(problem, config, out=tmp_path / "run", on_evaluation=stop)
    from tune_mtl.training import measured_groups

    def otherwise(tasks, affinity, groups, seed):  # another machine, which rounds otherwise
        return make_groups(tasks, [["t0"], ["t1", "t2", "t3", "t4"]], seed)

    monkeypatch.setattr(measured_groups, "alike_groups", otherwise)
    resumed = train(problem, config, out=tmp_path / "run", resume=True)
    assert timeless(resumed.history) == timeless(whole.history)
    monkeypatch.undo()
    told = resumed.metrics["groups/seconds"]
    assert 0 < told < 60


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"strategy": "sus", "groups_by": "affinity"}, "'sus', which has no groups: drop groups_by"),
        ({"strategy": "io", "groups": [["t0"], ["t1", "t2"]], "groups_by": "affinity"}, "lists them: drop one"),
        ({"strategy": "io", "groups_by": "luck"}, "groups_by"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(config, message):
    with pytest.raises(UserError, match=message):
        resolve(toy_problem(), {"lr": 0.1, **config})


def test_the_trial_still_sees_every_mini_batch(monkeypatch):
    seen = []
    problem = toy_problem()

    def to_device(batch: Batch, generator: torch.Generator) -> Batch:
        seen.append(batch.inputs.sum().item())
        return batch

    problem.to_device = to_device
    make_trainer(problem, groups=2, groups_by="affinity", epochs=1).run_period()
    measured, rest = seen[:7], seen[7:]  # 60 samples are 7 mini-batches of 8
    assert rest[:7] == measured
