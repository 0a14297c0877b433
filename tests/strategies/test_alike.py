"""Groups by affinity: balanced, and no exchange betters them."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import data, integers

from tests.toys import task_names
from tune_mtl.strategies.alike import alike_groups
from tune_mtl.strategies.grouping import make_groups

seeds = integers(0, 2**31)


def within(affinity, groups, tasks):
    """The sum of affinities over pairs in one group, as the definition says."""
    at = {task: index for index, task in enumerate(tasks)}
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    return sum(affinity[at[one], at[other]] for one, other in pairs)


@given(n_tasks=integers(2, 14), seed=seeds, draw=data())
def test_alike_groups_are_balanced_and_no_exchange_betters_them(n_tasks, seed, draw):
    count = draw.draw(integers(1, n_tasks))
    tasks = task_names(n_tasks)
    random = np.random.default_rng(seed)
    affinity = random.uniform(-1, 1, (n_tasks, n_tasks))
    affinity = affinity + affinity.T
    groups = alike_groups(tasks, affinity, count, seed)
    assert groups == make_groups(tasks, groups, seed)
    assert sorted(map(len, groups)) == sorted(map(len, make_groups(tasks, count, seed)))
    reached = within(affinity, groups, tasks)
    assert reached >= within(affinity, make_groups(tasks, count, seed), tasks) - 1e-9
    for one, other in combinations(tasks, 2):
        swap = {one: other, other: one}
        exchanged = [[swap.get(task, task) for task in group] for group in groups]
        assert within(affinity, exchanged, tasks) <= reached + 1e-9
    assert alike_groups(tasks, affinity, count, seed) == groups


@pytest.mark.parametrize("seed", range(5))
def test_alike_groups_of_few_tasks_are_the_best_of_all(seed):
    tasks = task_names(6)
    affinity = np.random.default_rng(seed).normal(size=(6, 6))
    affinity = affinity + affinity.T
    halves = ([list(half), [task for task in tasks if task not in half]] for half in combinations(tasks, 3))
    best = max(within(affinity, groups, tasks) for groups in halves)
    assert within(affinity, alike_groups(tasks, affinity, 2, seed), tasks) == pytest.approx(best)


def test_pairs_that_are_not_known_count_as_nothing():
    affinity = np.full((4, 4), np.nan)
    affinity[0, 3] = affinity[3, 0] = 1.0
    assert alike_groups(task_names(4), affinity, 2, 0) == [["t0", "t3"], ["t1", "t2"]]
