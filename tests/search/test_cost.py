"""What a search will cost is judged by its most demanding trials."""

import pytest

from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.search import plan_search
from tune_mtl.searching.cost import heaviest, measure


@pytest.mark.parametrize(
    ("strategies", "groups", "kept", "slow"),
    [
        (["sus"], None, ("sus", None), ("sus", None)),
        (["sus", "ius", "io"], None, ("io", 6), ("io", 6)),
        (["io", "sus"], "2,3", ("io", 3), ("io", 3)),
        (["sus", "pcgrad"], None, ("pcgrad", None), ("pcgrad", None)),
        (["io", "selective"], "2", ("io", 2), ("selective", None)),
        (["adatask", "stl"], "2", ("stl", None), ("stl", None)),
    ],
)
def test_the_heaviest_trial_has_most_states_or_most_passes(strategies, groups, kept, slow):
    plan = plan_search(toy_problem(6), strategies=strategies, groups=groups)
    for what, (strategy, count) in (("states", kept), ("passes", slow)):
        config = heaviest(plan, what)
        assert (config["strategy"], config.get("groups")) == (strategy, count)


def test_disk_is_that_of_the_most_groups():
    given = {"strategies": ["io"], "samples": 1, "concurrency": 1, "fixed": {"model_width": 2000}}

    def disk(groups):
        return measure(plan_search(toy_problem(6), groups=groups, **given), whole_period=False).disk

    trunk = 4 * (5 * 2000 + 2000)
    kept_checkpoints, more_groups, moments = 2, 4, 2
    assert disk("2,6") == disk("6")
    assert disk("6") - disk("2") == pytest.approx(kept_checkpoints * more_groups * moments * trunk, rel=0.01)


def test_time_is_measured_only_if_asked_for():
    plan = plan_search(toy_problem(3), strategies=["sus"], max_epochs=2)
    assert measure(plan, whole_period=False).seconds_per_trial == 0
    assert measure(plan, whole_period=True).seconds_per_trial > 0


def test_a_grid_that_nobody_could_run_is_refused():
    with pytest.raises(UserError, match=r"the grid of strategy 'scalar' has 2\.6e\+20 trials \(41 dimensions\)"):
        plan_search(toy_problem(40), strategies=["sus", "scalar"], space="paper")
