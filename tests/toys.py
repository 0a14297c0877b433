"""Small multi-task problems that tests share."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tune_mtl import Batch, MultiTaskModel, Objective, Problem, Task, TensorData
from tune_mtl.core.options import ShareOfRun
from tune_mtl.strategies.registry import strategy_info

FEATURES, HIDDEN, OUTPUTS = 5, 7, 2


def task_names(count: int) -> list[str]:
    return [f"t{index}" for index in range(count)]


def make_tasks(count: int, *, scale: float = 1.0) -> list[Task]:
    """Regressions whose losses differ in scale by ``scale`` from one task to the next."""

    def loss_of(factor: float):
        return lambda prediction, target: factor * F.mse_loss(prediction, target)

    return [Task(name, loss_of(scale**index)) for index, name in enumerate(task_names(count))]


def make_model(count: int, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> MultiTaskModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        trunk = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh())
        model = MultiTaskModel(trunk, {name: nn.Linear(HIDDEN, OUTPUTS) for name in task_names(count)})
    return model.to(dtype)


def make_conv_model(count: int, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> MultiTaskModel:
    """As `make_model`, with a convolution and its BatchNorm in the trunk: every strategy can train it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        trunk = nn.Sequential(
            nn.Linear(FEATURES, 24),
            nn.Unflatten(1, (2, 4, 3)),
            nn.Conv2d(2, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(6 * 12, HIDDEN),
            nn.Tanh(),
        )
        model = MultiTaskModel(trunk, {name: nn.Linear(HIDDEN, OUTPUTS) for name in task_names(count)})
    return model.to(dtype)


def run_options(name: str, mini_batches: int) -> dict[str, int]:
    """The options of a strategy that depend on the length of a run, as a trial would fill them in."""
    marks = strategy_info(name).options.marked(ShareOfRun)
    return {f"{name}_{option}": max(1, round(mark.share * mini_batches)) for option, mark in marks.items()}


def make_batch(
    count: int, *, seed: int, rows: int = 6, dtype: torch.dtype = torch.float64, missing: float | None = None
) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, FEATURES, generator=generator, dtype=dtype)
    targets = {name: torch.randn(rows, OUTPUTS, generator=generator, dtype=dtype) for name in task_names(count)}
    present = None
    if missing is not None:
        present = {name: torch.rand(rows, generator=generator) >= missing for name in task_names(count)}
    return Batch(inputs, targets, present)


def weights(model: nn.Module) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


def equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Bit for bit."""
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def toy_problem(count: int = 3, *, samples: int = 60, dropout: bool = True, conv: bool = False, **parts) -> Problem:
    """A problem with dropout (global randomness) whose data take no time to make; judged by the mean of its losses."""

    def model(width: int = HIDDEN) -> MultiTaskModel:
        layers = [nn.Linear(FEATURES, width), nn.Tanh(), nn.Dropout(0.2 if dropout else 0.0)]
        if conv:
            layers += [nn.Unflatten(1, (1, -1)), nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.Flatten()]
            layers += [nn.Linear(4 * width, width)]
        return MultiTaskModel(nn.Sequential(*layers), {name: nn.Linear(width, OUTPUTS) for name in task_names(count)})

    def data(split: str) -> TensorData:
        seed = ("train", "val", "test").index(split)
        batch = make_batch(count, seed=seed, rows=samples, dtype=torch.float32)
        return TensorData(batch.inputs, batch.targets)

    defaults = {"epochs": 4, "batch_size": 8, "eval_batch_size": 16, "threads": 1}
    return Problem("toy", make_tasks(count), model, data, **{"defaults": defaults, "objective": Objective(), **parts})
