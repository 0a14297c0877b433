"""A user's one module with everything that can be brought: a problem, its metric, and each part of a trial."""

import math
import time
from typing import Annotated, Any

import optuna
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import MetricCollection
from torchmetrics.regression import MeanAbsoluteError

from tune_mtl import (
    Labelled,
    Losses,
    MultiTaskModel,
    Options,
    Problem,
    Strategy,
    StrategyInfo,
    Task,
    TensorData,
    Tunable,
)


class InverseLossOptions(Options):
    """A large ``power`` has tasks that are learnt well count more."""

    power: Annotated[float, Tunable(0.25, 2.0)] = 1.0


class InverseLoss(Strategy[InverseLossOptions]):
    """w <- w - lr * m(sum_k c_k g_k(w) / L_k(w)^power)."""

    info = StrategyInfo(
        title="Inverse loss",
        rule="one step on the sum of all losses, each divided by a power of itself",
        options=InverseLossOptions,
        differs_from_sus="it divides a lone loss by itself too",
    )

    def learn(self, batch: Labelled) -> Losses:
        losses = self.losses(self.tasks, batch)
        scaled = {task: loss / loss.detach() ** self.options.power for task, loss in losses.items()}
        self.descend(self.optimizers[0], self.total(scaled))
        return self.detached(losses)


class SignDescent(torch.optim.Optimizer):
    """w <- w - lr * sign(m), m an average of gradients."""

    def __init__(self, params: Any, lr: float = 1e-3, beta: Annotated[float, Tunable(0.0, 0.99)] = 0.9) -> None:
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002 - as torch calls it
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    average = self.state[weight].setdefault("average", torch.zeros_like(weight))
                    average.lerp_(weight.grad, 1 - group["beta"])
                    weight.sub_(group["lr"] * average.sign())


def warm(steps: int = 5) -> Any:
    """The rate grows for ``steps`` mini-batches, then falls with the root of their number."""
    return lambda mini_batch: min((mini_batch + 1) / steps, math.sqrt(steps / (mini_batch + 1)))


def make_sampler(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)


def problem(pace: float = 0.0) -> Problem:
    """Three regressions; an epoch takes ``pace`` seconds more than it needs, and gives the same numbers at any pace."""

    def slowly(batch: Any, _: torch.Generator) -> Any:
        time.sleep(pace / 8)
        return batch

    def model(width: int = 16) -> MultiTaskModel:
        return MultiTaskModel(
            nn.Sequential(nn.Linear(5, width), nn.Tanh()), {f"t{index}": nn.Linear(width, 2) for index in range(3)}
        )

    def data(split: str) -> TensorData:
        generator = torch.Generator().manual_seed(("train", "val", "test").index(split))
        inputs = torch.randn(56, 5, generator=generator)
        return TensorData(inputs, {f"t{index}": torch.sin(inputs[:, index : index + 2] * 2) for index in range(3)})

    def metrics() -> MetricCollection:
        return MetricCollection({"absolute": MeanAbsoluteError()})

    def squared(prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    tasks = [Task(f"t{index}", squared, metrics=metrics) for index in range(3)]
    defaults = {"epochs": 4, "batch_size": 8, "eval_batch_size": 56, "threads": 1}
    return Problem("mine", tasks, model, data, defaults=defaults, to_device=slowly)
