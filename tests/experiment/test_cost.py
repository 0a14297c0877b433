"""What a search will cost is judged by its most demanding trials."""

import pytest

from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.experiment.planning.cost import largest, measure, slowest
from tune_mtl.experiment.search import plan_search


@pytest.mark.parametrize(
    ("strategies", "groups", "expected"),
    [
        (["sus"], None, ("sus", None)),
        (["sus", "ius", "io"], None, ("io", 6)),
        (["io", "sus"], "2,3", ("io", 3)),
        (["adatask", "stl"], "2", ("stl", None)),
    ],
)
def test_the_largest_trial_has_most_states(strategies, groups, expected):
    config = largest(plan_search(toy_problem(6), strategies=strategies, groups=groups))
    assert (config.strategy, config.groups) == expected


@pytest.mark.parametrize(("strategies", "expected"), [(["sus", "ius"], "ius"), (["ius", "jd_nashmtl"], "jd_nashmtl")])
def test_the_slowest_trial_is_the_slowest(strategies, expected):
    assert slowest(plan_search(toy_problem(6), strategies=strategies)) == expected


def test_groups_may_be_lists():
    groups = [["t0"], ["t1", "t2"]]
    plan = plan_search(toy_problem(3), strategies=["ius", "io"], fixed={"groups": groups})
    assert largest(plan).groups == groups
    assert measure(plan, timed=True).seconds_per_trial > 0


def test_disk_is_that_of_the_most_groups():
    given = {"strategies": ["io"], "samples": 1, "concurrency": 1, "fixed": {"model_width": 2000}}

    def disk(groups):
        return measure(plan_search(toy_problem(6), groups=groups, **given), timed=False).disk

    trunk = 4 * (5 * 2000 + 2000)
    kept_checkpoints, more_groups, moments = 2, 4, 2
    assert disk("2,6") == disk("6")
    assert disk("6") - disk("2") == pytest.approx(kept_checkpoints * more_groups * moments * trunk, rel=0.01)


def test_time_is_measured_only_if_asked_for():
    plan = plan_search(toy_problem(3), strategies=["sus"], max_epochs=2)
    assert measure(plan, timed=False).seconds_per_trial == 0
    assert measure(plan, timed=True).seconds_per_trial > 0


def test_a_grid_that_nobody_could_run_is_refused():
    with pytest.raises(UserError, match=r"the grid of strategy 'scalar' has 2\.6e\+20 trials \(41 dimensions\)"):
        plan_search(toy_problem(40), strategies=["sus", "scalar"], space="paper")
