"""Laws that every registered strategy obeys: one is covered by being registered."""

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from

from tests.toys import equal, make_batch, make_conv_model, make_tasks, run_options, weights
from tune_mtl import PathLength, UserError, make_strategy
from tune_mtl.strategies.info import count
from tune_mtl.strategies.jacobian import family
from tune_mtl.strategies.registry import registry

seeds = integers(0, 2**31)
optimizers = sampled_from(["sgd", "momentum", "adam", "adamw"])
every_strategy = pytest.mark.parametrize("name", sorted(registry))
STEPS = 6

OTHER_ARITHMETIC = {
    "jd_alignedmtl", "jd_config", "jd_dualproj", "jd_famo", "jd_geometricmean", "jd_imtlg", "jd_pcd", "jd_stch",
    "jd_upgrad",
}  # fmt: skip
"""These compute a lone task's weight, which is 1 up to rounding."""


def make(name, count, seed, model=None, tasks=None, **keywords):
    model = model or make_conv_model(count, seed=seed % 1000)
    tasks = tasks or make_tasks(count, scale=1.5)
    return make_strategy(name, model, tasks, lr=0.03, seed=seed, **run_options(name, STEPS), **keywords)


def train(strategy, count, seed, *, missing=None, first=0):
    for step in range(first, STEPS):
        strategy.step(*make_batch(count, seed=seed + step, missing=missing))
    return weights(strategy.model)


@every_strategy
@settings(max_examples=4, deadline=None)
@given(seed=seeds, optimizer=optimizers)
def test_one_task_makes_it_equal_sus(name, seed, optimizer):
    if not registry[name].reduces_to_sus:
        return
    shared = train(make("sus", 1, seed, optimizer=optimizer), 1, seed)
    own = train(make(name, 1, seed, optimizer=optimizer), 1, seed)[: len(shared)]
    if name in OTHER_ARITHMETIC:
        for got, want in zip(own, shared, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)
    else:
        assert equal(own, shared)


@every_strategy
def test_those_that_say_they_differ_from_sus_do(name):
    info = registry[name]
    if info.reduces_to_sus:
        return
    if info.needs_tasks > 1:
        with pytest.raises(UserError, match=f"needs at least {info.needs_tasks} tasks"):
            make(name, 1, 0)
        return
    assert not equal(train(make(name, 1, 0, optimizer="sgd"), 1, 0), train(make("sus", 1, 0, optimizer="sgd"), 1, 0))


@every_strategy
@settings(max_examples=3, deadline=None)
@given(seed=seeds, optimizer=optimizers, split=integers(1, STEPS - 1))
def test_saved_and_loaded_goes_on_exactly(name, seed, optimizer, split):
    whole = make(name, 4, seed, optimizer=optimizer)
    for step in range(split):
        whole.step(*make_batch(4, seed=seed + step, missing=0.7))
    given_model = copy.deepcopy(whole.model.state_dict())
    saved = copy.deepcopy(whole.state_dict())
    torch.manual_seed(1)
    train(whole, 4, seed, missing=0.7, first=split)
    other = make(name, 4, seed, optimizer=optimizer)
    other.model.load_state_dict(given_model)
    other.load_state_dict(saved)
    torch.manual_seed(2)
    train(other, 4, seed, missing=0.7, first=split)
    assert equal(weights(other.model), weights(whole.model))
    assert other.mini_batches == whole.mini_batches == STEPS
    assert other.updates == whole.updates
    assert other.groups == whole.groups


@every_strategy
@settings(max_examples=2, deadline=None)
@given(seed=seeds)
def test_the_seed_decides_everything(name, seed):
    results = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        results.append(train(make(name, 4, seed), 4, seed, missing=0.3))
    assert equal(*results)


@every_strategy
@settings(max_examples=2, deadline=None)
@given(n_tasks=integers(3, 5), seed=seeds)
def test_labels_all_present_is_the_same_as_no_masks(name, n_tasks, seed):
    masked = train(make(name, n_tasks, seed), n_tasks, seed, missing=0.0)
    assert equal(masked, train(make(name, n_tasks, seed), n_tasks, seed))


@every_strategy
def test_a_weight_of_two_is_a_loss_doubled(name):
    tasks = make_tasks(4, scale=1.5)
    weighted = [replace(task, weight=2.0 if index == 1 else 1.0) for index, task in enumerate(tasks)]
    double = [
        replace(task, loss=lambda p, t, loss=task.loss: 2.0 * loss(p, t)) if index == 1 else task
        for index, task in enumerate(tasks)
    ]
    results = [train(make(name, 4, 5, tasks=chosen), 4, 5) for chosen in (weighted, double)]
    assert equal(*results)


