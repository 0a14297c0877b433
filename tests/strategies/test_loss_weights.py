"""Strategies that weigh losses, at the cost of SUS: each equals an oracle of a few lines, and keeps its identities."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis.strategies import floats, integers, lists

from tests.toys import equal, make_batch, make_conv_model, make_model, make_tasks, weights
from tune_mtl import UserError, make_strategy
from tune_mtl.strategies.methods.go4align import cluster_means

LR, STEPS, WINDOW = 0.005, 12, 5
NAMES = ("norms", "rlw", "igb", "go4align")
OPTIONS = {"norms": {"norms_window": WINDOW}, "igb": {"igb_window": WINDOW}, "go4align": {"go4align_rate": 0.3}}


def make(name, model, tasks, **options):
    return make_strategy(name, model, tasks, lr=LR, optimizer="sgd", seed=3, **{**OPTIONS.get(name, {}), **options})


def in_proportion(inverse):
    return {task: len(inverse) * value / sum(inverse.values()) for task, value in inverse.items()}


class NormsOracle:
    def __init__(self, strategy):
        at = strategy.options.at
        self.parts = lambda model: list(model.trunk.parameters()) if at == "trunk" else [model.trunk[2].weight]
        self.found = {task: [] for task in strategy.tasks}

    def __call__(self, losses, step, model):
        if step < WINDOW:
            for task, loss in losses.items():
                gradients = torch.autograd.grad(loss, self.parts(model), retain_graph=True)
                self.found[task].append(torch.cat([gradient.flatten() for gradient in gradients]).norm().item())
            return dict.fromkeys(losses, 1.0)
        known = in_proportion({task: 1 / np.mean(norms) for task, norms in self.found.items() if norms})
        return dict.fromkeys(losses, 1.0) | known


class RandomOracle:
    def __init__(self, strategy):
        self.generator = torch.Generator()
        self.generator.set_state(strategy.recipe.generator.get_state())

    def __call__(self, losses, **_):
        draws = torch.randn(len(losses), dtype=torch.float64, generator=self.generator).exp()
        return dict(zip(losses, (draws / draws.sum()).tolist(), strict=True))


class GapOracle:
    def __init__(self, strategy):
        self.seen = {task: [] for task in strategy.tasks}

    def __call__(self, losses, step, **_):
        for task, loss in losses.items():
            if WINDOW // 2 <= step < WINDOW or (step >= WINDOW and not self.seen[task]):
                self.seen[task].append(loss.item())
        if step < WINDOW:
            return dict.fromkeys(losses, 1.0)
        return in_proportion({task: np.exp(loss.item() / np.mean(self.seen[task])) for task, loss in losses.items()})


class AlignmentOracle:
    def __init__(self, strategy):
        self.shares = {task: 1 / len(strategy.tasks) for task in strategy.tasks}
        self.clusters = strategy.options.clusters

    def __call__(self, losses, **_):
        together = sum(self.shares[task] for task in losses)
        moved = {task: self.shares[task] * np.exp(-0.3 * loss.item()) for task, loss in losses.items()}
        own = {task: share / sum(moved.values()) for task, share in moved.items()}
        self.shares |= {task: together * share for task, share in own.items()}
        total = sum(loss.item() for loss in losses.values())
        scales = [own[task] * total / loss.item() for task, loss in losses.items()]
        return dict(zip(losses, best_means(scales, self.clusters), strict=True))


def best_means(values, clusters):
    """The means of all ways to put ``values`` into so many clusters, the ones with the least scatter."""
    values, best = np.array(values), None
    for labels in map(np.array, itertools.product(range(clusters), repeat=len(values))):
        means = np.array([values[labels == label].mean() for label in labels])
        scatter = np.sum((values - means) ** 2)
        if best is None or scatter < best[0]:
            best = scatter, means
    return best[1]


ORACLES = {"norms": NormsOracle, "rlw": RandomOracle, "igb": GapOracle, "go4align": AlignmentOracle}


@pytest.mark.parametrize("missing", [None, 0.8])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("norms", {}),
        ("norms", {"norms_at": "trunk"}),
        ("rlw", {}),
        ("igb", {}),
        *(("go4align", {"go4align_clusters": clusters}) for clusters in (1, 2, 3)),
    ],
)
def test_rule_equals_oracle(name, options, missing):
    tasks = [replace(task, weight=1.0 + 0.5 * index) for index, task in enumerate(make_tasks(4, scale=1.7))]
    model = make_model(4)
    reference = copy.deepcopy(model)
    strategy = make(name, model, tasks, **options)
    oracle = ORACLES[name](strategy)
    for step in range(STEPS):
        batch = make_batch(4, seed=step, missing=missing)
        if missing is not None:
            batch.present["t3"] &= step > WINDOW
        strategy.step(*batch)
        rows = batch.present or {task.name: torch.ones(6, dtype=torch.bool) for task in tasks}
        predictions = reference(batch.inputs)
        losses = {
            task.name: task.loss(predictions[task.name][rows[task.name]], batch.targets[task.name][rows[task.name]])
            for task in tasks
            if rows[task.name].any()
        }
        found = oracle(losses, step=step, model=reference)
        seen = torch.log if name == "igb" else lambda loss: loss
        total = sum(task.weight * found[task.name] * seen(losses[task.name]) for task in tasks if task.name in losses)
        reference.zero_grad()
        total.backward()
        torch.optim.SGD(reference.parameters(), lr=LR).step()
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_tasks_weight_counts_after_all_else(name):
    """Twice the weight is twice the step of the task's own head, and changes no other head's."""
    strategy = make(name, make_model(3), make_tasks(3, scale=1.5))
    for step in range(WINDOW + 1):
        strategy.step(*make_batch(3, seed=step))
    model, state = copy.deepcopy(strategy.model.state_dict()), copy.deepcopy(strategy.state_dict())
    moved = []
    for factor in (1.0, 2.0):
        strategy.model.load_state_dict(model)
        strategy.load_state_dict(state)
        strategy.weights["t1"] *= factor
        before = [head.weight.detach().clone() for head in strategy.model.heads.values()]
        strategy.step(*make_batch(3, seed=99))
        heads = strategy.model.heads.values()
        moved.append([head.weight.detach() - was for head, was in zip(heads, before, strict=True)])
    for index, (once, twice) in enumerate(zip(*moved, strict=True)):
        torch.testing.assert_close(twice, 2 * once if index == 1 else once)
        assert once.norm() > 0


@pytest.mark.parametrize("split", [1, WINDOW - 1, WINDOW, WINDOW + 2])
@pytest.mark.parametrize("name", ["norms", "igb"])
def test_a_state_from_within_the_window_brings_back_all_that_was_measured(name, split):
    strategy, results = make(name, make_model(3), make_tasks(3, scale=2.0)), []
    for step in range(split):
        strategy.step(*make_batch(3, seed=step))
    model, state = copy.deepcopy(strategy.model.state_dict()), copy.deepcopy(strategy.state_dict())
    for _ in range(2):
        for step in range(split, STEPS):
            strategy.step(*make_batch(3, seed=step))
        results.append(weights(strategy.model))
        strategy.model.load_state_dict(model)
        strategy.load_state_dict(copy.deepcopy(state))
    assert equal(*results)


def test_measured_norms_are_evened_out_by_weights_that_sum_to_n():
    strategy = make("norms", make_conv_model(4), make_tasks(4, scale=3.0))
    for step in range(WINDOW):
        assert strategy.weights == dict.fromkeys(strategy.tasks, 1.0)
        strategy.step(*make_batch(4, seed=step))
    found = torch.tensor(list(strategy.weights.values()), dtype=torch.float64)
    assert found.sum().item() == pytest.approx(4)
    evened = found * strategy._sums / strategy._counts
    torch.testing.assert_close(evened, evened.mean().expand(4))
    assert found.max() > 2 * found.min()


def test_after_its_window_it_is_scalar_and_before_it_sus():
    tasks, model = make_tasks(3, scale=2.0), make_conv_model(3)
    strategy, shared = make("norms", model, tasks), make("sus", copy.deepcopy(model), tasks)
    for step in range(WINDOW):
        strategy.step(*make_batch(3, seed=step))
        shared.step(*make_batch(3, seed=step))
    assert equal(weights(model), weights(shared.model))
    fixed = make("scalar", copy.deepcopy(model), tasks, scalar_weights=strategy.weights)
    for step in range(WINDOW, STEPS):
        strategy.step(*make_batch(3, seed=step))
        fixed.step(*make_batch(3, seed=step))
    assert equal(weights(model), weights(fixed.model))


def test_equal_norms_make_it_sus():
    results = []
    for name in ("norms", "sus"):
        model = make_conv_model(2)
        model.heads["t1"].load_state_dict(model.heads["t0"].state_dict())
        strategy = make(name, model, make_tasks(2))
        for step in range(STEPS):
            batch = make_batch(2, seed=step)
            strategy.step(batch.inputs, dict.fromkeys(batch.targets, batch.targets["t0"]))
        results.append(weights(model))
    assert equal(*results)


def test_a_task_without_a_measured_norm_keeps_its_weight():
    tasks = make_tasks(4, scale=2.0)
    tasks[1] = replace(tasks[1], loss=lambda p, _: 0.0 * p.sum())
    strategy = make("norms", make_model(4), tasks)
    for step in range(WINDOW):
        batch = make_batch(4, seed=step)
        strategy.step(batch.inputs, batch.targets, {"t3": torch.zeros(6, dtype=torch.bool)})
    assert strategy.weights["t1"] == strategy.weights["t3"] == 1.0
    assert strategy.weights["t0"] + strategy.weights["t2"] == pytest.approx(2)
    assert strategy.weights["t0"] != pytest.approx(1)


def test_norms_are_measured_where_told():
    chosen = make("norms", model := make_conv_model(2), make_tasks(2), norms_layer=6)
    assert [weight is model.trunk[6].weight for weight in chosen._measured] == [True]
    with pytest.raises(UserError, match="norms_layer 'x' is no trunk layer"):
        make("norms", make_model(2), make_tasks(2), norms_layer="x")
    with pytest.raises(UserError, match="norms_layer='2' names a layer, but norms_at=trunk"):
        make("norms", make_model(2), make_tasks(2), norms_layer="2", norms_at="trunk")


def head_steps(name, model):
    before = [head.weight.detach().clone() for head in model.heads.values()]
    make(name, model, make_tasks(3)).step(*make_batch(3, seed=0))
    return [head.weight.detach() - was for head, was in zip(model.heads.values(), before, strict=True)]


def test_random_weights_of_losses_reach_the_heads_and_those_of_gradients_do_not():
    """RLW, not RGW: the heads' steps are those of SUS times weights that sum to 1."""
    shared, of_losses, of_gradients = (head_steps(name, make_model(3)) for name in ("sus", "rlw", "jd_random"))
    shares = [(own / whole).flatten() for own, whole in zip(of_losses, shared, strict=True)]
    for share in shares:
        torch.testing.assert_close(share, share[:1].expand(len(share)))
        assert 0 < share[0] < 1
    assert sum(share[0] for share in shares).item() == pytest.approx(1)
    for own, whole in zip(of_gradients, shared, strict=True):
        torch.testing.assert_close(own, whole)


