"""What is sound is never refused, however unusual; and to look at it changes nothing."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torchmetrics import MeanMetric, MetricCollection, R2Score

from tests.examination.faults import (
    NAMES,
    SAMPLES,
    Detached,
    OwnData,
    Rows,
    inputs,
    network,
    own,
    sound,
    targets,
    task_a,
)
from tests.exporting import problems as hard
from tests.faults.slow import problem as slow_problem
from tests.toys import FEATURES, equal, toy_problem
from tests.training.test_trainer import by_hand_problem
from tests.training.trainers import timeless
from tune_mtl import Batch, DatasetData, MultiTaskModel, Problem, Task, TensorData, check_problem, train


def labelled_late(split: str) -> TensorData:
    """A task with one label in all."""
    one = torch.arange(SAMPLES) == SAMPLES - 1
    return TensorData(inputs(split), targets(split), {"a": one})


def never_labelled(split: str) -> TensorData:
    return TensorData(inputs(split), targets(split), {"a": torch.zeros(SAMPLES, dtype=torch.bool)})


def nan_where_missing(split: str) -> TensorData:
    y = targets(split)
    y["a"][::2] = math.nan
    return TensorData(inputs(split), y, {"a": torch.arange(SAMPLES) % 2 == 1})


def nan_for_the_loss(split: str) -> TensorData:
    y = targets(split)
    y["a"][::3] = math.nan
    return TensorData(inputs(split), y)


def without_nan(prediction, target):
    known = torch.isfinite(target)
    return F.mse_loss(prediction[known], target[known])


class Filled(nn.Sequential):
    def forward(self, values):
        return super().forward(values.nan_to_num())


class Checkpointed(nn.Sequential):
    """Reentrant: the graph does not show which weights it leads to, a backward pass does."""

    def forward(self, values):
        return checkpoint(super().forward, values.requires_grad_(), use_reentrant=True)


class Dead(nn.Sequential):
    """Units that are all off: a gradient of zero everywhere."""

    def forward(self, values):
        return torch.relu(super().forward(values) - 1e6)


class PairTrunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, given):
        return {"deep": (self.layer(given["x"][0]), given["x"][1])}


class PairHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features):
        out = self.layer(features["deep"][0])
        return out, {"double": 2 * out}


def zero_heads() -> MultiTaskModel:
    model = network()
    for head in model.heads.values():
        nn.init.zeros_(head.weight)
    return model


def nested() -> Problem:
    def data(split: str) -> TensorData:
        y = targets(split)
        return TensorData({"x": (inputs(split), inputs(split))}, {"a": (y["a"], y["a"]), "b": {"one": y["b"]}})

    tasks = [
        Task("a", lambda p, t: F.mse_loss(p[0], t[0])),
        Task("b", lambda p, t: F.l1_loss(p[1]["double"], t["one"])),
    ]
    return sound(
        model=lambda: MultiTaskModel(PairTrunk(), {name: PairHead() for name in NAMES}), data=data, tasks=tasks
    )


def graph_like() -> Problem:
    """Inputs of which every sample has three rows."""

    class Data(OwnData):
        def __init__(self, split: str) -> None:
            super().__init__(split, lambda batch: batch._replace(inputs=batch.inputs.repeat_interleave(3, dim=0)))

    class Trunk(nn.Linear):
        def forward(self, values):
            return super().forward(values).unflatten(0, (-1, 3)).mean(1)

    return sound(data=Data, model=lambda: network(trunk=Trunk(5, 4)))


def flat_targets(split: str) -> TensorData:
    return TensorData(inputs(split), {name: values.squeeze(1) for name, values in targets(split).items()})


def nan_inputs(split: str) -> TensorData:
    x = inputs(split)
    x[3, 2] = math.nan
    return TensorData(x, targets(split))


def by_pairs(prediction, target):
    return ((prediction - prediction.T) - (target - target.T)).square().mean()


SOUND = {
    "as it is": sound(),
    "labels in the last batch": sound(data=labelled_late),
    "a task never labelled": sound(data=never_labelled),
    "nan where labels are missing": sound(data=nan_where_missing),
    "nan that the loss leaves out": sound(data=nan_for_the_loss, tasks=[Task(name, without_nan) for name in NAMES]),
    "nan that the network fills": sound(data=nan_inputs, model=lambda: network(trunk=Filled(nn.Linear(5, 4)))),
    "nested tuples and dicts": nested(),
    "batches as plain tuples": own(lambda batch: (batch.inputs, batch.targets)),
    "several rows a sample": graph_like(),
    "a Dataset": sound(data=lambda _: DatasetData(Rows())),
    "lazy modules": sound(model=lambda: network(trunk=nn.LazyLinear(4), a=nn.LazyLinear(1))),
    "heads that start at zero": sound(model=zero_heads),
    "dead units": sound(model=lambda: network(trunk=Dead(nn.Linear(5, 4)))),
    "a trunk in checkpoints": sound(model=lambda: network(trunk=Checkpointed(nn.Linear(5, 4)))),
    "a task of weight 0": task_a(weight=0.0),
    "a task that is only watched": sound(
        tasks=[Task("a", F.mse_loss, weight=0.0), Task("b", F.mse_loss)], model=lambda: network(a=Detached())
    ),
    "heads without weights": sound(model=lambda: network(a=nn.AvgPool1d(4), b=nn.AvgPool1d(4))),
    "a head that is frozen": sound(model=lambda: network(a=nn.Linear(4, 1).requires_grad_(False))),
    "a loss that shapes its target": sound(
        data=flat_targets, tasks=[Task(name, lambda p, t: F.mse_loss(p.squeeze(1), t)) for name in NAMES]
    ),
    "a loss over pairs": task_a(by_pairs),
    "a loss that broadcasts to the prediction": sound(
        model=lambda: network(a=nn.Linear(4, 3)),
        tasks=[Task(name, lambda p, t: (p - t).square().mean()) for name in NAMES],
    ),
    "a constant added": task_a(lambda p, t: F.mse_loss(p, t) + 1e9),
    "a negative loss": task_a(lambda p, t: -F.cosine_similarity(p, t, dim=0).mean()),
    "a loss in half precision": task_a(lambda p, t: F.mse_loss(p, t).bfloat16()),
    "a metric that needs several samples": task_a(metrics=lambda: MetricCollection({"r2": R2Score()})),
    "an undefined metric": task_a(metrics=lambda: MetricCollection({"no": MeanMetric(nan_strategy="ignore")})),
    "BatchNorm": sound(model=lambda: network(trunk=nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)))),
    "toy": toy_problem(),
    "toy with convolutions": toy_problem(conv=True),
    "forty tasks": toy_problem(40),
    "by hand": by_hand_problem(),
    "slow": slow_problem(),
    **{name: getattr(hard, name) for name in ("conv", "by_name", "by_place", "fixed", "untraceable")},
}
SOUND["a metric that needs several samples"].defaults = {"batch_size": 1, "eval_batch_size": 1, "epochs": 1}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_has_no_findings(name):
    assert check_problem(SOUND[name]) == []


@pytest.mark.parametrize("name", sorted(SOUND.keys() - {"a metric that needs several samples", "an undefined metric"}))
def test_what_is_sound_trains(name):
    given = {"strategy": "io", "lr": 1e-3, "epochs": 1, "metric": "val/loss", "batch_size": 5, "threads": 1}
    assert train(SOUND[name], given).outcome == "completed"


@pytest.mark.parametrize("name", ["multidigits", "glyphs", "quadratics"])
def test_built_in_problems_have_no_findings(name):
    assert check_problem(name) == []


@pytest.mark.parametrize("problem", [toy_problem(), toy_problem(conv=True), sound(data=lambda _: DatasetData(Rows()))])
def test_looking_changes_no_number(problem, monkeypatch):
    """With dropout, BatchNorm and global randomness: bit for bit."""
    given = {"strategy": "io", "lr": 0.01, "epochs": 2, "metric": "val/loss"}
    torch.manual_seed(3)
    with_look = train(problem, given)
    after = torch.rand(3)
    monkeypatch.setattr("tune_mtl.training.trial.require_ready", lambda *_: None)
    torch.manual_seed(3)
    without = train(problem, given)
    assert torch.equal(torch.rand(3), after)
    assert timeless(with_look.history) == timeless(without.history)
    assert timeless([with_look.metrics]) == timeless([without.metrics])
    assert equal(list(with_look.weights.values()), list(without.weights.values()))


def test_looking_leaves_random_states_alone():
    def random_data(_):
        return TensorData(torch.randn(8, FEATURES), {name: torch.randn(8, 2) for name in ("t0", "t1", "t2")})

    problem = toy_problem(to_device=lambda batch, _: Batch(batch.inputs + torch.rand(1), batch.targets))
    problem.data = random_data
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert check_problem(problem) == []
    assert torch.equal(torch.rand(3), expected)


def test_a_resumed_run_is_not_looked_at_again(tmp_path, monkeypatch):
    given = {"strategy": "io", "lr": 0.01, "epochs": 1}
    train(toy_problem(), given, out=tmp_path)
    monkeypatch.setattr("tune_mtl.training.trial.require_ready", lambda *_: pytest.fail("it has looked"))
    assert train(toy_problem(), given, out=tmp_path, resume=True).outcome == "completed"
