"""Problems to measure searches on, beside the built-in ones: ``benchmarks.problems:tabular``."""

from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

from tune_mtl import MultiTaskModel, Objective, Problem, Task, TensorData
from tune_mtl.problems.multidigits import entropy

SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}
SPLIT_SEED = 2024
DIAGNOSIS, VARIATION = "diagnosis", "radius error"
CLASSES = 2


def tabular() -> Problem:
    """Twelve tasks on 569 real biopsies: scikit-learn's breast cancer data, no download.

    Inputs are ten features of a biopsy's cell nuclei, each as its mean over the nuclei. Tasks are the same features of
    the worst nuclei and the standard error of the radius (eleven regressions), and the diagnosis (2 classes).
    """
    return Problem(
        "tabular",
        _tasks(),
        small_mlp,
        _splits().__getitem__,
        defaults={"epochs": 15, "batch_size": 32, "eval_batch_size": 128, "threads": 1},
        objective=Objective("val/relative_loss", "min"),
    )


def small_mlp(width: int = 64) -> MultiTaskModel:
    """Two shared layers of ``width`` units, one linear head per task."""
    inputs = _splits()["train"].everything.inputs
    assert isinstance(inputs, Tensor)
    trunk = nn.Sequential(nn.Linear(inputs.shape[1], width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return MultiTaskModel(
        trunk, {task.name: nn.Linear(width, CLASSES if task.name == DIAGNOSIS else 1) for task in _tasks()}
    )


def squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The mean over samples; heads give columns ``[n, 1]``, targets are ``[n]``."""
    return F.mse_loss(prediction.squeeze(1), target)


@cache
def _tasks() -> tuple[Task, ...]:
    targets = _splits()["train"].everything.targets
    return tuple(
        Task(name, F.cross_entropy, reference_loss=entropy(values, CLASSES))
        if name == DIAGNOSIS
        else Task(name, squared_error, reference_loss=float(values.double().var(correction=0)))
        for name, values in targets.items()
        if isinstance(values, Tensor)
    )


@cache
def _splits() -> dict[str, TensorData]:
    """A fixed random partition; all but the diagnosis is standardised by the training samples."""
    table = load_breast_cancer()
    columns = dict(zip(table.feature_names, table.data.T, strict=True))
    columns[VARIATION] = np.log(columns[VARIATION])  # its distribution has a long tail
    order = np.random.default_rng(SPLIT_SEED).permutation(len(table.target))
    ends = np.cumsum([round(share * len(order)) for share in SHARES.values()])[:-1]
    rows = dict(zip(SHARES, np.split(order, ends), strict=True))

    def standardised(name: str, split: str) -> Tensor:
        train = columns[name][rows["train"]]
        return torch.from_numpy((columns[name][rows[split]] - train.mean()) / train.std()).float()

    features = [name for name in columns if name.startswith("mean ")]
    regressions = [*(name for name in columns if name.startswith("worst ")), VARIATION]
    return {
        split: TensorData(
            torch.stack([standardised(name, split) for name in features], dim=1),
            {name: standardised(name, split) for name in regressions}
            | {DIAGNOSIS: torch.from_numpy(table.target[rows[split]]).long()},
        )
        for split in SHARES
    }
