"""What strategies are tried on: small images with four tasks for the laws, a network of its device's size for speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tune_mtl.core.data import Batch, TensorData
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator, isolated, seed_everything
from tune_mtl.core.task import Task
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.problems.multidigits import MultiDigits
from tune_mtl.training.config import Config, resolve

SAMPLES, BATCH = 60, 20


class FewDigits(MultiDigits):
    """A few of its images, in which some labels are missing."""

    objective = Objective("val/loss")

    def data(self, split: str) -> TensorData:
        """Return the first images of a split."""
        few = super().data(split).batch(torch.arange(SAMPLES))
        missing = torch.rand(SAMPLES, generator=generator(0, "missing", split)) < 0.3
        return TensorData(few.inputs, few.targets, {"right": ~missing})


def config(problem: Problem, strategy: str, device: str, **more: Any) -> Config:
    """Return the config of a trial of two epochs with three mini-batches each.

    Its optimizer is plain SGD, whose steps are as exact as gradients are: Adam's first ones are signs, and rounding
    decides about those of tiny gradients.
    """
    small = {"batch_size": BATCH, "eval_batch_size": 30, "epochs": 2, "threads": 1, "model_channels": 8}
    rule = {"strategy": strategy, "lr": 0.02, "optimizer": "sgd", "clip_norm": 1.0, "schedule": "cosine"}
    return resolve(problem, {**small, **rule, "device": device, **more})


@dataclass(frozen=True)
class Workload:
    """A network, its tasks and a mini-batch, on their device.

    Attributes:
        title: What it is, for people.
    """

    title: str
    model: MultiTaskModel
    tasks: Sequence[Task]
    batch: Batch


def workload(device: torch.device) -> Workload:
    """Return the paper's network for CelebA on a GPU; elsewhere, where that would take minutes, that of multidigits."""
    with isolated():
        seed_everything(0, "workload")
        if device.type == "cuda":
            names = [f"attribute-{index}" for index in range(40)]
            tasks = [Task(name, F.binary_cross_entropy_with_logits) for name in names]
            targets = {name: (torch.rand(64) > 0.5).float() for name in names}
            title, model, batch = (
                "CelebA net, 40 tasks, batch 64 of 64x64",
                celeba_net(names),
                torch.rand(64, 3, 64, 64),
            )
            return Workload(title, model.to(device), tasks, Batch(batch, targets).to(device))
        problem = MultiDigits()
        few = problem.data("train").batch(torch.arange(100))
        title = "multidigits net, 4 tasks, batch 100"
        return Workload(title, problem.model().to(device), problem.tasks, few.to(device))
