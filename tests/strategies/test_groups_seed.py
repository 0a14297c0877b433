"""The draw of groups may have a seed of its own; without one everything is as it was."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis.strategies import integers

from search_spaces import Choice, find_space
from tests.toys import make_model, make_tasks, task_names, toy_problem
from tests.training.trainers import make_trainer, timeless
from tune_mtl import UserError, make_strategy
from tune_mtl.strategies.group_draws import count_groupings
from tune_mtl.strategies.grouping import distinct_draws, make_groups
from tune_mtl.training.config import resolve

seeds = integers(0, 2**31)

DRAWN = {
    (4, 2, 0): [["t0", "t1"], ["t2", "t3"]],
    (4, 2, 1): [["t0", "t1"], ["t2", "t3"]],
    (4, 2, 2): [["t0", "t3"], ["t1", "t2"]],
    (7, 3, 11): [["t0", "t2", "t4"], ["t1", "t5"], ["t3", "t6"]],
    (6, 4, 123456789): [["t0"], ["t1", "t3"], ["t2", "t5"], ["t4"]],
}
"""By tasks, count and seed: what version 0.2.0 drew."""


@pytest.mark.parametrize(("tasks", "count", "seed"), DRAWN)
def test_without_a_seed_of_their_own_groups_are_those_of_earlier_versions(tasks, count, seed):
    strategy = make_strategy("io", make_model(tasks), make_tasks(tasks), lr=0.1, groups=count, seed=seed)
    assert strategy.groups == DRAWN[tasks, count, seed]


def test_a_config_without_it_says_nothing_of_it():
    config = resolve(toy_problem(4), {"strategy": "io", "lr": 0.1, "groups": 2, "seed": 3})
    assert "groups_seed" not in config.as_dict()
    again = resolve(toy_problem(4), {**config.as_dict(), "groups_seed": 0})
    assert again.as_dict() == config.as_dict() | {"groups_seed": 0}


def trained(**config):
    trainer = make_trainer(toy_problem(4), epochs=2, **config)
    while not trainer.finished:
        trainer.run_period()
    return trainer.strategy.groups, timeless(trainer.history), trainer.strategy.model.state_dict()


def test_it_decides_the_groups_and_nothing_else():
    own, other = DRAWN[4, 2, 0], DRAWN[4, 2, 2]
    as_before, same, crossed = (
        trained(groups=2, seed=0, **more) for more in ({}, {"groups_seed": 0}, {"groups_seed": 2})
    )
    told = trained(groups=other, seed=0)
    assert (as_before[0], same[0], crossed[0], told[0]) == (own, own, other, other)
    for first, second in ((as_before, same), (crossed, told)):
        assert first[1] == second[1]
        assert all(torch.equal(first[2][name], second[2][name]) for name in first[2])
    assert crossed[1] != as_before[1]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"strategy": "sus"}, "groups_seed=3 cannot be used with strategy 'sus': only .*io.* have groups. Drop it"),
        ({"strategy": "io", "groups": [["t0", "t1"], ["t2", "t3"]]}, "groups_seed=3 draws groups, but groups="),
        ({"strategy": "io", "groups": 2, "groups_seed": -1}, "groups_seed=-1"),
    ],
)
def test_where_nothing_is_drawn_it_is_refused_in_a_line(config, message):
    with pytest.raises(UserError, match=message) as refused:
        resolve(toy_problem(4), {"lr": 0.1, "groups_seed": 3, **config})
    assert "\n" not in str(refused.value)
    given = {key: value for key, value in config.items() if key != "strategy"}
    if given.get("groups_seed") is None:
        with pytest.raises(UserError, match=message):
            make_strategy(config["strategy"], make_model(4), make_tasks(4), lr=0.1, groups_seed=3, **given)


def test_a_space_gives_it_to_strategies_with_groups_alone():
    space = find_space(toy_problem(4), "wide")
    assert not any("groups_seed" in space.of(name) for name in space.strategies)
    both = space.narrowed(strategies=["sus", "io"], vary={"groups_seed": Choice((0, 1))})
    assert (both.of("io")["groups_seed"], "groups_seed" in both.of("sus")) == (Choice((0, 1)), False)
    fixed = space.narrowed(strategies=["sus", "io"], fixed={"groups_seed": 5})
    assert next(fixed.grid("io"))["groups_seed"] == 5
    assert "groups_seed" not in next(fixed.grid("sus"))
    with pytest.raises(UserError, match="none of sus has groups"):
        space.narrowed(strategies=["sus"], fixed={"groups_seed": 5})


@pytest.mark.parametrize("tasks", range(1, 8))
def test_groupings_are_counted_as_listing_them_counts(tasks):
    for count in range(1, tasks + 1):
        sizes = [tasks // count + (place < tasks % count) for place in range(count)]
        found = set()
        for order in permutations(range(tasks)):
            places = iter(order)
            found.add(frozenset(frozenset(next(places) for _ in range(size)) for size in sizes))
        assert count_groupings(tasks, count) == len(found)


def test_one_group_and_one_per_task_can_be_drawn_in_one_way():
    assert [count_groupings(4, count) for count in (1, 2, 3, 4)] == [1, 3, 6, 1]
    assert count_groupings(40, 2) == math.comb(40, 20) // 2


@given(tasks=integers(1, 9), groups=integers(1, 9), first=seeds, wanted=integers(1, 6))
def test_draws_differ_and_are_as_many_as_there_are(tasks, groups, first, wanted):
    named, groups = task_names(tasks), min(groups, tasks)
    drawn = distinct_draws(named, groups, first, wanted)
    found = [str(make_groups(named, groups, seed)) for seed in drawn]
    assert len(set(found)) == len(found) == min(wanted, count_groupings(tasks, groups))
    assert drawn == sorted(drawn)
    assert drawn[0] == first
    skipped = set(range(first, drawn[-1])) - set(drawn)
    assert {str(make_groups(named, groups, seed)) for seed in skipped} <= set(found)


def test_more_draws_begin_with_those_that_there_were():
    few, many = (distinct_draws(task_names(8), 3, 7, count) for count in (3, 9))
    assert many[:3] == few


def test_every_grouping_is_drawn_equally_often():
    named = task_names(5)
    found: dict[str, int] = {}
    for seed in range(3000):
        key = str(make_groups(named, 2, seed))
        found[key] = found.get(key, 0) + 1
    assert len(found) == count_groupings(5, 2) == 10
    assert max(abs(count - 300) for count in found.values()) < 5 * math.sqrt(300)
