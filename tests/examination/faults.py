"""A small sound problem, and the ways in which each planted fault spoils it."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MeanSquaredError, MetricCollection

from tune_mtl import Batch, MultiTaskModel, Problem, Task, TensorData

SAMPLES = 24
NAMES = ("a", "b")
OWN = nn.Parameter(torch.ones(1))


def inputs(split: str) -> torch.Tensor:
    return torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(len(split)))


def targets(split: str) -> dict[str, torch.Tensor]:
    x = inputs(split)
    return {"a": x.sum(1, keepdim=True), "b": x[:, :1] ** 2}


def tensor_data(split: str) -> TensorData:
    return TensorData(inputs(split), targets(split))


def network(trunk: nn.Module | None = None, **heads: nn.Module) -> MultiTaskModel:
    made = {name: nn.Linear(4, 1) for name in NAMES}
    return MultiTaskModel(trunk or nn.Sequential(nn.Linear(5, 4), nn.Tanh()), {**made, **heads})


def sound(**parts) -> Problem:
    """The problem with some of its parts replaced."""
    given = {"name": "planted", "tasks": [Task(name, F.mse_loss) for name in NAMES], "model": network}
    defaults = {"epochs": 1, "batch_size": 8, "threads": 1}
    return Problem(**{**given, "data": tensor_data, "defaults": defaults, **parts})


def task_a(loss=F.mse_loss, metrics=None, **more) -> Problem:
    return sound(tasks=[Task("a", loss, metrics, **more), Task("b", F.mse_loss)])


def replaced(wrong, only: str | None = None) -> Problem:
    """Other data than the sound ones, in all splits or one."""
    return sound(data=lambda split: wrong(split) if only in (None, split) else tensor_data(split))


class OwnData:
    """Data whose batches are whatever ``spoil`` makes of a sound one."""

    def __init__(self, split: str, spoil) -> None:
        self.data, self.spoil = tensor_data(split), spoil

    def __len__(self) -> int:
        return SAMPLES

    def batch(self, indices):
        return self.spoil(self.data.batch(indices))


def own(spoil, only: str | None = None) -> Problem:
    return replaced(lambda split: OwnData(split, spoil), only)


class Detached(nn.Module):
    """A head without a way back to the trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features):
        return self.layer(features.detach())


class Unused(nn.Module):
    """A head whose weights have no part in what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, features):
        return features[:, :1]


class WithoutGradient(nn.Sequential):
    def forward(self, features):
        with torch.no_grad():
            return super().forward(features)


class Rows(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return inputs("train")[index], {name: values[index] for name, values in targets("train").items()}


class FailsToUpdate(MeanMetric):
    def update(self, *_):
        raise ValueError("no such class")


class FailsToCompute(MeanMetric):
    def update(self, prediction, _):
        super().update(prediction)

    def compute(self):
        raise ZeroDivisionError("nothing was seen")


def spoilt(value: float, *, where: str = "a", row: int = 17, present=None) -> Problem:
    """One number of one sample is not finite."""

    def data(split: str) -> TensorData:
        x, y = inputs(split), targets(split)
        (x if where == "inputs" else y[where])[row, 0] = value
        return TensorData(x, y, present)

    return sound(data=data)


def frozen(*, trunk: bool = True, heads: bool = False) -> Problem:
    def model() -> MultiTaskModel:
        made = network()
        made.trunk.requires_grad_(not trunk)
        made.heads.requires_grad_(not heads)
        return made

    return sound(model=model)


def flat(split: str) -> TensorData:
    """Targets of a task without the predictions' last dimension."""
    return TensorData(inputs(split), {**targets(split), "a": targets(split)["a"].squeeze(1)})


def without_b(split: str) -> TensorData:
    return TensorData(inputs(split), {"a": targets(split)["a"]})


def raises(*_: object):
    raise KeyError("depth.npy")


def metrics(made) -> Problem:
    return task_a(metrics=lambda: MetricCollection({"mse": MeanSquaredError(), "own": made()}))


