"""DB-MTL and MoCo: each equals an oracle of a few lines, and is what it must be where its options make it simple."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, sampled_from
from scipy.optimize import minimize

from tests.toys import equal, make_batch, make_conv_model, make_model, make_tasks, weights
from tune_mtl import make_strategy
from tune_mtl.strategies.simplex import onto_simplex
from tune_mtl.testing.device import waits

LR, STEPS, EPS = 0.02, 8, 1e-8
NAMES = ("db_mtl", "moco")
AT_ONCE = {"moco_beta": 1.0, "moco_beta_power": 0.0}
"""MoCo whose averages are the gradients of the mini-batch."""


def make(name, model, tasks, **options):
    return make_strategy(name, model, tasks, lr=LR, optimizer="sgd", seed=3, **options)


def train(name, count, *, scale=1.5, missing=None, model=None, steps=STEPS, **options):
    strategy = make(name, model or make_conv_model(count), make_tasks(count, scale=scale), **options)
    for step in range(steps):
        strategy.step(*make_batch(count, seed=step, missing=missing))
    return weights(strategy.model)


def assert_close(found, wanted, rtol=1e-6, atol=1e-9):
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol)


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


class DualBalancingOracle:
    def __init__(self, tasks, beta=0.9, power=0.0):
        self.beta, self.power, self.weight = beta, power, {task.name: task.weight for task in tasks}
        self.averages, self.seen = {}, dict.fromkeys(self.weight, 0)

    def objective(self, name, loss):
        return self.weight[name] * torch.log(loss + EPS)

    def direction(self, gradients, losses, _):
        found = {}
        for name, gradient in gradients.items():
            self.seen[name] += 1
            stays = self.beta / self.seen[name] ** self.power
            h = gradient / losses[name]
            self.averages[name] = (1 - stays) * h + stays * self.averages.get(name, torch.zeros_like(h))
            found[name] = self.averages[name]
        longest = max(average.norm() for average in found.values())
        return sum(self.weight[name] * longest / (average.norm() + EPS) * average for name, average in found.items())


class MoCoOracle:
    def __init__(self, tasks, beta=0.5, gamma=0.1, beta_power=0.5, gamma_power=0.5, rho=0.0, rescale=False):
        self.weight = {task.name: task.weight for task in tasks}
        self.options = beta, gamma, beta_power, gamma_power, rho, rescale
        self.averages, self.seen = {}, dict.fromkeys(self.weight, 0)
        self.shares = dict.fromkeys(self.weight, 1 / len(tasks))

    def objective(self, name, loss):
        return self.weight[name] * loss

    def direction(self, gradients, losses, step):
        beta, gamma, beta_power, gamma_power, rho, rescale = self.options
        for name, gradient in gradients.items():
            self.seen[name] += 1
            g = self.weight[name] * gradient
            if rescale:
                g = g / (g.norm() + EPS) * self.weight[name] * losses[name]
            before = self.averages.get(name, torch.zeros_like(g))
            self.averages[name] = before - beta / self.seen[name] ** beta_power * (before - g)
        names, y = list(gradients), torch.stack([self.averages[name] for name in gradients])
        together, a = own_shares(self.shares, names)
        slope = (y @ y.T).numpy() @ a + rho * a
        a = nearest_on_simplex(a - gamma / (step + 1) ** gamma_power * slope)
        self.shares |= {name: together * share for name, share in zip(names, a, strict=True)}
        return torch.from_numpy(a) @ y


ORACLES = {"db_mtl": DualBalancingOracle, "moco": MoCoOracle}


def nearest_on_simplex(point):
    """A quadratic program, solved as one; what is 0 but for the solver's tolerance is 0."""
    start = np.full(len(point), 1 / len(point))
    found = minimize(
        lambda a: np.sum((a - point) ** 2),
        start,
        jac=lambda a: 2 * (a - point),
        method="SLSQP",
        bounds=[(0, 1)] * len(point),
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-16, "maxiter": 500},
    )
    return np.where(found.x < 1e-10, 0.0, found.x)