def test_before_its_base_is_known_igb_descends_the_logarithm_of_the_geometric_mean():
    moved, batch = {}, make_batch(3, seed=0)
    for name in ("igb", "jd_geometricmean"):
        start = weights(model := make_model(3))
        losses = make(name, model, make_tasks(3, scale=2.0)).step(*batch)
        moved[name] = [after - before for before, after in zip(start, weights(model), strict=True)]
    mean = torch.stack(list(losses.values())).log().mean().exp()
    for got, want in zip(*moved.values(), strict=True):
        torch.testing.assert_close(got, 3 / mean * want, rtol=1e-6, atol=1e-10)


@settings(max_examples=40)
@given(bases=lists(floats(1e-3, 1e3), min_size=3, max_size=3), ratio=floats(1e-3, 1e3), more=floats(0.1, 3))
def test_igbs_weights_are_equal_where_tasks_are_equally_far_and_sum_to_n(bases, ratio, more):
    strategy = make("igb", make_model(3), make_tasks(3), igb_window=1)
    at, base = torch.arange(3), torch.tensor(bases, dtype=torch.float64)
    assert strategy._weights(at, base) == 1.0
    strategy.mini_batches = 1
    torch.testing.assert_close(strategy._weights(at, ratio * base), torch.ones_like(base))
    behind = strategy._weights(at, (ratio + torch.tensor([0.0, 0.0, more], dtype=torch.float64)) * base)
    assert behind.sum().item() == pytest.approx(3)
    assert behind[2] / behind[0] == pytest.approx(np.exp(more), rel=1e-6)


