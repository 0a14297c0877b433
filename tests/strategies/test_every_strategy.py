"""What every registered strategy obeys besides the public laws (`test_laws.py`): one is covered by being registered."""

from dataclasses import replace

import pytest
import torch

from tests.toys import equal, make_batch, make_conv_model, make_tasks, run_options, weights
from tune_mtl import make_strategy
from tune_mtl.strategies.jacobian import family
from tune_mtl.strategies.registry import registry

every_strategy = pytest.mark.parametrize("name", sorted(registry))
STEPS = 6

OTHER_ARITHMETIC = {
    "jd_alignedmtl", "jd_config", "jd_dualproj", "jd_famo", "jd_geometricmean", "jd_imtlg", "jd_pcd", "jd_stch",
    "jd_upgrad", "modo", "sdmgrad",
}  # fmt: skip
"""These compute a lone task's weight, which is 1 up to rounding."""


def make(name, count, seed, model=None, tasks=None, **keywords):
    model = model or make_conv_model(count, seed=seed % 1000)
    tasks = tasks or make_tasks(count, scale=1.5)
    return make_strategy(name, model, tasks, lr=0.03, seed=seed, **run_options(name, STEPS), **keywords)


def train(strategy, count, seed):
    for step in range(STEPS):
        strategy.step(*make_batch(count, seed=seed + step))
    return weights(strategy.model)


@every_strategy
def test_one_task_makes_it_equal_sus_bit_for_bit(name):
    if not registry[name].reduces_to_sus or name in OTHER_ARITHMETIC:
        return
    shared = train(make("sus", 1, 7), 1, 7)
    assert equal(train(make(name, 1, 7), 1, 7)[: len(shared)], shared)


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
def test_a_frozen_trunk_still_trains_heads(name):
    if registry[name].needs_convolutions or name in ("gradnorm", "norms"):
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