def own_shares(shares, names):
    """What these tasks have of what they have together: equal parts where that is nothing."""
    together = sum(shares[name] for name in names)
    own = [shares[name] / together if together else 1 / len(names) for name in names]
    return together, np.array(own)


def oracle_step(oracle, model, tasks, batch, step):
    rows = batch.present or {task.name: torch.ones(len(batch.inputs), dtype=torch.bool) for task in tasks}
    predictions = model(batch.inputs)
    losses = {
        task.name: task.loss(predictions[task.name][rows[task.name]], batch.targets[task.name][rows[task.name]])
        for task in tasks
        if rows[task.name].any()
    }
    if not losses:
        return
    trunk = list(model.trunk.parameters())
    gradients = {name: flat(torch.autograd.grad(loss, trunk, retain_graph=True)) for name, loss in losses.items()}
    direction = oracle.direction(gradients, {name: loss.item() for name, loss in losses.items()}, step)
    with torch.no_grad():
        for name, loss in losses.items():
            head = list(model.heads[name].parameters())
            with torch.enable_grad():
                found = torch.autograd.grad(oracle.objective(name, loss), head, retain_graph=True)
            for weight, gradient in zip(head, found, strict=True):
                weight -= LR * gradient
        for weight, part in zip(trunk, direction.split([weight.numel() for weight in trunk]), strict=True):
            weight -= LR * part.view_as(weight)


@pytest.mark.parametrize("missing", [None, 0.8])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("db_mtl", {}),
        ("db_mtl", {"beta": 0.6, "power": 0.5}),
        ("moco", {"gamma": 3.0}),
        ("moco", {"beta": 0.3, "gamma": 1.0, "beta_power": 0.2, "gamma_power": 0.0, "rho": 0.7}),
        ("moco", {"gamma": 0.5, "rescale": True}),
    ],
)
def test_rule_equals_oracle(name, options, missing):
    tasks = [replace(task, weight=1.0 + 0.5 * index) for index, task in enumerate(make_tasks(4, scale=1.7))]
    model = make_model(4)
    reference = copy.deepcopy(model)
    strategy = make(name, model, tasks, **{f"{name}_{option}": value for option, value in options.items()})
    oracle = ORACLES[name](tasks, **options)
    for step in range(STEPS):
        batch = make_batch(4, seed=step, missing=missing)
        strategy.step(*batch)
        oracle_step(oracle, reference, tasks, batch, step)
    assert_close(weights(model), weights(reference), rtol=1e-5, atol=1e-7)


@settings(max_examples=60)
@given(seed=integers(0, 2**31), count=integers(1, 7), spread=floats(1e-3, 30))
def test_the_projection_solves_its_quadratic_program(seed, count, spread):
    point = spread * np.random.default_rng(seed).normal(size=count)
    found = onto_simplex(torch.from_numpy(point)).numpy()
    np.testing.assert_allclose(found, nearest_on_simplex(point), atol=1e-6 * max(1.0, spread))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-12)
    inside, best = point - found, (point - found)[found > 0]
    assert np.ptp(best) < 1e-9  # the conditions of an optimum: one level where a number is left, none above it
    assert inside.max() <= best.max() + 1e-9


def test_the_projection_of_numbers_of_any_size():
    def projected(*numbers):
        return onto_simplex(torch.tensor(numbers, dtype=torch.float64)).tolist()

    assert projected(-1e30) == projected(5.0) == [1.0]
    assert projected(-1e30, -1e30) == [0.5, 0.5]
    assert projected(1e30, 0.0, -torch.inf) == [1.0, 0.0, 0.0]
    assert projected(0.25, 0.75) == [0.25, 0.75]
    assert projected(1e12 + 0.25, 1e12) == [0.625, 0.375]
    for bad in (torch.nan, torch.inf):
        assert not np.isfinite(projected(1.0, bad, 0.0)).any()


def first_step(name, model, tasks, **options):
    """Minus what one step adds to the trunk, by learning rate."""
    before = weights(model.trunk)
    make(name, model, tasks, **options).step(*make_batch(len(tasks), seed=0))
    return flat([was - now for was, now in zip(before, weights(model.trunk), strict=True)]) / LR


