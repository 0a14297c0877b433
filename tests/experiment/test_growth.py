"""Whether a search goes on with more replicates, and how it is extended: without Ray, from made-up results."""

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.experiment import growth as rounds
from tune_mtl.experiment.growth import extended, next_round, undecided
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.search import plan_search
from tune_mtl.reporting.statistics.comparison import Looks, compare_strategies

THREE = ["sus", "ius", "io"]
LUCK = (0.01, -0.02, 0.015, -0.005, 0.0, 0.02, -0.01, 0.005)
"""Of tunings: every strategy begins elsewhere in it, so that differences vary."""


def results(means, count=4, *, sign=1, looks=None):
    """What strategies with these means have reached in ``count`` replicates each."""
    values = {
        name: {index: sign * (mean + LUCK[(index + 3 * place) % 8]) for index in range(count)}
        for place, (name, mean) in enumerate(means.items())
    }
    compared = compare_strategies(values, sign, looks)
    return SimpleNamespace(search=SimpleNamespace(sign=sign), runs=values, comparisons=lambda: compared)


@pytest.mark.parametrize("sign", [1, -1])
def test_undecided_are_those_who_are_not_told_to_be_worse(sign):
    assert undecided(results({"sus": 1.0, "io": 5.0}, sign=sign)) == ["sus"]
    assert undecided(results({"sus": 5.0, "io": 1.0}, sign=sign)) == ["io"]
    assert undecided(results({"sus": 1.0, "io": 1.001}, sign=sign)) == ["sus", "io"]
    assert undecided(results({"sus": 1.0, "ius": 9.0, "io": 1.001}, sign=sign)) == ["sus", "io"]
    assert undecided(results({"sus": 5.0, "ius": 5.001, "io": 1.0}, sign=sign)) == ["io"]


def auto(monkeypatch, found, **given) -> Plan:
    """A search that grows by itself, whose results are ``found``."""
    monkeypatch.setattr(rounds.SearchData, "read", lambda *_: None)
    monkeypatch.setattr(rounds.Results, "of", lambda _: found)
    return plan_search(toy_problem(3), **{"strategies": THREE, "replicates": "auto", **given})


def tunings(plan, since=0):
    return Counter((turn.strategy, turn.replicate) for turn in plan.turns[since:])


def test_it_goes_on_with_those_who_are_undecided(monkeypatch):
    plan = auto(monkeypatch, results({"sus": 1.0, "ius": 9.0, "io": 1.001}))
    grown = next_round(plan)
    assert grown.turns[: plan.total] == plan.turns
    assert tunings(grown, plan.total) == {(name, 4): 4 for name in ("sus", "io")}
    assert grown.seeds == {index: index for index in range(5)}
    assert grown.fresh_seeds(1).items() >= plan.fresh_seeds(1).items()
    assert grown.settings.replicates == "auto"
    sizes = [grown.replicates]
    while (again := next_round(grown)) is not None:
        assert again.turns[: grown.total] == grown.turns
        grown, sizes = again, [*sizes, again.replicates]
    assert sizes == [5, 6, 7, 8, 10, 12, 15, 16]


@pytest.mark.parametrize("means", [{"sus": 1.0, "ius": 9.0, "io": 5.0}, {"sus": 1.0}, {}], ids=len)
def test_it_ends_where_all_is_decided(monkeypatch, means):
    assert next_round(auto(monkeypatch, results(means))) is None


def test_it_ends_with_the_most_replicates_and_the_last_round_may_be_short(monkeypatch):
    alike = results({"sus": 1.0, "ius": 1.0, "io": 1.0})
    grown, sizes = auto(monkeypatch, alike, max_replicates=9), []
    while (grown := next_round(grown)) is not None:
        sizes.append(grown.replicates)
    assert sizes == [5, 6, 7, 8, 9]
    assert next_round(auto(monkeypatch, alike, max_replicates=3)) is None


def test_who_asked_for_a_number_gets_that_number(monkeypatch):
    assert next_round(auto(monkeypatch, results({"sus": 1.0, "io": 1.0}), replicates=4)) is None


def test_a_grid_goes_on_with_new_seeds(monkeypatch):
    given = {"space": "paper", "lr": "0.1,0.2", "strategies": ["sus", "stl"], "max_replicates": 6}
    plan = auto(monkeypatch, results({"sus": 1.0, "stl": 1.001}), **given)
    grown = next_round(plan)
    assert grown.turns[: plan.total] == plan.turns
    assert tunings(grown, plan.total) == {(name, 4): 2 for name in ("sus", "stl")}
    assert {turn.config["seed"] for turn in grown.turns[plan.total :]} == {4}


def test_looking_often_makes_it_harder_to_be_told_apart():
    close = {"sus": 1.0, "io": 1.035}
    assert undecided(results(close)) == ["sus"]
    assert undecided(results(close, looks=Looks((4, 8, 12, 16)))) == ["sus", "io"]


def test_trials_that_are_added_are_shared_out_between_the_tunings():
    plan = plan_search(toy_problem(3), strategies=THREE, replicates=4, time_budget=9.0)
    grown = Plan.make(plan.problem, extended(plan, 24))
    assert grown.settings.time_budget is None
    assert grown.turns[: plan.total] == plan.turns
    assert set(tunings(grown).values()) == {6}
    for samples in (23, 6):
        with pytest.raises(UserError, match=f"samples={samples} must be a multiple of 12: one trial more in each of"):
            extended(plan, samples)


def test_who_was_left_out_of_later_replicates_gets_no_trial_there(monkeypatch):
    plan = next_round(auto(monkeypatch, results({"sus": 1.0, "ius": 9.0, "io": 1.001})))
    grown = Plan.make(plan.problem, extended(plan, 14))
    assert tunings(grown).keys() == tunings(plan).keys()
    assert set(tunings(grown).values()) == {5}
    with pytest.raises(UserError, match="samples=24 must be a multiple of 14"):
        extended(plan, 24)


def test_a_single_tuning_can_be_extended_by_any_number():
    plan = plan_search(toy_problem(3), strategies=THREE, samples=4, replicates=1)
    grown = Plan.make(plan.problem, extended(plan, 5))
    assert [turn.strategy for turn in grown.turns] == THREE * 3


def test_strategies_that_share_a_budget_share_what_is_added():
    plan = plan_search(toy_problem(3), strategies=THREE, samples=4, balance="none")
    grown = Plan.make(plan.problem, extended(plan, 5))
    assert tunings(grown) == {(None, 0): 9}
