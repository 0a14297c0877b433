"""How often strategies are tuned, if nobody says; and what is refused."""

from collections import Counter

import pytest

from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.core.options import build
from tune_mtl.experiment.planning.replication import looks
from tune_mtl.experiment.problem_facts import problem_facts, trials_per_tuning
from tune_mtl.experiment.search import plan_search
from tune_mtl.results.settings import Settings

TWO = {"strategies": ["sus", "io"]}


@pytest.mark.parametrize(
    ("given", "replicates", "total"),
    [
        ({}, 8, 3 * 8 * 4),
        (TWO, 8, 2 * 8 * 4),
        ({**TWO, "algorithm": "random"}, 8, 2 * 8 * 4),
        ({**TWO, "samples": 2 * 4 * 8 * 5}, 8, 320),
        ({**TWO, "samples": 2 * 4 * 5}, 5, 40),
        ({**TWO, "samples": 2 * 4 * 5 - 1}, 4, 39),
        ({**TWO, "samples": 2 * 4 * 3}, 3, 24),
        ({**TWO, "samples": 2 * 4 * 3 - 1}, 1, 23),
        ({**TWO, "samples": 2}, 1, 2),
        ({"samples": 3 * 4 * 3 - 1}, 1, 35),
        ({"samples": 3 * 4 * 3}, 3, 36),
        ({**TWO, "samples": 12, "replicates": 3}, 3, 12),
        ({**TWO, "replicates": 1}, 1, 2 * 8),
        ({**TWO, "replicates": 2}, 2, 2 * 2 * 4),
        ({**TWO, "balance": "none"}, 1, 2 * 8),
        ({**TWO, "warm_start": "earlier"}, 1, 2 * 8),
        ({**TWO, "scheduler": "thaw"}, 5, 2 * 5 * 8),
        ({**TWO, "scheduler": "thaw", "replicates": 3}, 3, 2 * 3 * 8),
        ({**TWO, "scheduler": "thaw", "replicates": 1}, 1, 2 * 8),
        ({**TWO, "scheduler": "thaw", "samples": 2 * 8 * 9}, 5, 144),
        ({**TWO, "scheduler": "thaw", "samples": 2 * 8 * 3}, 3, 48),
        ({**TWO, "scheduler": "thaw", "samples": 2 * 8 * 3 - 1}, 1, 47),
        ({**TWO, "scheduler": "thaw", "replicates": "auto"}, 4, 2 * 4 * 8),
        ({**TWO, "replicates": "auto"}, 4, 2 * 4 * 4),
        ({**TWO, "replicates": "auto", "max_replicates": 2}, 2, 2 * 2 * 4),
        ({"strategies": ["sus"], "space": "paper", "lr": "0.1,0.2"}, 3, 2 * 3),
        ({"strategies": ["sus"], "algorithm": "grid", "lr": "0.1,0.2"}, 1, 2),
        ({"strategies": ["sus"], "algorithm": "grid", "lr": "0.1,0.2", "seeds": (7, 3, 5, 9)}, 4, 8),
        ({"strategies": ["sus"], "space": "paper", "lr": "0.1,0.2", "replicates": 5}, 5, 10),
        ({"strategies": ["sus"], "space": "paper", "lr": "0.1,0.2", "replicates": "auto"}, 4, 8),
    ],
)
def test_what_is_asked_for_decides_how_often_strategies_are_tuned(given, replicates, total):
    plan = plan_search(toy_problem(3), **given)
    assert (plan.replicates, plan.total) == (replicates, total)
    assert {turn.replicate for turn in plan.turns} == set(range(replicates))
    assert plan.settings.confirm == (0 if replicates == 1 else 1)
    assert plan_search(toy_problem(3), confirm=2, **given).settings.confirm == 2


def test_every_replicate_has_its_seeds():
    plan = plan_search(toy_problem(3), seed=40, replicates=3, **TWO)
    assert plan.seeds == {0: 40, 1: 41, 2: 42}
    assert plan.fresh_seeds(2) == {0: [1040, 2040], 1: [1041, 2041], 2: [1042, 2042]}
    once = plan_search(toy_problem(3), seed=40, replicates=1, **TWO)
    assert (once.seeds, once.fresh_seeds(2)) == ({0: 40}, {0: [41, 42]})