@settings(max_examples=6)
@given(seed=integers(0, 1000), count=integers(1, 5), scale=floats(0.3, 3))
def test_dual_balancing_without_averages_is_the_sum_of_unit_vectors_times_the_longest_length(seed, count, scale):
    tasks, model = make_tasks(count, scale=scale), make_model(count, seed=seed)
    batch, logs = make_batch(count, seed=0), []
    for task in tasks:
        loss = task.loss(model(batch.inputs)[task.name], batch.targets[task.name])
        logs.append(flat(torch.autograd.grad(loss.log(), list(model.trunk.parameters()))))
    wanted = max(h.norm() for h in logs) * sum(h / h.norm() for h in logs)
    found = first_step("db_mtl", model, tasks, db_mtl_beta=0.0)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-8)
    if count == 1:
        torch.testing.assert_close(found, logs[0], rtol=1e-5, atol=1e-8)


def test_the_first_average_is_not_corrected_for_its_start_at_zero():
    first = [first_step("db_mtl", make_model(3), make_tasks(3), db_mtl_beta=beta) for beta in (0.0, 0.8)]
    torch.testing.assert_close(first[1], 0.2 * first[0], rtol=1e-5, atol=1e-9)


@settings(max_examples=4)
@given(factor=floats(0.01, 100))
def test_the_scale_of_a_loss_means_nothing_to_dual_balancing(factor):
    def scaled(by):
        tasks = make_tasks(3)
        tasks[1] = replace(tasks[1], loss=lambda p, t, loss=tasks[1].loss: by * loss(p, t))
        strategy = make("db_mtl", make_model(3), tasks)
        for step in range(STEPS):
            strategy.step(*make_batch(3, seed=step))
        return weights(strategy.model)

    assert_close(scaled(factor), scaled(1.0), rtol=1e-4, atol=1e-6)


def test_a_tasks_weight_counts_after_dual_balancing():
    """On the trunk its unit vector counts twice, and the others as before; its own head steps twice as far."""
    strategy = make("db_mtl", make_model(3), make_tasks(3, scale=1.5))
    for step in range(3):
        strategy.step(*make_batch(3, seed=step))
    model, state = copy.deepcopy(strategy.model.state_dict()), copy.deepcopy(strategy.state_dict())
    trunks, heads = {}, {}
    for weight in (1.0, 2.0, 3.0):
        strategy.model.load_state_dict(model)
        strategy.load_state_dict(state)
        strategy.weights["t1"] = weight
        before = [weights(strategy.model.trunk), *(weights(head) for head in strategy.model.heads.values())]
        strategy.step(*make_batch(3, seed=99))
        after = [weights(strategy.model.trunk), *(weights(head) for head in strategy.model.heads.values())]
        moved = [flat(now) - flat(was) for now, was in zip(after, before, strict=True)]
        trunks[weight], heads[weight] = moved[0], moved[1:]
    torch.testing.assert_close(trunks[3.0] - trunks[2.0], trunks[2.0] - trunks[1.0])
    assert (trunks[2.0] - trunks[1.0]).norm() > 1e-4
    for index, (once, twice) in enumerate(zip(heads[1.0], heads[2.0], strict=True)):
        torch.testing.assert_close(twice, 2 * once if index == 1 else once)


@settings(max_examples=4)
@given(count=integers(1, 4), missing=sampled_from([None, 0.7]))
def test_moco_that_neither_averages_nor_moves_its_shares_is_the_mean(count, missing):
    found = train("moco", count, missing=missing, moco_gamma=0.0, **AT_ONCE)
    assert_close(found, train("jd_mean", count, missing=missing))


@settings(max_examples=4)
@given(seed=integers(0, 1000), gamma=floats(0, 100), scale=floats(1e-3, 1e3))
def test_moco_of_a_lone_task_that_does_not_average_is_sus(seed, gamma, scale):
    def trained(name, **options):
        tasks = [replace(task, weight=scale) for task in make_tasks(1)]
        strategy = make(name, make_conv_model(1, seed=seed), tasks, **options)
        for step in range(STEPS):
            strategy.step(*make_batch(1, seed=step))
        return weights(strategy.model)

    assert equal(trained("moco", moco_gamma=gamma, **AT_ONCE), trained("sus"))


