"""Rungs: one set per strategy, kept through a resume."""

import pickle
from types import SimpleNamespace

from hypothesis import given
from hypothesis.strategies import floats, integers, lists
from ray.tune.schedulers import TrialScheduler
from tune_mtl.ray_tune.scheduler import FairHalving, RungKeeper

from trainables.keys import TRIAL
from tune_mtl import Objective


def make(*, balanced=True, strategies=("sus", "io")) -> FairHalving:
    return FairHalving(strategies, Objective("val/loss"), length=9, grace=1, balanced=balanced)


def play(halving, strategy, values, start=0):
    """Trials that report one value at epoch 1, in turn; returns who was stopped."""
    decisions = []
    for index, value in enumerate(values, start):
        trial = SimpleNamespace(
            trial_id=f"{strategy}{index}", config={"strategy": strategy, TRIAL: f"{strategy}{index}"}
        )
        halving.on_trial_add(None, trial)
        decisions.append(halving.on_trial_result(None, trial, {"epoch": 1, "val/loss": value}))
        halving.on_trial_complete(None, trial, {"epoch": 1, "val/loss": value})
    return [decision == TrialScheduler.STOP for decision in decisions]


def test_strategies_do_not_compete_with_each_other():
    halving = make()
    play(halving, "io", [0.1, 0.1, 0.1, 0.1])
    assert not play(halving, "sus", [5.0])[0]
    shared = make(balanced=False)
    play(shared, "io", [0.1, 0.1, 0.1, 0.1])
    assert play(shared, "sus", [5.0])[0]


def test_nobody_is_stopped_without_rungs():
    halving = make(strategies=None)
    assert not any(play(halving, "sus", [0.1, 0.1, 0.1, 9.0]))


def test_rungs_come_back():
    whole, first = make(), make()
    values = [0.5, 0.4, 0.9, 0.3, 0.8, 0.35, 0.31, 0.29]
    decisions = play(whole, "sus", values)
    play(first, "sus", values[:4])
    second = make()
    RungKeeper(second).set_state(RungKeeper(first).get_state())
    assert play(second, "sus", values[4:], start=4) == decisions[4:]
    assert RungKeeper(second).get_state() == RungKeeper(whole).get_state()
    assert any(decisions)


def test_between_two_events_the_experiment_can_be_saved_and_an_ended_trial_makes_it_urgent():
    asked = []
    controller = SimpleNamespace(get_live_trials=list)
    halving = make()
    halving.at_rest = lambda given, soon: asked.append((given is controller, soon))
    trial = SimpleNamespace(trial_id="a", config={"strategy": "sus", TRIAL: "0000"}, status="ERROR")
    halving.on_trial_add(controller, trial)
    halving.on_trial_error(controller, trial)
    for _ in range(2):
        assert halving.choose_trial_to_run(controller) is None
    assert asked == [(True, True), (True, False)]
    assert pickle.loads(pickle.dumps(halving)).at_rest is None


@given(losses=lists(floats(0, 1), min_size=4, max_size=12, unique=True), again=integers(0, 11))
def test_what_is_reported_again_is_decided_as_before(losses, again):
    halving = make()
    decisions = play(halving, "sus", losses)
    index = again % len(losses)
    before = RungKeeper(halving).get_state()
    assert play(halving, "sus", [losses[index]], start=index) == [decisions[index]]
    assert RungKeeper(halving).get_state()["rungs"]["sus"]["rungs"] == before["rungs"]["sus"]["rungs"]


def test_a_time_budget_counts_what_was_spent_before_a_resume():
    first = FairHalving(None, Objective(), length=9, grace=1, balanced=True, time_budget=100)
    first.spent_before = 99.0
    second = FairHalving(None, Objective(), length=9, grace=1, balanced=True, time_budget=99)
    assert not second.time_is_up
    RungKeeper(second).set_state(RungKeeper(first).get_state())
    assert second.time_is_up


def test_first_come_first_served_and_who_comes_back_is_last():
    halving, controller = make(), SimpleNamespace(get_live_trials=list)
    trials = [
        SimpleNamespace(trial_id=name, config={"strategy": "sus", TRIAL: name}, status="PENDING") for name in "abc"
    ]
    for trial in trials:
        halving.on_trial_add(controller, trial)
    assert halving.choose_trial_to_run(controller) is halving.choose_trial_to_run(controller) is trials[0]
    trials[0].status = "RUNNING"
    assert halving.choose_trial_to_run(controller) is trials[1]
    trials[0].status = "PENDING"
    halving.on_trial_add(controller, trials[0])
    assert halving.choose_trial_to_run(controller) is trials[1]
    trials[1].status = trials[2].status = "TERMINATED"
    assert halving.choose_trial_to_run(controller) is trials[0]
