"""The convex case: closed forms, the theorem's step, and its bound."""

import copy
from collections import deque

import numpy as np
import pytest
import torch
from torch import nn

from tune_mtl import MultiTaskModel, Task, UserError, load_problem, make_strategy, train
from tune_mtl.problems.quadratics import Quadratics

INSTANCES = [{"heterogeneity": 0.0}, {"heterogeneity": 1.0, "tasks": 3}, {"heterogeneity": 4.0, "conditioning": 5.0}]
SEEDS, UPDATES = 20, 10_000
CHECKED = (1, 10, 100, 1_000, 10_000)


@pytest.fixture(params=INSTANCES, ids=["agreeing", "apart", "far apart"])
def problem(request) -> Quadratics:
    return load_problem("quadratics", {f"problem_{key}": value for key, value in request.param.items()})


def test_closed_forms(problem):
    for hessian in problem.hessians:
        eigenvalues = np.linalg.eigvalsh(hessian)
        assert eigenvalues[0] == pytest.approx(problem.mu)
        assert eigenvalues[-1] == pytest.approx(problem.smoothness)
    noise = problem.data("train").everything.targets
    for values in noise.values():
        assert values.mean(dim=0).abs().max() < 1e-12
        assert values.square().sum(dim=1).mean().item() == pytest.approx(problem.sigma**2)
    slope = np.einsum("kij,kj->i", problem.hessians, problem.minimum - problem.minima)
    assert np.abs(slope).max() < 1e-9
    for _ in range(20):
        away = problem.minimum + 0.1 * np.random.default_rng(0).standard_normal(len(problem.minimum))
        assert problem.risk(away) > problem.least_risk
    model = problem.model()
    losses = [
        task.loss(model.heads[task.name](model.trunk(torch.zeros(1, 1))), torch.zeros(1, 10)).item()
        for task in problem.tasks
    ]
    assert np.mean(losses) == pytest.approx(problem.risk(np.zeros(10)))


def test_heterogeneity_moves_the_minima_apart():
    gammas = [Quadratics(heterogeneity=value).least_risk for value in (0.0, 0.5, 1.0, 2.0)]
    assert gammas[0] == pytest.approx(0, abs=1e-12)
    assert gammas == sorted(gammas)
    assert gammas[3] == pytest.approx(4 * gammas[2])


def oracle(problem, noise, updates, scale=1.0):
    """IUS with the theorem's step in a few lines: noise ``[replicas, batches, tasks, dimension]``."""
    gamma = 2 * problem.smoothness / problem.mu - 1
    w = np.zeros((len(noise), problem.minima.shape[1]))
    for t in range(1, updates + 1):
        batch, task = divmod(t - 1, len(problem.minima))
        gradient = (w - problem.minima[task]) @ problem.hessians[task] + noise[:, batch, task]
        w = w - scale * 2 / (problem.mu * (gamma + t)) * gradient
        yield w


class Points(nn.Module):
    """Many independent points at once: under SGD each goes its own way."""

    def __init__(self, count: int, dimension: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(count, dimension, dtype=torch.float64))

    def forward(self, _):
        return self.w


