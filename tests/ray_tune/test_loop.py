"""Rungs: one set per strategy, kept through a resume; the loop that serves trials and keeps the time."""

import pickle
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from trainables.keys import OUTCOME, REASON, TRIAL
from tune_mtl import Objective
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.halving import FairHalving
from tune_mtl.ray_tune.loop import TIME_IS_UP, Decisions, LoopState, TrialLoop
from tune_mtl.ray_tune.verdict import GO_ON


def make(*, balanced=True, strategies=("sus", "io"), time_budget=None) -> TrialLoop:
    judge = FairHalving(strategies, Objective("val/loss"), length=9, grace=1, balanced=balanced)
    return TrialLoop(judge, time_budget)


def play(loop, strategy, values, start=0):
    """Trials that report one value at epoch 1, in turn; returns who was stopped."""
    decisions = []
    for index, value in enumerate(values, start):
        trial = SimpleNamespace(
            trial_id=f"{strategy}{index}", config={"strategy": strategy, TRIAL: f"{strategy}{index}"}
        )
        loop.on_trial_add(None, trial)
        decision = loop.on_trial_result(None, trial, {"epoch": 1, "val/loss": value})
        decisions.append(decision == TrialLoop.STOP)
        assert loop.last_verdict(trial).stops == decisions[-1]
        loop.on_trial_complete(None, trial, {"epoch": 1, "val/loss": value})
    return decisions


def test_strategies_do_not_compete_with_each_other():
    loop = make()
    play(loop, "io", [0.1, 0.1, 0.1, 0.1])
    assert not play(loop, "sus", [5.0])[0]
    shared = make(balanced=False)
    play(shared, "io", [0.1, 0.1, 0.1, 0.1])
    assert play(shared, "sus", [5.0])[0]


@pytest.mark.parametrize("judge", [FairHalving.nobody(Objective("val/loss")), make(strategies=None).judge])
def test_nobody_is_stopped_without_rungs(judge):
    assert not any(play(TrialLoop(judge), "sus", [0.1, 0.1, 0.1, 9.0]))


def test_rungs_compare_the_value_that_was_asked_for():
    best_first = [{"val/loss": 0.9, "best": 0.1}, {"val/loss": 0.2, "best": 0.2}, {"val/loss": 0.1, "best": 0.3}]

    def stopped(judged):
        loop = TrialLoop(FairHalving(("sus",), Objective("val/loss"), judged=judged, length=9, grace=1, balanced=True))
        found = []
        for index, values in enumerate(best_first):
            trial = SimpleNamespace(trial_id=str(index), config={"strategy": "sus", TRIAL: str(index)})
            loop.on_trial_add(None, trial)
            found.append(loop.on_trial_result(None, trial, {"epoch": 1, **values}) == TrialLoop.STOP)
        return found

    assert stopped(None) == stopped("val/loss") == [False, False, False]
    assert stopped("best") == [False, True, True]


def test_rungs_come_back():
    whole, first = make(), make()
    values = [0.5, 0.4, 0.9, 0.3, 0.8, 0.35, 0.31, 0.29]
    decisions = play(whole, "sus", values)
    play(first, "sus", values[:4])
    second = make()
    LoopState(second).set_state(LoopState(first).get_state())
    assert play(second, "sus", values[4:], start=4) == decisions[4:]
    assert LoopState(second).get_state() == LoopState(whole).get_state()
    assert any(decisions)


def test_a_verdict_travels_with_the_result_and_says_why():
    loop, results = make(), []
    for index, value in enumerate([0.1, 0.2, 0.3, 9.0]):
        trial = SimpleNamespace(trial_id=str(index), config={"strategy": "sus", TRIAL: f"{index:04d}"})
        loop.on_trial_add(None, trial)
        result = {"epoch": 1, "val/loss": value, OUTCOME: "running"}
        loop.on_trial_result(None, trial, dict(result))
        Decisions(loop).on_trial_result(0, [], trial, result)
        results.append(result)
    assert [result[OUTCOME] for result in results][::3] == ["running", "stopped_early"]
    assert results[-1][REASON] == "not among the best of 3 trials of its strategy at epoch 1"
    assert REASON not in results[0]
    assert loop.last_verdict(trial) is GO_ON  # it was taken along


