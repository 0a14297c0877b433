"""Suggestions and their accounts, without Ray."""

import math
from collections import Counter

import pytest
from optuna.trial import TrialState

from search_spaces import Choice, LogRange, Space
from tune_mtl import Objective
from tune_mtl.searching.suggest import ANY, FairSearcher

SPACE = Space(
    name="s",
    strategies=("sus", "ius", "io"),
    dimensions={"lr": LogRange(1e-4, 1.0)},
    per_strategy={"ius": {"groups": Choice((2, 4))}, "io": {"groups": Choice((2, 4))}},
)


def make(samples=30, **options) -> FairSearcher:
    defaults = {"algorithm": "optuna", "seed": 0, "balanced": True, "constant": {"epochs": 9}, "tasks": 4}
    return FairSearcher(SPACE, Objective("val/loss"), samples=samples, **{**defaults, **options})


def ended(outcome, best=None, epoch=3):
    result = {"outcome": outcome, "epoch": epoch, "done": True}
    return result if best is None else {**result, "best": best, "val/loss": best}


def test_strategies_take_turns_and_get_equal_trials():
    searcher = make()
    configs = [searcher.suggest(f"ray{index}") for index in range(30)]
    assert searcher.suggest("ray30") == FairSearcher.FINISHED
    assert Counter(config["strategy"] for config in configs) == {"sus": 10, "ius": 10, "io": 10}
    assert [config["trial"] for config in configs] == [f"{index:04d}" for index in range(30)]
    assert all(config["epochs"] == 9 for config in configs)
    assert all(("groups" in config) == (config["strategy"] != "sus") for config in configs)


@pytest.mark.parametrize(
    ("result", "error", "state"),
    [
        (ended("completed", 0.5), False, TrialState.COMPLETE),
        (ended("running", 0.5), False, TrialState.PRUNED),
        (ended("diverged"), False, TrialState.PRUNED),
        (ended("failed"), False, TrialState.FAIL),
        (None, True, TrialState.FAIL),
    ],
)
def test_every_end_has_its_state_in_the_study(result, error, state):
    searcher = make()
    searcher.suggest("a")
    searcher.on_trial_complete("a", result, error)
    (trial,) = searcher._studies["sus"].trials
    assert trial.state == state
    if result and result["outcome"] == "diverged":
        assert all(math.isnan(value) for value in trial.intermediate_values.values())
    if result and result["outcome"] == "running":
        assert trial.intermediate_values == {3: 0.5}
    searcher.on_trial_complete("a", result, error)


def test_a_diverging_range_is_left_soon():
    searcher = make(samples=90)
    after_startup = []
    for index in range(90):
        config = searcher.suggest(str(index))
        lr = config["lr"]
        if lr > 1e-2:
            searcher.on_trial_complete(str(index), ended("diverged", epoch=0))
        else:
            searcher.on_trial_complete(str(index), ended("completed", abs(math.log10(lr) + 3), epoch=9))
        if index >= 30:
            after_startup.append(lr > 1e-2)
    assert sum(after_startup) / len(after_startup) < 0.5


def test_a_restored_searcher_goes_on_exactly(tmp_path):
    def drive(searcher, start, stop):
        configs = []
        for index in range(start, stop):
            config = searcher.suggest(str(index))
            searcher.on_trial_result(str(index), {"epoch": 1, "best": config["lr"], "outcome": "running"})
            searcher.on_trial_complete(str(index), ended("completed", config["lr"], epoch=9))
            configs.append(config)
        return configs

    whole = drive(make(), 0, 24)
    first = make()
    drive(first, 0, 11)
    first.save(str(tmp_path / "state"))
    drive(first, 11, 15)
    second = make()
    second.restore(str(tmp_path / "state"))
    assert drive(second, 11, 24) == whole[11:]


def test_a_grid_is_interleaved_and_bounded():
    searcher = make(samples=None, algorithm="grid")
    configs = []
    while (config := searcher.suggest(str(len(configs)))) != FairSearcher.FINISHED:
        configs.append(config)
    assert len(configs) == searcher.total == 13 + 26 + 26
    assert [config["strategy"] for config in configs[:6]] == ["sus", "ius", "io"] * 2
    assert make(samples=7, algorithm="grid").total == 7


