"""`quadratics`: strongly convex tasks of which everything is known in closed form, for the convergence theorem."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tune_mtl.core.data import TensorData
from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.task import Task

_SAMPLES = 500
_DISTANCE = 5.0


class Point(nn.Module):
    """A trunk that is nothing but a point w, repeated for every row of its input; it starts at the origin."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(dimension, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the point for each of B rows, ``[B, dimension]``."""
        return self.w.expand(len(inputs), -1)


class Quadratics(Problem):
    """N tasks ``F_k(w) = 1/2 (w - a_k)' H_k (w - a_k)``, seen through noisy gradients ``H_k (w - a_k) + xi_k``.

    The eigenvalues of every ``H_k`` reach from ``mu`` to ``L``; the noise of the training samples has mean zero exactly
    and the same second moment for all tasks. Validation is without noise: ``val/loss`` is the mean objective F(w).

    Args:
        tasks: N.
        dimension: The dimension of w.
        heterogeneity: The distance of the tasks' minima from their centre (root mean square); 0: they all agree.
        conditioning: L / mu, with mu = 1.
        noise: sigma, the root mean square norm of the gradient noise of one sample.
        seed: Draws the instance.
    """

    name = "quadratics"
    objective = Objective("val/loss", "min")
    analysed: ClassVar[tuple[str, ...]] = ("val/excess_risk", "val/bound")

    def __init__(
        self,
        tasks: int = 4,
        dimension: int = 10,
        heterogeneity: float = 1.0,
        conditioning: float = 10.0,
        noise: float = 1.0,
        seed: int = 0,
    ) -> None:
        for name, value in (("tasks", tasks), ("dimension", dimension), ("seed", seed)):
            if not isinstance(value, int | float) or not math.isfinite(value) or value != int(value) or value < 0:
                raise UserError(f"problem_{name}={value!r} must be a whole number, not negative.")
        tasks, dimension, seed = int(tasks), int(dimension), int(seed)
        if (
            not all(math.isfinite(value) for value in (heterogeneity, conditioning, noise))
            or tasks < 1
            or dimension < 2
            or heterogeneity < 0
            or conditioning < 1
            or noise < 0
        ):
            raise UserError(
                "quadratics needs tasks >= 1, dimension >= 2, conditioning >= 1, noise and heterogeneity >= 0."
            )
        self.mu, self.smoothness, self.sigma = 1.0, float(conditioning), float(noise)
        random = np.random.default_rng([seed, tasks, dimension])
        directions = random.standard_normal((tasks, dimension))
        directions -= directions.mean(axis=0)
        spread = np.sqrt((directions**2).sum(axis=1).mean())
        centre = random.standard_normal(dimension)
        centre *= _DISTANCE / np.linalg.norm(centre)
        self.minima = centre + (heterogeneity / spread if spread else 0.0) * directions
        self.hessians = np.stack([self._hessian(random, dimension) for _ in range(tasks)])
        self._noise = self._draw_noise(random, tasks, dimension)
        names = [f"q{index}" for index in range(tasks)]
        defaults = {
            "optimizer": "theorem",
            "theorem_mu": self.mu,
            "theorem_smoothness": self.smoothness,
            "epochs": 5,
            "batch_size": 1,
            "eval_batch_size": 1,
            "threads": 1,
        }
        super().__init__(tasks=[Task(name, self._loss(index)) for index, name in enumerate(names)], defaults=defaults)

    def _hessian(self, random: np.random.Generator, dimension: int) -> "np.ndarray[Any, np.dtype[np.float64]]":
        rotation, _ = np.linalg.qr(random.standard_normal((dimension, dimension)))
        return np.asarray((rotation * np.linspace(self.mu, self.smoothness, dimension)) @ rotation.T)

    def _draw_noise(
        self, random: np.random.Generator, tasks: int, dimension: int
    ) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """Return noise ``[tasks, samples, dimension]`` with mean zero and mean squared norm sigma^2, exactly."""
        drawn = random.uniform(-1.0, 1.0, (tasks, _SAMPLES, dimension))
        drawn -= drawn.mean(axis=1, keepdims=True)
        return np.asarray(drawn * self.sigma / np.sqrt((drawn**2).sum(axis=2).mean(axis=1))[:, None, None])

    def _loss(self, index: int) -> Any:
        known = torch.from_numpy(self.hessians[index]), torch.from_numpy(self.minima[index])

        def loss(point: Tensor, noise: Tensor) -> Tensor:
            hessian, minimum = (part.to(point, non_blocking=True) for part in known)
            away = point - minimum
            return (0.5 * ((away @ hessian) * away).sum(dim=-1) + (away * noise).sum(dim=-1)).mean()

        return loss

    def model(self) -> MultiTaskModel:  # type: ignore[override]
        """Return the point as a network, with heads that hand it on."""
        return MultiTaskModel(Point(self.minima.shape[1]), {task.name: nn.Identity() for task in self.tasks})

    def data(self, split: str) -> TensorData:
        """Return noise for training, or a single row without any for validation and test."""
        if split == "train":
            targets = {task.name: torch.from_numpy(self._noise[index]) for index, task in enumerate(self.tasks)}
            return TensorData(torch.zeros(_SAMPLES, 1, dtype=torch.float64), targets)
        quiet = torch.zeros(1, self.minima.shape[1], dtype=torch.float64)
        return TensorData(torch.zeros(1, 1, dtype=torch.float64), {task.name: quiet for task in self.tasks})

    def analyse(self, model: MultiTaskModel, updates: int, config: Mapping[str, Any]) -> Mapping[str, float]:
        """Return ``F(w) - F*``; beside it, where the theorem applies, its bound for as many single updates."""
        if not isinstance(model.trunk, Point):
            return {}
        values = {"val/excess_risk": self.risk(model.trunk.w.detach().cpu().numpy()) - self.least_risk}
        if self.theorem_applies(config):
            values["val/bound"] = self.bound(updates, config.get("theorem_gamma"))
        return values

    def theorem_applies(self, config: Mapping[str, Any]) -> bool:
        """Return whether a trial takes the theorem's steps: these tasks, one at a time, through one optimizer."""
        alone = config["strategy"] == "ius" and config.get("groups") == len(self.tasks)
        steps = config["optimizer"] == "theorem" and config["lr"] == 1.0 and config["schedule"] == "constant"
        exact = config.get("clip_norm") is None and config["precision"] == "fp32"
        mu, smoothness = config.get("theorem_mu"), config.get("theorem_smoothness")
        return alone and steps and exact and (mu, smoothness) == (self.mu, self.smoothness)

    def risk(self, point: "np.ndarray[Any, np.dtype[np.float64]]") -> float:
        """Return F(w), the mean of the tasks."""
        away = point - self.minima
        return float(0.5 * np.einsum("ki,kij,kj->k", away, self.hessians, away).mean())

    @cached_property
    def minimum(self) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The point w*, where F is least."""
        pull = np.einsum("kij,kj->i", self.hessians, self.minima)
        return np.asarray(np.linalg.solve(self.hessians.sum(axis=0), pull))

    @cached_property
    def least_risk(self) -> float:
        """The least risk F*; since every task's own minimum is 0, it is Gamma too."""
        return self.risk(self.minimum)

    @cached_property
    def squared_gradient(self) -> float:
        """The bound G^2 on the squared norm of every gradient on the way.

        Steps of at most 1 / L cannot leave the ball around w* whose radius is the start's distance, or that at which
        the pull of the most distant task and the largest noise balance the contraction.
        """
        pulls = np.linalg.norm(np.einsum("kij,kj->ki", self.hessians, self.minimum - self.minima), axis=1)
        largest = float(np.linalg.norm(self._noise, axis=2).max())
        radius = max(float(np.linalg.norm(self.minimum)), (float(pulls.max()) + largest) / self.mu)
        return (self.smoothness * radius + float(pulls.max()) + largest) ** 2

    def bound(self, updates: int, gamma: float | None = None) -> float:
        """Return the theorem's bound on ``E[F(w_T)] - F*``, where w_1 is the start and ``T - 1 = updates``."""
        count = len(self.tasks)
        gamma = 2.0 * self.smoothness / self.mu - 1.0 if gamma is None else gamma
        steady = count * self.sigma**2 / count**2 + 2.0 * self.smoothness * self.least_risk + self.squared_gradient
        start = float(self.minimum @ self.minimum)
        inside = 2.0 * steady / self.mu**2 + (gamma + 1.0) / 2.0 * start
        return self.smoothness / (gamma + updates + 1) * inside
