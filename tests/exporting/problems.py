"""Problems whose networks are hard to export: several inputs, and a batch size that is written down."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.toys import toy_problem
from tune_mtl import MultiTaskModel, Objective, Problem, Task, TensorData

conv = toy_problem(conv=True)


class _Joined(nn.Module):
    """Takes two inputs, as a dict or as a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, inputs):
        parts = (inputs["first"], inputs["second"]) if isinstance(inputs, dict) else inputs
        return torch.tanh(self.layer(torch.cat(parts, dim=1)))


class _Fixed(nn.Module):
    """Goes another way for every batch size, so that no graph holds for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, inputs):
        out = self.layer(inputs)
        for _ in range(len(inputs)):
            out = out * 1.5
        return out


class _Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, inputs):
        return self.layer(inputs) if inputs.sum().item() > -1e9 else inputs


def _problem(name, trunk, inputs) -> Problem:
    def data(split: str) -> TensorData:
        noise = torch.Generator().manual_seed(("train", "val", "test").index(split))
        x = torch.randn(24, 5, generator=noise)
        return TensorData(inputs(x), {"sum": x.sum(1, keepdim=True), "first": x[:, :1]})

    def model() -> MultiTaskModel:
        return MultiTaskModel(trunk(), {task: nn.Linear(4, 1) for task in ("sum", "first")})

    tasks = [Task(task, F.mse_loss) for task in ("sum", "first")]
    defaults = {"epochs": 1, "batch_size": 8, "threads": 1}
    return Problem(name, tasks, model, data, defaults=defaults, objective=Objective())


by_name = _problem("by_name", _Joined, lambda x: {"first": x[:, :2], "second": x[:, 2:]})
by_place = _problem("by_place", _Joined, lambda x: (x[:, :2], x[:, 2:]))
fixed = _problem("fixed", _Fixed, lambda x: x)
untraceable = _problem("untraceable", _Untraceable, lambda x: x)