@every_strategy
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_memory_format_changes_nothing(name, optimizer):
    results = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        model = make_conv_model(4, seed=2).to(memory_format=memory_format)
        results.append(train(make(name, 4, 7, model=model, optimizer=optimizer), 4, 7))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)


@every_strategy
def test_losses_and_path_are_reported(name):
    strategy = make(name, 4, 3)
    path = PathLength(strategy.model, strategy.optimizers) if registry[name].shares_trunk else None
    losses = strategy.step(*make_batch(4, seed=0))
    assert list(losses) == ["t0", "t1", "t2", "t3"]
    assert all(loss.isfinite() and not loss.requires_grad for loss in losses.values())
    assert strategy.updates >= 1
    if path is not None:
        assert path.updates == strategy.updates
        assert path.total >= path.from_start() > 0


@every_strategy
def test_a_loss_that_is_not_finite_never_crashes(name):
    strategy = make(name, 4, 3)
    for step in range(3):
        batch = make_batch(4, seed=step)
        batch.targets["t1"][0] = torch.inf
        losses = strategy.step(*batch)
    assert not losses["t1"].isfinite()


@every_strategy
@pytest.mark.parametrize("scale", [0.0, 1e-25, 1e-12, 1e12, 1e22, 1e38])
def test_gradients_of_any_size_never_crash(name, scale):
    """Squares of float32 gradients overflow or vanish long before these do; solvers do not like either."""
    for which in ("one", "all"):
        tasks = [
            replace(
                task, loss=lambda p, t, loss=task.loss, by=scale if which == "all" or i == 1 else 1.0: by * loss(p, t)
            )
            for i, task in enumerate(make_tasks(4))
        ]
        strategy = make(name, 4, 3, model=make_conv_model(4, dtype=torch.float32), tasks=tasks)
        for step in range(2):
            assert len(strategy.step(*make_batch(4, seed=step, dtype=torch.float32))) == 4


@every_strategy
def test_loading_makes_a_used_strategy_forget(name):
    strategy = make(name, 4, 9)
    for step in range(2):
        strategy.step(*make_batch(4, seed=step, missing=0.8))
    model, state = copy.deepcopy(strategy.model.state_dict()), copy.deepcopy(strategy.state_dict())
    results = []
    for _ in range(2):
        for step in range(2, STEPS):
            strategy.step(*make_batch(4, seed=step, missing=0.8))
        results.append(weights(strategy.model))
        strategy.model.load_state_dict(model)
        strategy.load_state_dict(copy.deepcopy(state))
    assert equal(*results)


@every_strategy
def test_a_mini_batch_without_labels_changes_nothing(name):
    strategy = make(name, 4, 3)
    strategy.model.eval()
    before = weights(strategy.model)
    batch = make_batch(4, seed=0)
    nobody = {task: torch.zeros(6, dtype=torch.bool) for task in batch.targets}
    assert strategy.step(batch.inputs, batch.targets, nobody) == {}
    assert strategy.updates == 0
    assert equal(before, weights(strategy.model))


@every_strategy
def test_a_frozen_trunk_still_trains_heads(name):
    if registry[name].needs_convolutions or name == "gradnorm":
        return
    model = make_conv_model(4)
    model.trunk.requires_grad_(False)
    strategy = make(name, 4, 3, model=model)
    before = weights(strategy.model.heads)
    strategy.step(*make_batch(4, seed=0))
    assert not equal(before, weights(strategy.model.heads))


def test_the_family_holds_every_aggregator_of_torchjd():
    from torchjd import aggregation

    concrete = {
        name.lower()
        for name in aggregation.__all__
        if issubclass(kind := getattr(aggregation, name), aggregation.Aggregator)
        and kind not in (aggregation.Aggregator, aggregation.WeightedAggregator, aggregation.GramianWeightedAggregator)
    }
    assert concrete == {kind.kind.lower() for kind in family.AGGREGATORS}


@every_strategy
def test_its_record_says_how_many_updates_a_mini_batch_takes(name):
    info, tasks = registry[name], max(3, registry[name].needs_tasks)
    strategy = make(name, tasks, 5)
    strategy.step(*make_batch(tasks, seed=0))
    assert strategy.updates == count(info.updates, tasks, len(strategy.groups) or tasks)
    if info.joined_by is not None:
        joined = make(name, tasks, 5, **{f"{name}_{info.joined_by}": True})
        joined.step(*make_batch(tasks, seed=0))
        assert joined.updates == 1