def test_a_grid_trains_on_the_seeds_that_were_given_and_goes_on_after_the_largest():
    given = {"strategies": ["sus"], "algorithm": "grid", "lr": "0.1", "seeds": (7, 3, 5)}
    assert plan_search(toy_problem(3), **given).seeds == {0: 7, 1: 3, 2: 5}
    assert plan_search(toy_problem(3), **given, replicates="auto").seeds == {0: 7, 1: 3, 2: 5, 3: 8}
    fewer = plan_search(toy_problem(3), space="paper", strategies=["sus"], lr="0.1", replicates=2)
    assert fewer.seeds == {0: 0, 1: 1}


def test_trials_are_shared_out_between_tunings_and_the_fewest_are_told():
    plan = plan_search(toy_problem(3), samples=20, replicates=3, **TWO)
    counts = Counter((turn.strategy, turn.replicate) for turn in plan.turns)
    assert set(counts.values()) == {3, 4}
    assert trials_per_tuning(plan) == problem_facts(plan)["trials_per_tuning"] == 3
    assert trials_per_tuning(plan_search(toy_problem(3), algorithm="grid", lr="0.1", **TWO)) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"replicates": 8}, ()),
        ({"replicates": "auto"}, (4, 5, 6, 7, 8, 10, 12, 15, 16)),
        ({"replicates": "auto", "max_replicates": 2}, (2,)),
        ({"replicates": "auto", "max_replicates": 4}, (4,)),
        ({"replicates": "auto", "max_replicates": 5}, (4, 5)),
        ({"replicates": "auto", "max_replicates": 10}, (4, 5, 6, 7, 8, 10)),
    ],
)
def test_a_search_that_grows_says_beforehand_when_it_looks(given, expected):
    assert looks(build(Settings, {"problem": "p", "name": "n", **given})) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"replicates": 0}, "^replicates=0 must be 'auto' or a number from 1 to 100$"),
        ({"replicates": 101}, "^replicates=101 must be 'auto' or a number from 1 to 100$"),
        ({"replicates": 2.5}, "^replicates=2.5 must be 'auto' or a number from 1 to 100$"),
        ({"replicates": True}, "^replicates=True must be a number$"),
        ({"replicates": "many"}, "^replicates='many' must be 'auto' or a number from 1 to 100$"),
        ({"replicates": 2, "balance": "none"}, "replicates=2 needs balance='strategy'"),
        ({"replicates": "auto", "balance": "none"}, "replicates=auto needs balance='strategy'"),
        ({"replicates": 2, "warm_start": "earlier"}, "replicates=2 cannot have a warm_start: tunings that share"),
        ({"max_replicates": 8}, "max_replicates=8 needs replicates='auto'"),
        ({"replicates": 4, "max_replicates": 8}, "max_replicates=8 needs replicates='auto'"),
        ({"replicates": "auto", "max_replicates": 1}, "max_replicates=1"),
        ({"algorithm": "grid", "seeds": (0, 1, 2), "replicates": 2}, "replicates=2 and 3 seeds contradict"),
        ({"algorithm": "grid", "seeds": (0, 1, 2), "replicates": 1}, "replicates=1 and 3 seeds contradict"),
        ({"algorithm": "grid", "seeds": (0, 1, 0)}, r"seeds=\(0, 1, 0\) must differ"),
        ({"seeds": (0, 1, 2)}, r"seeds=\(0, 1, 2\) needs algorithm='grid'"),
        ({"confirm": 1000}, "confirm=1000 must be less than 1000"),
        (
            {"samples": 5, "replicates": 3},
            "samples=5 leaves some of the 2 strategies without a trial in each of 3",
        ),
        ({"samples": 5, "replicates": 3}, "ask for at least 6, or fewer strategies or replicates"),
        ({"samples": 7, "replicates": "auto"}, "in each of 4 replicates: ask for at least 8"),
        ({"samples": 1}, "samples=1 leaves some of the 2 strategies without a trial: ask for at least 2"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(given, message):
    with pytest.raises(UserError, match=message) as refused:
        plan_search(toy_problem(3), **TWO, **given)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(tuple(given))


def test_settings_come_back_as_they_were_kept():
    asked = plan_search(toy_problem(3), space="paper", lr="0.1", seeds=(4, 5), **TWO).settings
    assert build(Settings, asked.public()) == asked


def test_settings_of_an_earlier_version_can_still_be_read():
    kept = plan_search(toy_problem(3), space="paper", lr="0.1", seeds=(4, 5), **TWO).settings.public()
    del kept["replicates"]
    assert build(Settings, kept).replicates == 1