def test_without_balance_strategy_is_one_more_dimension():
    searcher = make(samples=40, balanced=False)
    for index in range(40):
        config = searcher.suggest(str(index))
        good = config["strategy"] == "io"
        searcher.on_trial_complete(str(index), ended("completed", 0.0 if good else 1.0, epoch=9))
    counts = Counter(trial.params["strategy"] for trial in searcher._studies[ANY].trials)
    assert counts["io"] > 20


def test_random_and_seed():
    first, second, other = (
        [make(algorithm="random", seed=seed).suggest("a")["lr"] for _ in range(1)] for seed in (1, 1, 2)
    )
    assert first == second != other


def test_a_trial_that_was_started_keeps_its_config_whatever_is_suggested_anew(tmp_path):
    first = make(samples=12)
    configs = [first.suggest(f"ray{index}") for index in range(12)]
    other = make(samples=12, seed=5)
    other.diary.started = {config["trial"]: without_trial(config) for config in configs[:7]}
    again = [other.suggest(f"ray{index}") for index in range(12)]
    assert again[:7] == configs[:7]
    assert [config["strategy"] for config in again] == [config["strategy"] for config in configs]
    assert again[7:] != configs[7:]
    for index in range(7):
        other.on_trial_complete(f"ray{index}", ended("completed", 0.5))
    states = Counter(trial.state for study in other._studies.values() for trial in study.trials)
    assert states[TrialState.COMPLETE] == 7


def test_the_same_suggestion_leaves_no_trace():
    first, second = make(), make()
    configs = [first.suggest(str(index)) for index in range(6)]
    second.diary.started = {config["trial"]: without_trial(config) for config in configs}
    assert [second.suggest(str(index)) for index in range(6)] == configs
    assert all(trial.state == TrialState.RUNNING for study in second._studies.values() for trial in study.trials)


def without_trial(config):
    return {key: value for key, value in config.items() if key != "trial"}


@pytest.mark.parametrize(
    ("changes", "given", "state"),
    [
        ({}, {"value": 0.5, "reached": 9, "whole": True}, TrialState.COMPLETE),
        ({}, {"value": 0.5, "reached": 3, "whole": False}, TrialState.PRUNED),
        ({}, {"value": None, "reached": 9, "whole": True}, TrialState.PRUNED),
        ({"epochs": 99}, {"value": 0.5, "reached": 9, "whole": True}, TrialState.COMPLETE),
        ({"seed": 7}, {"value": 0.5, "reached": 9, "whole": True}, TrialState.COMPLETE),
        ({"lr": 7.0}, {"value": 0.5, "reached": 9, "whole": True}, None),
        ({"groups": 3}, {"value": 0.5, "reached": 9, "whole": True}, None),
        ({"strategy": "stl"}, {"value": 0.5, "reached": 9, "whole": True}, None),
        ({"batch_size": 3}, {"value": 0.5, "reached": 9, "whole": True}, None),
    ],
)
@pytest.mark.parametrize("balanced", [True, False])
def test_trials_of_another_search_are_learnt_at_their_fidelity(changes, given, state, balanced):
    searcher = make(balanced=balanced, constant={"epochs": 9, "batch_size": 8})
    config = {"strategy": "io", "lr": 0.01, "groups": 2, "seed": 0, "epochs": 9, "batch_size": 8, **changes}
    assert searcher.learn(config, **given) == (state is not None)
    found = [trial for study in searcher._studies.values() for trial in study.trials]
    assert [trial.state for trial in found] == ([] if state is None else [state])
    if state is not None:
        assert found[0].params.items() >= {"lr": 0.01, "groups": 2}.items()
        last = found[0].intermediate_values[max(found[0].intermediate_values)]
        assert math.isnan(last) if given["value"] is None else last == given["value"]


def test_a_warm_searcher_is_guided_from_its_first_suggestion():
    warm = make(samples=60)
    for index in range(40):
        lr = 10 ** (-4 + index / 10)
        warm.learn({"strategy": "sus", "lr": lr, "seed": 0, "epochs": 9}, value=abs(index - 5), reached=9, whole=True)
    chosen = [warm.suggest(str(index))["lr"] for index in range(0, 60)][::3]
    assert sum(lr < 1e-3 for lr in chosen) > 12
