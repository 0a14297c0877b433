"""Rungs: one set per strategy, kept through a resume."""

from types import SimpleNamespace

import pytest
from ray.tune.schedulers import TrialScheduler

from tune_mtl import Objective
from tune_mtl.searching.halving import FairHalving, RungKeeper


def make(*, balanced=True, strategies=("sus", "io")) -> FairHalving:
    return FairHalving(strategies, Objective("val/loss"), length=9, grace=1, balanced=balanced)


def play(halving, strategy, values, start=0):
    """Trials that report one value at epoch 1, in turn; returns who was stopped."""
    decisions = []
    for index, value in enumerate(values, start):
        trial = SimpleNamespace(trial_id=f"{strategy}{index}", config={"strategy": strategy})
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


def test_an_ended_trial_has_the_experiment_saved():
    saved = []
    controller = SimpleNamespace(checkpoint=lambda force: saved.append(force), get_live_trials=list)
    halving = make()
    trial = SimpleNamespace(trial_id="a", config={"strategy": "sus"})
    halving.on_trial_add(controller, trial)
    halving.on_trial_error(controller, trial)
    with pytest.raises(AttributeError):
        halving.choose_trial_to_run(SimpleNamespace(checkpoint=controller.checkpoint))
    assert saved == [True]
