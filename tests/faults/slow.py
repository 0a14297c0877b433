"""A user's own module: a problem that takes its time, so that something can happen to its trials."""

import time

import torch
import torch.nn.functional as F
from torch import nn

from tune_mtl import MultiTaskModel, Objective, Problem, Task, TensorData

SAMPLES, BATCH, EVAL_BATCH = 56, 8, 14
BATCHES_PER_EPOCH = SAMPLES // BATCH + SAMPLES // EVAL_BATCH


def problem(pace: float = 0.0) -> Problem:
    """Three regressions; an epoch takes ``pace`` seconds more than it needs, and gives the same numbers at any pace."""

    def slowly(batch, _):
        time.sleep(pace / BATCHES_PER_EPOCH)
        return batch

    def model() -> MultiTaskModel:
        trunk = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Dropout(0.2))
        return MultiTaskModel(trunk, {f"t{index}": nn.Linear(16, 2) for index in range(3)})

    def data(split: str) -> TensorData:
        generator = torch.Generator().manual_seed(("train", "val", "test").index(split))
        inputs = torch.randn(SAMPLES, 5, generator=generator)
        return TensorData(inputs, {f"t{index}": torch.sin(inputs[:, index : index + 2] * 2) for index in range(3)})

    tasks = [Task(f"t{index}", F.mse_loss) for index in range(3)]
    defaults = {"epochs": 6, "batch_size": BATCH, "eval_batch_size": EVAL_BATCH, "threads": 1}
    return Problem("slow", tasks, model, data, defaults=defaults, objective=Objective(), to_device=slowly)