def trajectories(problem, noise, updates, *, lr=1.0, strategy="ius"):
    """The same through the library; losses are summed over the points, whose gradients are then their own."""
    count, _, _, dimension = noise.shape
    points = Points(count, dimension)
    tasks = [Task(task.name, lambda p, t, loss=task.loss: count * loss(p, t)) for task in problem.tasks]
    model = MultiTaskModel(points, {task.name: nn.Identity() for task in tasks})
    made = make_strategy(
        strategy, model, tasks, lr=lr, optimizer="theorem", theorem_mu=problem.mu, theorem_smoothness=problem.smoothness
    )
    for batch in range(updates // len(tasks)):
        targets = {task.name: torch.from_numpy(noise[:, batch, index]) for index, task in enumerate(tasks)}
        made.step(torch.zeros(count, 1), targets)
        yield made.updates, points.w.detach().numpy().copy()


def draw_noise(problem, replicas, updates, seed):
    random = np.random.default_rng(seed)
    batches = updates // len(problem.tasks) + 1
    rows = random.integers(0, problem._noise.shape[1], (replicas, batches))
    return np.stack([problem._noise[task][rows] for task in range(len(problem.tasks))], axis=2)


def test_the_schedule_and_the_trajectory_equal_an_oracle(problem):
    noise = draw_noise(problem, 2, 600, seed=1)
    ours = dict(trajectories(problem, noise, 600))
    expected = dict(enumerate(oracle(problem, noise, 600), start=1))
    doubled = dict(enumerate(oracle(problem, noise, 600, scale=2.0), start=1))
    for updates, points in ours.items():
        np.testing.assert_allclose(points, expected[updates], rtol=1e-9, atol=1e-9)
    assert not np.allclose(ours[max(ours)], doubled[max(ours)], rtol=1e-3)


def last(points):
    return deque(points, maxlen=1)[0]


def test_mean_excess_risk_stays_under_the_bound(problem):
    def excess(points):
        return np.mean([problem.risk(point) - problem.least_risk for point in points])

    due = list(CHECKED)
    for updates, points in trajectories(problem, draw_noise(problem, SEEDS, UPDATES, seed=2), UPDATES):
        if due and updates >= due[0]:
            assert excess(points) <= problem.bound(updates)
            due.pop(0)
    assert due in ([], [UPDATES])
    reference = excess(last(oracle(problem, draw_noise(problem, SEEDS, UPDATES, seed=3), UPDATES)))
    assert excess(points) <= 10 * reference
    if problem.least_risk > 0.1:
        dropped = copy.copy(problem)
        dropped.minima, dropped.hessians = problem.minima[:-1], problem.hessians[:-1]
        incomplete = last(oracle(dropped, draw_noise(problem, SEEDS, UPDATES, seed=3), UPDATES // 2))
        assert excess(incomplete) > 10 * reference


def test_the_path_does_not_depend_on_who_made_an_optimizer_before():
    config = {"strategy": "ius", "epochs": 1}
    before = train("quadratics", config).metrics["path/best_total"]
    torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    assert train("quadratics", config).metrics["path/best_total"] == before


def test_the_bound_is_that_of_the_steps_taken_or_not_there():
    slow = train("quadratics", {"strategy": "ius", "epochs": 1, "theorem_gamma": 1e6})
    assert slow.metrics["best/val/excess_risk"] <= slow.metrics["best/val/bound"]
    clipped = {"strategy": "ius", "clip_norm": 1e-5}
    for other in ({"strategy": "sus"}, {"strategy": "ius", "lr": 0.5}, {"strategy": "ius", "groups": 2}, clipped):
        assert "best/val/bound" not in train("quadratics", {"epochs": 1, **other}).metrics
    chosen = train("quadratics", {"strategy": "ius", "epochs": 1, "metric": "val/excess_risk:min"})
    assert chosen.config["metric"] == "val/excess_risk:min"


def test_sus_needs_a_step_shorter_by_the_number_of_tasks():
    problem = Quadratics(noise=0.0)
    _, points = last(trajectories(problem, np.zeros((1, 3_000, 4, 10)), 12_000, lr=0.25, strategy="sus"))
    assert problem.risk(points[0]) - problem.least_risk < 1e-3


def test_a_trial_reports_the_excess_risk_beside_the_bound():
    result = train("quadratics", {"strategy": "ius", "epochs": 1})
    assert result.config["optimizer"] == "theorem"
    assert result.config["lr"] == 1.0
    record = result.history[-1]
    assert record["updates"] == 2000
    assert 0 <= record["val/excess_risk"] <= record["val/bound"]
    problem = Quadratics()
    assert record["val/excess_risk"] == pytest.approx(record["val/loss"] - problem.least_risk)
    assert record["val/bound"] == pytest.approx(problem.bound(2000))
    with pytest.raises(UserError, match="lr is missing"):
        train("quadratics", {"strategy": "ius", "optimizer": "adam"})
    other = train("quadratics", {"strategy": "sus", "optimizer": "adam", "lr": 0.1, "epochs": 1})
    assert "theorem_mu" not in other.config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem_heterogeneit": 1}, "problem_heterogeneit is no option"),
        ({"problem_tasks": 0}, "quadratics needs"),
        ({"problem_noise": float("nan")}, "quadratics needs"),
        ({"strategy": "jd_geometricmean"}, "cannot be used with these losses"),
        ({"theorem_gamma": 3.0}, "gamma=3.0 must be at least"),
        ({"theorem_mu": 20.0}, "must be at least mu"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UserError, match=message):
        train("quadratics", {"strategy": "ius", "epochs": 1, **options})
    with pytest.raises(UserError, match="is no option of"):
        load_problem("multidigits", {"problem_size": 3})