def test_the_scale_of_a_loss_means_nothing_to_igb():
    results = []
    for scale in (1.0, 30.0):
        strategy = make("igb", make_model(3), make_tasks(3, scale=scale))
        for step in range(STEPS):
            strategy.step(*make_batch(3, seed=step))
        results.append(weights(strategy.model))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-8)


@settings(max_examples=60)
@given(values=lists(floats(1e-6, 1e6), min_size=1, max_size=6), clusters=integers(1, 6))
def test_clusters_have_the_least_scatter_of_all(values, clusters):
    assume(clusters ** len(values) < 5000)
    found = cluster_means(torch.tensor(values, dtype=torch.float64), clusters).numpy()
    best = best_means(values, clusters)
    scatter = np.sum((np.array(values) - found) ** 2)
    assert scatter <= np.sum((np.array(values) - best) ** 2) + 1e-9 * np.max(np.square(values))
    assert len(set(found)) <= clusters
    for mean in set(found):
        assert np.mean(np.array(values)[found == mean]) == pytest.approx(mean)


@settings(max_examples=30)
@given(losses=lists(floats(1e-3, 1e3), min_size=1, max_size=8), rate=floats(0, 1e-2))
def test_as_many_clusters_as_tasks_share_the_sum_of_losses_and_one_makes_it_sus(losses, rate):
    count = len(losses)
    strategy = make("go4align", make_model(count), make_tasks(count), go4align_rate=rate)
    values = torch.tensor(losses, dtype=torch.float64)
    scales = strategy._scales(torch.arange(count), values)
    assert (cluster_means(scales, count) * values).sum().item() == pytest.approx(values.sum().item())
    together = cluster_means(scales, 1)
    torch.testing.assert_close(together, scales.mean().expand(count))