def test_who_is_stopped_when_the_time_is_up_is_told_so():
    loop = make(time_budget=1.0)
    loop.time.spent_before = 2.0
    trial = SimpleNamespace(trial_id="a", config={"strategy": "sus", TRIAL: "0000"})
    loop.on_trial_add(None, trial)
    assert loop.on_trial_result(None, trial, {"epoch": 1, "val/loss": 0.1}) == TrialLoop.STOP
    assert loop.last_verdict(trial).reason == TIME_IS_UP


def test_between_two_events_the_experiment_can_be_saved_and_an_ended_trial_makes_it_urgent():
    asked = []
    controller = SimpleNamespace(get_live_trials=list)
    loop = make()
    loop.at_rest = lambda given, soon: asked.append((given is controller, soon))
    trial = SimpleNamespace(trial_id="a", config={"strategy": "sus", TRIAL: "0000"}, status="ERROR")
    loop.on_trial_add(controller, trial)
    loop.on_trial_error(controller, trial)
    for _ in range(2):
        assert loop.choose_trial_to_run(controller) is None
    assert asked == [(True, True), (True, False)]
    assert pickle.loads(pickle.dumps(loop)).at_rest is None


@given(losses=lists(floats(0, 1), min_size=4, max_size=12, unique=True), again=integers(0, 11))
def test_what_is_reported_again_is_decided_as_before(losses, again):
    loop = make()
    decisions = play(loop, "sus", losses)
    index = again % len(losses)
    before = LoopState(loop).get_state()
    assert play(loop, "sus", [losses[index]], start=index) == [decisions[index]]
    assert LoopState(loop).get_state()["rungs"]["sus"]["rungs"] == before["rungs"]["sus"]["rungs"]


def test_a_time_budget_counts_what_was_spent_before_a_resume():
    first = make(strategies=None, time_budget=100)
    first.time.spent_before = 99.0
    second = make(strategies=None, time_budget=99)
    assert not second.time.is_up
    LoopState(second).set_state(LoopState(first).get_state())
    assert second.time.is_up


def test_first_come_first_served_and_who_comes_back_is_last():
    loop, controller = make(), SimpleNamespace(get_live_trials=list)
    trials = [
        SimpleNamespace(trial_id=name, config={"strategy": "sus", TRIAL: name}, status="PENDING") for name in "abc"
    ]
    for trial in trials:
        loop.on_trial_add(controller, trial)
    assert loop.choose_trial_to_run(controller) is loop.choose_trial_to_run(controller) is trials[0]
    trials[0].status = "RUNNING"
    assert loop.choose_trial_to_run(controller) is trials[1]
    trials[0].status = "PENDING"
    loop.on_trial_add(controller, trials[0])
    assert loop.choose_trial_to_run(controller) is trials[1]
    trials[1].status = trials[2].status = "TERMINATED"
    assert loop.choose_trial_to_run(controller) is trials[0]


def test_when_the_time_is_up_what_waits_ends_with_what_it_has_reached(monkeypatch):
    told = []
    monkeypatch.setattr(compat, "end_paused", lambda _, trial, said: told.append((trial.trial_id, said)))
    monkeypatch.setattr(compat, "end_unstarted", lambda _, trial: told.append((trial.trial_id, None)))
    monkeypatch.setattr(compat, "ask_for_no_more", lambda _: None)
    trials = [
        SimpleNamespace(trial_id=name, status=status, has_reported_at_least_once=reported)
        for name, status, reported in (("a", "PENDING", True), ("b", "PAUSED", True), ("c", "PENDING", False))
    ]
    loop = make(time_budget=1.0)
    loop.time.spent_before = 2.0
    assert loop.choose_trial_to_run(SimpleNamespace(get_live_trials=lambda: trials)) is None
    ended = {OUTCOME: "stopped_early", REASON: TIME_IS_UP}
    assert told == [("a", ended), ("b", ended), ("c", None)]
