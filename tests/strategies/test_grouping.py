import pytest
from hypothesis import given
from hypothesis.strategies import data, integers

from tests.toys import make_model, make_tasks, task_names
from tune_mtl import UserError, make_strategy
from tune_mtl.strategies.grouping import make_groups

seeds = integers(0, 2**31)


@given(n_tasks=integers(1, 40), seed=seeds, draw=data())
def test_groups_are_an_equal_partition_in_task_order(n_tasks, seed, draw):
    count = draw.draw(integers(1, n_tasks))
    tasks = task_names(n_tasks)
    groups = make_groups(tasks, count, seed)
    sizes = [len(group) for group in groups]
    assert len(groups) == count
    assert max(sizes) - min(sizes) <= 1
    assert sorted(task for group in groups for task in group) == sorted(tasks)
    assert all(group == sorted(group, key=tasks.index) for group in groups)
    assert [group[0] for group in groups] == sorted((group[0] for group in groups), key=tasks.index)


def test_groups_are_random_and_drawn_anew_for_every_seed():
    tasks = task_names(12)
    drawn = {str(make_groups(tasks, 4, seed)) for seed in range(50)}
    assert len(drawn) > 45
    together = sum(any({"t0", "t1"} <= set(group) for group in make_groups(tasks, 4, seed)) for seed in range(2000))
    assert together / 2000 == pytest.approx(2 / 11, abs=0.03)


def test_the_order_of_explicit_groups_does_not_matter():
    tasks = task_names(4)
    assert make_groups(tasks, [["t3", "t1"], ["t2", "t0"]], 0) == [["t0", "t2"], ["t1", "t3"]]


@pytest.mark.parametrize(
    "groups", [0, -1, 5, [["t0"]], [["t0", "t0", "t1", "t2", "t3"]], [["t0", "t1", "t2", "t3"], []]]
)
def test_impossible_groups_are_refused(groups):
    with pytest.raises(UserError, match="groups="):
        make_strategy("io", make_model(4), make_tasks(4), lr=0.1, groups=groups)


def test_a_strategy_draws_the_same_groups_as_the_function():
    strategy = make_strategy("ius", make_model(7), make_tasks(7), lr=0.1, groups=3, seed=11)
    assert strategy.groups == make_groups(task_names(7), 3, 11)
