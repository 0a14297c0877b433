"""MoDo and SDMGrad: each equals an oracle of a few lines, and is what it must be where its options make it simple."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, sampled_from

from tests.strategies.test_averaged_gradients import assert_close, flat, nearest_on_simplex, own_shares
from tests.toys import make_batch, make_conv_model, make_model, make_tasks, weights
from tune_mtl import make_strategy

LR, STEPS = 0.02, 6
NAMES = ("modo", "sdmgrad")


def make(name, model, tasks, **options):
    return make_strategy(name, model, tasks, lr=LR, optimizer="sgd", seed=3, **options)


def train(name, count, *, missing=None, **options):
    strategy = make(name, make_conv_model(count), make_tasks(count, scale=1.5), **options)
    for step in range(STEPS):
        strategy.step(*make_batch(count, seed=step, rows=7, missing=missing))
    return weights(strategy.model)


def modo(first, second, a, gamma=0.1, rho=0.1):
    a = nearest_on_simplex(a - gamma * (first @ (second.T @ a) + rho * a))
    return a, a


def sdmgrad(first, second, a, pull=0.3, rate=10.0, steps=20, momentum=0.5):
    products, velocity, n = first @ second.T, 0.0, len(a)
    lengths = [np.sqrt(max(0.0, products[k, k])) for k in range(n)]
    products = products / (np.mean(lengths) ** 2 + 1e-8)
    for _ in range(steps):
        velocity = momentum * velocity + products @ (a + pull / n)
        a = nearest_on_simplex(a - rate * velocity)
    return a, (a + pull / n) / (1 + pull)


RULES = {"modo": modo, "sdmgrad": sdmgrad}


def halves_of(rows):
    """Which labelled rows are in the first and which in the second half, and how much of the loss each half is."""
    labelled = np.flatnonzero(rows)
    if len(labelled) == 1:
        return [(labelled, 0.5), (labelled, 0.5)]
    middle = len(labelled) // 2
    return [(part, len(part) / len(labelled)) for part in (labelled[:middle], labelled[middle:])]


def gradients(model, tasks, batch):
    """Per task the gradients of its two halves on trunk and head, weighted so that their mean is that of all rows."""
    predictions, found = model(batch.inputs), {}
    for task in tasks:
        rows = np.ones(len(batch.inputs), bool) if batch.present is None else batch.present[task.name].numpy()
        if not rows.any():
            continue
        parameters = [*model.trunk.parameters(), *model.heads[task.name].parameters()]
        pair = []
        for part, share in halves_of(rows):
            loss = task.weight * task.loss(predictions[task.name][part], batch.targets[task.name][part])
            pair.append(2 * share * flat(torch.autograd.grad(loss, parameters, retain_graph=True)).numpy())
        found[task.name] = pair
    return found


@pytest.mark.parametrize("missing", [None, 0.7])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("modo", {}),
        ("modo", {"gamma": 2.0, "rho": 0.0}),
        ("sdmgrad", {"rate": 0.3}),
        ("sdmgrad", {"pull": 2.0, "rate": 0.1, "steps": 5, "momentum": 0.0}),
    ],
)
def test_rule_equals_oracle(name, options, missing):
    tasks = [replace(task, weight=1.0 + 0.5 * index) for index, task in enumerate(make_tasks(4, scale=1.7))]
    model = make_model(4)
    reference = copy.deepcopy(model)
    strategy = make(name, model, tasks, **{f"{name}_{option}": value for option, value in options.items()})
    shares = {task.name: 1 / 4 for task in tasks}
    trunk = list(reference.trunk.parameters())
    size = sum(weight.numel() for weight in trunk)
    for step in range(STEPS):
        batch = make_batch(4, seed=step, rows=5, missing=missing)
        strategy.step(*batch)
        found = gradients(reference, tasks, batch)
        together, own = own_shares(shares, found)
        first, second = (np.stack([pair[half][:size] for pair in found.values()]) for half in (0, 1))
        a, used = RULES[name](first, second, own, **options)
        shares |= dict(zip(found, together * a, strict=True))
        step_of = dict.fromkeys(found)
        with torch.no_grad():
            for task, pair in found.items():
                step_of[task] = sum(pair) / 2
                torch.nn.utils.vector_to_parameters(
                    torch.nn.utils.parameters_to_vector(reference.heads[task].parameters())
                    - LR * torch.from_numpy(step_of[task][size:]),
                    reference.heads[task].parameters(),
                )
            direction = used @ np.stack([whole[:size] for whole in step_of.values()])
            vector = torch.nn.utils.parameters_to_vector(trunk) - LR * torch.from_numpy(direction)
            torch.nn.utils.vector_to_parameters(vector, trunk)
    assert_close(weights(model), weights(reference), rtol=1e-5, atol=1e-6)


@settings(max_examples=6)
@given(
    setting=sampled_from([("modo", {"modo_gamma": 0.0}), ("sdmgrad", {"sdmgrad_pull": 1e12})]),
    count=integers(1, 4),
    missing=sampled_from([None, 0.7]),
)
def test_without_moving_shares_or_pulled_to_the_mean_it_is_the_mean(setting, count, missing):
    name, options = setting
    assert_close(train(name, count, missing=missing, **options), train("jd_mean", count, missing=missing))


def two_gradients(seed, scale, repeated):
    """Two tasks, a batch (of which one half repeats the other), and the tasks' gradients over either half."""
    model, tasks, batch = make_model(2, seed=seed), make_tasks(2, scale=scale), make_batch(2, seed=seed, rows=4)
    if repeated:
        doubled = {task: torch.cat([target, target]) for task, target in batch.targets.items()}
        batch = batch._replace(inputs=torch.cat([batch.inputs, batch.inputs]), targets=doubled)
    size = sum(weight.numel() for weight in model.trunk.parameters())
    found = gradients(model, tasks, batch)
    return model, tasks, batch, [[half[:size] for half in pair] for pair in found.values()]


