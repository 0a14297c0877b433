"""The identities between strategies, bit for bit, over random problems."""

import torch
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, sampled_from

from tests.toys import equal, make_batch, make_model, make_tasks, weights
from tune_mtl import make_strategy

seeds = integers(0, 2**31)
optimizers = sampled_from(["sgd", "momentum", "adam", "adamw"])


def trained(name, count, seed, *, steps=6, missing=None, dtype=torch.float32, **keywords):
    model = make_model(count, seed=seed % 1000, dtype=dtype)
    strategy = make_strategy(name, model, make_tasks(count, scale=1.5), lr=0.03, seed=seed, **keywords)
    for step in range(steps):
        strategy.step(*make_batch(count, seed=seed + step, missing=missing, dtype=dtype))
    return weights(model)


@settings(max_examples=30)
@given(n_tasks=integers(1, 12), seed=seeds, optimizer=optimizers, partial=booleans())
def test_one_group_makes_io_and_ius_equal_sus(n_tasks, seed, optimizer, partial):
    missing = 0.5 if partial else None
    shared = trained("sus", n_tasks, seed, optimizer=optimizer, missing=missing)
    assert equal(trained("io", n_tasks, seed, optimizer=optimizer, groups=1, missing=missing), shared)
    assert equal(trained("ius", n_tasks, seed, optimizer=optimizer, groups=1, missing=missing), shared)


@settings(max_examples=20)
@given(n_tasks=integers(1, 8), seed=seeds, name=sampled_from(["ius", "io"]), optimizer=optimizers)
def test_as_many_groups_as_tasks_is_the_plain_rule_for_every_seed(n_tasks, seed, name, optimizer):
    plain = trained(name, n_tasks, seed, optimizer=optimizer)
    assert equal(trained(name, n_tasks, seed, optimizer=optimizer, groups=n_tasks), plain)
    in_order = [[f"t{index}"] for index in range(n_tasks)]
    assert equal(trained(name, n_tasks, seed, optimizer=optimizer, groups=in_order), plain)


@settings(max_examples=30)
@given(n_tasks=integers(1, 10), seed=seeds, data=integers(1, 10))
def test_without_memory_io_equals_ius(n_tasks, seed, data):
    groups = 1 + data % n_tasks
    assert equal(
        trained("io", n_tasks, seed, optimizer="sgd", groups=groups),
        trained("ius", n_tasks, seed, optimizer="sgd", groups=groups),
    )


@settings(max_examples=20)
@given(n_tasks=integers(2, 8), seed=seeds, optimizer=sampled_from(["momentum", "adam"]), data=integers(0, 10))
def test_with_memory_and_several_groups_they_differ(n_tasks, seed, optimizer, data):
    groups = 2 + data % (n_tasks - 1)
    assert not equal(
        trained("io", n_tasks, seed, optimizer=optimizer, groups=groups),
        trained("ius", n_tasks, seed, optimizer=optimizer, groups=groups),
    )