def test_mocos_shares_go_to_the_shortest_combination():
    """Of two gradients at the same point again and again: MGDA's closed form."""
    model, tasks, batch = make_model(2), make_tasks(2, scale=1.3), make_batch(2, seed=0)
    strategy = make_strategy("moco", model, tasks, lr=1e-12, optimizer="sgd", moco_gamma=0.3, moco_gamma_power=0.0)
    g, h = (
        flat(torch.autograd.grad(task.loss(model(batch.inputs)[task.name], batch.targets[task.name]), trunk))
        for trunk in [list(model.trunk.parameters())]
        for task in tasks
    )
    for _ in range(300):
        strategy.step(*batch)
    wanted = ((h - g) @ h / ((h - g) @ (h - g))).clamp(0, 1).item()
    assert 0.01 < wanted < 0.99
    assert strategy._shares.values.tolist() == pytest.approx([wanted, 1 - wanted], abs=1e-4)


def test_a_task_without_labels_keeps_its_average_and_its_share():
    for name in NAMES:
        strategy = make(name, make_model(3), make_tasks(3, scale=2.0))
        strategy.step(*make_batch(3, seed=0))
        before = copy.deepcopy(strategy.state_dict())
        batch = make_batch(3, seed=1)
        strategy.step(batch.inputs, batch.targets, {"t1": torch.zeros(6, dtype=torch.bool)})
        after = strategy.state_dict()
        assert after["averages"]["moves"] == {"t0": 2, "t1": 1, "t2": 2}
        for was, now in zip(before["averages"]["rows"], after["averages"]["rows"], strict=True):
            assert torch.equal(was[1], now[1])
            assert not torch.equal(was[0], now[0])
        if name == "moco":
            assert after["shares"][1] == before["shares"][1]
            assert after["shares"][0] != before["shares"][0]
            assert after["shares"].sum().item() == pytest.approx(1)


def test_tasks_that_have_no_share_count_equally_where_they_are_alone():
    strategy = make("moco", make_model(3), make_tasks(3), moco_gamma=0.0, **AT_ONCE)
    strategy._shares.values.copy_(torch.tensor([1.0, 0.0, 0.0]))
    batch = make_batch(3, seed=1)
    model = copy.deepcopy(strategy.model)
    strategy.step(batch.inputs, batch.targets, {"t0": torch.zeros(6, dtype=torch.bool)})
    mean = make("jd_mean", model, make_tasks(3))
    mean.step(batch.inputs, batch.targets, {"t0": torch.zeros(6, dtype=torch.bool)})
    assert_close(weights(strategy.model), weights(model))
    assert strategy._shares.values.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weight", [2.0, 0.0])
def test_no_step_waits_for_a_value(name, weight):
    tasks = make_tasks(3)
    tasks[1] = replace(tasks[1], weight=weight)
    strategy = make(name, make_model(3), tasks)
    for step in range(3):
        batch = make_batch(3, seed=step)
        with waits([*strategy.model.parameters(), batch.inputs, *batch.targets.values()]) as found:
            strategy.step(*batch)
        assert found == []


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_one_row_of_averages_per_task_whatever_is_labelled_together(name):
    strategy = make(name, make_model(4), make_tasks(4))
    for step in range(12):
        strategy.step(*make_batch(4, seed=step, missing=0.8))
    held = sum(rows.numel() for rows in strategy.state_dict()["averages"]["rows"])
    assert held == 4 * sum(weight.numel() for weight in strategy.model.trunk.parameters())


@pytest.mark.parametrize(("offset", "factor", "good"), [(-100.0, 1.0, False), (0.0, 0.0, True)])
def test_a_loss_below_zero_lets_dual_balancing_diverge_and_one_of_zero_harms_nobody(offset, factor, good):
    tasks = make_tasks(2)
    tasks[1] = replace(tasks[1], loss=lambda p, t, loss=tasks[1].loss: factor * loss(p, t) + offset)
    strategy = make("db_mtl", make_model(2), tasks)
    for step in range(3):
        losses = strategy.step(*make_batch(2, seed=step))
    assert all(bool(loss.isfinite()) is good for loss in losses.values())