@settings(max_examples=8)
@given(seed=integers(0, 1000), gamma=floats(0.01, 2), rho=floats(0, 1))
def test_modo_of_two_tasks_has_a_closed_form(seed, gamma, rho):
    model, tasks, batch, ((g1, g2), (h1, h2)) = two_gradients(seed, 1.3, repeated=False)
    strategy = make("modo", model, tasks, modo_gamma=gamma, modo_rho=rho)
    strategy.step(*batch)
    mean = (g2 + h2) / 2
    y = 0.5 - gamma * np.array([g1 @ mean + rho / 2, h1 @ mean + rho / 2])
    wanted = np.clip((1 + y[0] - y[1]) / 2, 0, 1)
    assert strategy._shares.values.tolist() == pytest.approx([wanted, 1 - wanted], abs=1e-9)


@settings(max_examples=8)
@given(seed=integers(0, 1000), pull=floats(0, 3))
def test_sdmgrad_of_two_tasks_and_like_halves_has_a_closed_form(seed, pull):
    model, tasks, batch, ((g, _), (h, _)) = two_gradients(seed, 1.2, repeated=True)
    options = {"sdmgrad_pull": pull, "sdmgrad_rate": 0.1, "sdmgrad_steps": 1500, "sdmgrad_momentum": 0.0}
    strategy = make("sdmgrad", model, tasks, **options)
    strategy.step(*batch)
    difference = g - h
    wanted = np.clip(-difference @ (h + pull * (g + h) / 2) / (difference @ difference), 0, 1)
    assert strategy._shares.values.tolist() == pytest.approx([wanted, 1 - wanted], abs=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_without_labels_keeps_its_share(name):
    strategy = make(
        name,
        make_model(3),
        make_tasks(3, scale=1.3),
        **{"modo": {}, "sdmgrad": {"sdmgrad_rate": 1e-3, "sdmgrad_steps": 1}}[name],
    )
    strategy.step(*make_batch(3, seed=0))
    before = strategy._shares.values.clone()
    batch = make_batch(3, seed=1)
    strategy.step(batch.inputs, batch.targets, {"t1": torch.zeros(6, dtype=torch.bool)})
    assert strategy._shares.values[1] == before[1] > 0
    assert strategy._shares.values[0] != before[0]
    assert strategy._shares.values.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("name", NAMES)
def test_it_reports_the_loss_over_all_rows(name):
    model, batch = make_model(2), make_batch(2, seed=0, rows=5, missing=0.3)
    losses = make("sus", copy.deepcopy(model), make_tasks(2)).step(*batch)
    assert make(name, model, make_tasks(2)).step(*batch) == losses
