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
