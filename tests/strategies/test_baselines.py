"""The baselines equal oracles of a few lines, and keep their published properties."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis.strategies import floats, integers, lists
from torch import nn

from tests.strategies.baseline_oracles import GradNormOracle, losses_and_gradients, min_norm, pcgrad, relative_gap
from tests.strategies.oracles import Moments
from tests.toys import equal, make_batch, make_conv_model, make_model, make_tasks, run_options, weights
from tune_mtl import MultiTaskModel, Task, UserError, make_strategy
from tune_mtl.strategies import gramian
from tune_mtl.strategies.jacobian import descent
from tune_mtl.strategies.methods.mgda_ub import min_norm_weights
from tune_mtl.strategies.methods.selective import clusters

LR, STEPS = 0.02, 20


def linear_setting(count, seed=0, width=3, rows=7):
    """A linear network in torch and the same weights in numpy, with batches in both forms."""
    random = np.random.default_rng(seed)
    trunk, heads = random.standard_normal((4, width)), [random.standard_normal((width, 2)) for _ in range(count)]
    model = MultiTaskModel(
        nn.Linear(4, width, bias=False), {f"t{i}": nn.Linear(width, 2, bias=False) for i in range(count)}
    ).double()
    with torch.no_grad():
        model.trunk.weight.copy_(torch.from_numpy(trunk.T))
        for index, head in enumerate(heads):
            model.heads[f"t{index}"].weight.copy_(torch.from_numpy(head.T))
    tasks = [Task(f"t{i}", F.mse_loss) for i in range(count)]
    batches = [
        (random.standard_normal((rows, 4)), [random.standard_normal((rows, 2)) for _ in range(count)])
        for _ in range(STEPS)
    ]
    return model, tasks, trunk, heads, batches


def as_tensors(x, targets):
    return torch.from_numpy(x), {f"t{index}": torch.from_numpy(target) for index, target in enumerate(targets)}


def check_weights(model, trunk, heads):
    np.testing.assert_allclose(model.trunk.weight.detach().numpy().T, trunk, rtol=1e-6, atol=1e-9)
    for index, head in enumerate(heads):
        np.testing.assert_allclose(model.heads[f"t{index}"].weight.detach().numpy().T, head, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_pcgrad_equals_oracle_in_a_fixed_order(count, monkeypatch):
    monkeypatch.setattr(torch, "randperm", lambda size, **_: torch.arange(size).flip(0))
    model, tasks, trunk, heads, batches = linear_setting(count)
    strategy = make_strategy("pcgrad", model, tasks, lr=LR, optimizer="sgd")
    conflicts = 0
    for x, targets in batches:
        strategy.step(*as_tensors(x, targets))
        found = losses_and_gradients(trunk, heads, x, targets)
        gradients = [gradient for _, gradient, _, _ in found]
        conflicts += sum(np.sum(a * b) < 0 for a in gradients for b in gradients)
        trunk = trunk - LR * pcgrad(gradients, [range(count)[::-1]] * count)
        heads = [head - LR * own for head, (_, _, own, _) in zip(heads, found, strict=True)]
    check_weights(model, trunk, heads)
    assert conflicts > 0


@settings(max_examples=25)
@given(seed=integers(0, 10_000))
def test_pcgrad_of_two_tasks_without_conflict_is_sus(seed):
    model, tasks, trunk, heads, batches = linear_setting(2, seed)
    x, targets = batches[0]
    (_, first, _, _), (_, second, _, _) = losses_and_gradients(trunk, heads, x, targets)
    assume(np.sum(first * second) > 0)
    shared = copy.deepcopy(model)
    make_strategy("pcgrad", model, tasks, lr=LR).step(*as_tensors(x, targets))
    make_strategy("sus", shared, tasks, lr=LR).step(*as_tensors(x, targets))
    for got, want in zip(weights(model), weights(shared), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-12)


@settings(max_examples=60)
@given(count=integers(2, 40), extra=integers(0, 60), seed=integers(0, 10_000), spread=floats(0, 3))
def test_min_norm_weights_are_optimal(count, extra, seed, spread):
    random = np.random.default_rng(seed)
    rows = random.standard_normal((count, count + 1 + extra)) * np.exp(spread * random.standard_normal((count, 1)))
    gramian = rows @ rows.T
    found = min_norm_weights(gramian)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    assert relative_gap(gramian, found) <= 1e-3


@settings(max_examples=25)
@given(count=integers(1, 6), sizes=lists(integers(1, 400), min_size=1, max_size=3), at_once=integers(1, 3000))
def test_the_gramian_of_parts_is_that_of_whole_rows(count, sizes, at_once):
    generator = torch.Generator().manual_seed(at_once)
    parts = [[torch.randn(size, 2, generator=generator).T for size in sizes] for _ in range(count)]
    rows = torch.stack([torch.cat([part.reshape(-1) for part in row]) for row in parts]).double()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gramian, "_IN_CACHE", at_once)
        by_columns = list(zip(*parts, strict=True))
        for found in (by_columns, [torch.stack(part) for part in by_columns]):
            torch.testing.assert_close(gramian.gramian(found), rows @ rows.T, rtol=1e-12, atol=1e-9)
            narrow = gramian.gramian(found, torch.float32)
            torch.testing.assert_close(narrow, rows @ rows.T, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("gramian", [np.zeros((3, 3)), np.full((3, 3), np.nan), np.ones((3, 3))])
def test_min_norm_weights_of_hopeless_gramians_are_on_the_simplex(gramian):
    found = min_norm_weights(gramian)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


@pytest.mark.parametrize("normalize", ["none", "l2", "loss", "loss+"])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_mgda_ub_equals_oracle_heads_included(count, normalize):
    model, tasks, trunk, heads, batches = linear_setting(count, seed=4)
    strategy = make_strategy("mgda_ub", model, tasks, lr=LR, optimizer="sgd", mgda_ub_normalize=normalize)
    spread = []
    for x, targets in batches:
        strategy.step(*as_tensors(x, targets))
        found = losses_and_gradients(trunk, heads, x, targets)
        rows = np.stack([on_output.ravel() for *_, on_output in found])
        norms = np.linalg.norm(rows, axis=1) if normalize in ("l2", "loss+") else np.ones(count)
        scales = np.array([loss for loss, *_ in found]) if normalize.startswith("loss") else np.ones(count)
        rows = rows / (norms * scales)[:, None]
        a = min_norm(rows @ rows.T)
        spread.append(np.ptp(a))
        trunk = trunk - LR * sum(w * gradient for w, (_, gradient, _, _) in zip(a, found, strict=True))
        heads = [head - LR * w * own for w, head, (_, _, own, _) in zip(a, heads, found, strict=True)]
    check_weights(model, trunk, heads)
    assert max(spread) > 0.1 or (count, normalize) == (2, "l2")  # two unit vectors meet in the middle


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.5])
def test_gradnorm_follows_the_published_recursion(alpha):
    model, tasks, trunk, heads, batches = linear_setting(4, seed=2)
    strategy = make_strategy("gradnorm", model, tasks, lr=LR, optimizer="sgd", gradnorm_alpha=alpha)
    oracle = GradNormOracle(4, LR, alpha)
    for x, targets in batches:
        strategy.step(*as_tensors(x, targets))
        trunk, heads = oracle.step(trunk, heads, x, targets)
        np.testing.assert_allclose(strategy.balance.detach().numpy(), oracle.weights, rtol=1e-6)
        assert strategy.balance.sum().item() == pytest.approx(4)
    check_weights(model, trunk, heads)
    assert np.ptp(oracle.weights) > 0.05


def test_gradnorm_balances_at_the_last_convolution_or_where_told():
    tasks = make_tasks(2)
    last = make_strategy("gradnorm", model := make_conv_model(2), tasks, lr=0.1)
    assert last._layer is model.trunk[2].weight
    chosen = make_strategy("gradnorm", model := make_conv_model(2), tasks, lr=0.1, gradnorm_layer="6")
    assert chosen._layer is model.trunk[6].weight
    flat = make_strategy("gradnorm", model := make_model(2), tasks, lr=0.1)
    assert flat._layer is model.trunk[2].weight
    with pytest.raises(UserError, match="gradnorm_layer '9'"):
        make_strategy("gradnorm", make_model(2), tasks, lr=0.1, gradnorm_layer="9")


def test_adatask_equals_oracle():
    tasks, model = make_tasks(4, scale=1.7), make_model(4)
    reference = copy.deepcopy(model)
    strategy = make_strategy("adatask", model, tasks, lr=LR)
    memories = [Moments("adam", LR) for _ in tasks]
    for step in range(STEPS):
        batch = make_batch(4, seed=step)
        strategy.step(*batch)
        features = reference.trunk(batch.inputs)
        found = []
        for task in tasks:
            parameters = [*reference.trunk.parameters(), *reference.heads[task.name].parameters()]
            loss = task.loss(reference.heads[task.name](features), batch.targets[task.name])
            found.append((parameters, torch.autograd.grad(loss, parameters, retain_graph=True)))
        for memory, (parameters, gradients) in zip(memories, found, strict=True):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                memory.step(parameter, gradient)
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-10)


def test_adatask_without_memory_is_sus_and_in_one_group_too():
    for keywords in ({"optimizer": "sgd"}, {"groups": 1}):
        results = []
        for name in ("adatask", "sus"):
            own = keywords if name == "adatask" else {key: keywords[key] for key in keywords if key != "groups"}
            strategy = make_strategy(name, make_model(3), make_tasks(3), lr=LR, **own)
            for step in range(5):
                strategy.step(*make_batch(3, seed=step))
            results.append(weights(strategy.model))
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_selective_learns_affinities_from_the_losses_after_each_step():
    tasks, model = make_tasks(3), make_model(3)
    strategy = make_strategy("selective", model, tasks, lr=LR, seed=1, selective_warmup=100, selective_rate=0.5)
    reference, expected = copy.deepcopy(model), np.zeros((3, 3))
    optimizer = torch.optim.Adam(reference.parameters(), lr=LR)
    generator = torch.Generator()
    generator.set_state(strategy.recipe.generator.get_state())

    def losses(batch):
        features = reference.trunk(batch.inputs)
        return [t.loss(reference.heads[t.name](features), batch.targets[t.name]) for t in tasks]

    for step in range(5):
        batch = make_batch(3, seed=step)
        for task in torch.randperm(3, generator=generator).tolist():
            before = losses(batch)
            optimizer.zero_grad()
            before[task].backward()
            optimizer.step()
            gains = [1 - (b / a).item() for a, b in zip(before, losses(batch), strict=True)]
            expected[task] = 0.5 * expected[task] + 0.5 * np.array(gains)
        strategy.step(*batch)
    np.testing.assert_allclose(strategy.affinities.numpy(), expected, rtol=1e-6, atol=1e-12)
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-10)


def test_selective_groups_tasks_that_help_each_other():
    friends = np.array([[1.0, 0.9, -0.5, -0.5], [0.9, 1.0, -0.5, -0.5], [-0.5, -0.5, 1.0, 0.9], [-0.5, -0.5, 0.9, 1.0]])
    scale = np.diag([1.0, 10.0, 0.1, 5.0])
    assert clusters(friends @ scale) == [0, 0, 1, 1]
    assert clusters(np.full((3, 3), np.nan)) is None
    assert clusters(np.eye(1)) is None


def test_selective_starts_with_single_tasks_and_keeps_every_task_once():
    strategy = make_strategy(
        "selective", make_model(5), make_tasks(5), lr=LR, selective_warmup=3, selective_every=1, selective_rate=0.5
    )
    assert strategy.groups == [["t0"], ["t1"], ["t2"], ["t3"], ["t4"]]
    seen = set()
    for step in range(12):
        strategy.step(*make_batch(5, seed=step))
        assert sorted(task for group in strategy.groups for task in group) == ["t0", "t1", "t2", "t3", "t4"]
        seen.add(tuple(map(tuple, strategy.groups)))
    assert len(seen) > 1


def test_missing_solvers_are_named(monkeypatch):
    import torchjd._mixins

    monkeypatch.setattr(torchjd._mixins, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r'pip install "tune-mtl\[solvers\]"'):
        make_strategy("jd_cagrad", make_model(2), make_tasks(2), lr=0.1)


def test_options_of_aggregators_reach_them():
    results = []
    for weight in (1.0, 3.0):
        strategy = make_strategy(
            "jd_constant", make_model(2), make_tasks(2), lr=LR, optimizer="sgd", jd_constant_weights={"t1": weight}
        )
        strategy.step(*make_batch(2, seed=0))
        results.append(weights(strategy.model))
    assert not equal(*results)
    with pytest.raises(UserError, match="unknown task 'x'"):
        make_strategy("jd_constant", make_model(2), make_tasks(2), lr=LR, jd_constant_weights={"x": 1.0})
    with pytest.raises(UserError, match="needs 5 tasks"):
        make_strategy("jd_trimmedmean", make_model(4), make_tasks(4), lr=LR, jd_trimmedmean_trim_number=2)


def test_memories_of_aggregators_are_bounded_and_saved_in_the_order_of_their_use(monkeypatch):
    monkeypatch.setattr(descent, "_MEMORIES", 3)

    def strategy():
        return make_strategy("jd_gradvac", make_model(5), make_tasks(5), lr=LR)

    def step(on, missing, seed):
        present = {task: torch.full((6,), task not in missing) for task in ("t0", "t1", "t2", "t3", "t4")}
        batch = make_batch(5, seed=seed)
        on.step(batch.inputs, batch.targets, present)

    whole, sets = strategy(), [(), ("t0",), ("t1",), ("t2",), ("t0",), ("t3",), (), ("t2",), ("t0",)]
    for seed, missing in enumerate(sets):
        step(whole, missing, seed)
        assert len(whole._aggregators) <= 3
        if seed == 5:
            model, state = copy.deepcopy(whole.model.state_dict()), copy.deepcopy(whole.state_dict())
            assert [len(tasks) for tasks, _ in state["aggregators"]] == [4, 4, 4]
    again = strategy()
    again.model.load_state_dict(model)
    again.load_state_dict(state)
    for seed, missing in list(enumerate(sets))[6:]:
        step(again, missing, seed)
    assert equal(weights(again.model), weights(whole.model))
    assert list(again._aggregators) == list(whole._aggregators)


def test_an_aggregator_without_enough_rows_sums_them():
    present = {"t0": torch.ones(6, dtype=torch.bool), "t1": torch.zeros(6), "t2": torch.zeros(6)}
    batch, results = make_batch(3, seed=0), []
    for name in ("jd_krum", "sus"):
        strategy = make_strategy(name, make_model(3), make_tasks(3), lr=LR, **run_options(name, 5))
        strategy.step(batch.inputs, batch.targets, present)
        results.append(weights(strategy.model))
    assert equal(*results)