def test_a_task_without_labels_keeps_its_share_of_go4align():
    strategy = make("go4align", make_model(3), make_tasks(3))
    strategy.step(*make_batch(3, seed=0))
    before = torch.softmax(strategy._log_shares, dim=0)
    batch = make_batch(3, seed=1)
    strategy.step(batch.inputs, batch.targets, {"t1": torch.zeros(6, dtype=torch.bool)})
    after = torch.softmax(strategy._log_shares, dim=0)
    assert after[1].item() == pytest.approx(before[1].item())
    assert after[0].item() != pytest.approx(before[0].item())


def test_values_that_are_not_finite_leave_means_that_are_not():
    for bad in (torch.nan, torch.inf):
        values = torch.tensor([1.0, bad, 2.0, 4.0], dtype=torch.float64)
        assert not cluster_means(values, 2).isfinite().all()


@pytest.mark.parametrize("name", ["igb", "go4align"])
def test_a_loss_below_zero_lets_a_trial_diverge(name):
    tasks = [replace(task, loss=lambda p, t, loss=task.loss: loss(p, t) - 100.0) for task in make_tasks(2)]
    strategy = make(name, make_model(2), tasks)
    strategy.step(*make_batch(2, seed=0))
    losses = strategy.step(*make_batch(2, seed=1))
    assert not any(loss.isfinite() for loss in losses.values())


@pytest.mark.parametrize("name", ["igb", "go4align"])
def test_a_loss_of_zero_harms_nobody(name):
    tasks = make_tasks(3)
    tasks[1] = replace(tasks[1], loss=lambda p, _: 0.0 * p.sum())
    strategy = make(name, make_model(3), tasks)
    for step in range(WINDOW + 2):
        losses = strategy.step(*make_batch(3, seed=step))
    assert all(loss.isfinite() for loss in losses.values())
    assert all(tensor.isfinite().all() for tensor in weights(strategy.model))