FAULTS = {
    "targets are missing": (replaced(without_b), "b", "the batches of 'train' hold no target"),
    "targets are missing in val": (replaced(without_b, "val"), "b", "the batches of 'val' hold no target"),
    "a target is nan": (spoilt(math.nan), "a", r"targets in 'train' are not finite .*\(sample 17\).* loss is nan"),
    "a target is infinite": (spoilt(math.inf), "a", "targets in 'train' are not finite"),
    "a target of val is nan": (
        replaced(lambda split: spoilt(math.nan).data(split), "val"),
        "a",
        r"targets in 'val' are not finite .*\(sample 17\)",
    ),
    "an input is nan": (spoilt(math.nan, where="inputs"), None, r"inputs of 'train' are not finite \(sample 17\)"),
    "nan in every batch": (
        own(lambda batch: batch._replace(inputs=batch.inputs * math.nan)),
        None,
        "inputs of 'train'",
    ),
    "shapes broadcast": (replaced(flat), "a", r"broadcasts prediction \(8, 1\) and target \(8,\) to \(8, 8\)"),
    "shapes broadcast in one's own loss": (
        sound(data=flat, tasks=[Task(name, lambda p, t: ((p - t) ** 2).mean()) for name in NAMES]),
        "a",
        r"broadcasts prediction \(8, 1\) and target \(8,\) to \(8, 8\)",
    ),
    "a loss per sample": (task_a(lambda p, t: (p - t).square().squeeze(1)), "a", r"returned shape \(8,\).*scalar"),
    "a loss that is a number": (task_a(lambda p, t: F.mse_loss(p, t).item()), "a", "returned a float.*scalar"),
    "a loss that is None": (task_a(lambda *_: None), "a", "returned None"),
    "a loss that raises": (task_a(lambda p, t: p @ t), "a", r"fails .*\(8, 1\).*RuntimeError"),
    "a loss that is nan": (task_a(lambda p, _: (p * 0 / 0).mean()), "a", "its loss is nan on a batch of 'train', with"),
    "a gradient that is nan": (task_a(lambda p, _: (0 * p).square().sum().sqrt()), "a", "its gradient is not finite"),
    "a detached loss": (task_a(lambda p, t: F.mse_loss(p.detach(), t)), "a", "no gradient, neither .* trunk nor"),
    "a loss of the targets": (task_a(lambda _, t: t.square().mean()), "a", "no gradient, neither"),
    "a loss through numpy": (task_a(lambda p, t: torch.tensor((p - t).detach().numpy().mean())), "a", "no gradient"),
    "a loss of its own weight": (
        task_a(lambda _, t: (OWN * t).mean()),
        "a",
        "no gradient, neither",
    ),
    "a head apart from the trunk": (sound(model=lambda: network(b=Detached())), "b", "no gradient at the trunk"),
    "a head that is not used": (sound(model=lambda: network(b=Unused())), "b", "no gradient at its head"),
    "a trunk that no task reaches": (
        sound(model=lambda: network(trunk=WithoutGradient(nn.Linear(5, 4)))),
        None,
        r"the trunk gets no gradient from any task.*requires_grad_\(False\)",
    ),
    "no weight at all trains": (frozen(heads=True), None, "no weight of the network trains"),
    "a task without a head": (
        sound(model=lambda: MultiTaskModel(nn.Linear(5, 4), {"a": nn.Linear(4, 1), "bb": nn.Linear(4, 1)})),
        "b",
        "it has no head: the model's heads are 'a', 'bb'. Add a head named 'b'",
    ),
    "the model raises": (sound(model=raises), None, r"model\(\) fails: KeyError: 'depth.npy'"),
    "the model is none": (sound(model=lambda: nn.Linear(5, 1)), None, r"returns a Linear. It must return a MultiTask"),
    "the trunk does not fit": (sound(model=lambda: network(trunk=nn.Linear(6, 4))), None, "the network fails.*shapes"),
    "a head does not fit": (sound(model=lambda: network(b=nn.Linear(3, 1))), "b", "its head fails.*shapes"),
    "data are a generator": (replaced(lambda split: (x for x in inputs(split))), None, "a generator, which is no Data"),
    "data are a list": (replaced(lambda split: list(inputs(split))), None, "a list, which is no Data.*DatasetData"),
    "data are a pair": (replaced(lambda split: (inputs(split), targets(split))), None, "a tuple.*TensorData"),
    "data are a Dataset": (replaced(lambda _: Rows()), None, "a Rows, which is no Data. Wrap it: DatasetData"),
    "data are a loader": (
        replaced(lambda _: DataLoader(Rows())),
        None,
        r"a DataLoader.*DatasetData\(loader.dataset",
    ),
    "val is a Dataset": (replaced(lambda _: Rows(), "val"), None, r"data\('val'\) returns a Rows"),
    "data raise": (replaced(raises), None, r"data\('train'\) fails: KeyError: 'depth.npy'"),
    "a batch is a dict": (own(lambda batch: batch._asdict()), None, r"batch\(\) of 'train' returns a dict, no Batch"),
    "targets are a tensor": (
        own(lambda batch: Batch(batch.inputs, batch.targets["a"])),
        None,
        "by task: {'a': ..., 'b'",
    ),
    "all samples at once": (
        own(lambda _: tensor_data("train").everything),
        None,
        "asked for 2 samples and returns 24",
    ),
    "fewer targets than inputs": (
        own(lambda batch: batch._replace(targets={**batch.targets, "a": batch.targets["a"][:-1]})),
        "a",
        "8 predictions and 7 targets",
    ),
    "a mask of a wrong length": (
        own(lambda batch: batch._replace(present={"a": torch.ones(3, dtype=torch.bool)})),
        None,
        r"present\['a'\] has shape \(3,\)",
    ),
    "reading raises": (own(raises, "val"), None, "reading 2 samples of 'val' fails: KeyError"),
    "to_device raises": (sound(to_device=raises), None, "to_device fails on a batch of 'train': KeyError"),
    "to_device returns nothing": (sound(to_device=lambda *_: None), None, "to_device returns a NoneType"),
    "BatchNorm and single samples": (
        sound(
            model=lambda: network(trunk=nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))), defaults={"batch_size": 1}
        ),
        None,
        "batch_size=1, but this network normalises over the samples of a batch",
    ),
    "there is no train": (replaced(lambda _: None, "train"), None, "has no 'train' data"),
    "there is no val": (replaced(lambda _: None, "val"), None, "has no 'val' data"),
    "val is empty": (replaced(lambda _: TensorData(torch.zeros(0, 5), {"a": torch.zeros(0)}), "val"), None, "no 'val'"),
    "metrics cannot be made": (task_a(metrics=raises), "a", "its metrics cannot be made: KeyError"),
    "a metric's update raises": (metrics(FailsToUpdate), "a", "metric 'own' fails on a batch of 'val': ValueError"),
    "a metric's compute raises": (metrics(FailsToCompute), "a", "metric 'own' cannot be computed on 'val': ZeroDiv"),
    "joint metrics raise": (sound(joint_metrics=lambda: {"all": FailsToUpdate()}), None, "metric 'all' fails"),
}
