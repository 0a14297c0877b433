"""Suggestions and their accounts, without Ray."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers
from optuna.trial import TrialState

from search_spaces import Choice, LogRange, Space
from trainables.keys import judged
from tune_mtl import Objective
from tune_mtl.ray_tune.searcher import ANY, FairSearcher, common_draw
from tune_mtl.ray_tune.turns import grid_turns, guided_turns
from tune_mtl.results.settings import Growth

SPACE = Space(
    name="s",
    strategies=("sus", "ius", "io"),
    dimensions={"lr": LogRange(1e-4, 1.0)},
    per_strategy={"ius": {"groups": Choice((2, 4))}, "io": {"groups": Choice((2, 4))}},
)


def make(samples=30, replicates=1, **options) -> FairSearcher:
    given = {"algorithm": "optuna", "seed": 0, "balanced": True, "constant": {"epochs": 9}, "tasks": 4, **options}
    seeds = {index: given["seed"] + index for index in range(replicates)}
    if given["algorithm"] == "grid":
        turns = grid_turns(SPACE, samples, seeds)
    else:
        turns = guided_turns(SPACE, samples, replicates, balanced=given["balanced"])
    return FairSearcher(SPACE, Objective("val/loss"), turns=turns, seeds=seeds, **given)


def asked(searcher, count=None) -> list[dict]:
    """The next ``count`` suggestions, or all that there are."""
    configs = []
    while (count is None or len(configs) < count) and (config := searcher.suggest(f"asked{len(configs)}")) is not None:
        if config == FairSearcher.FINISHED:
            break
        configs.append(config)
    return configs


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
    (trial,) = searcher.study(("sus", 0)).trials
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


@pytest.mark.parametrize(("samples", "replicates", "last"), [(30, 1, 24), (54, 3, 54)])
def test_a_restored_searcher_goes_on_exactly(tmp_path, samples, replicates, last):
    whole = drive(make(samples, replicates), 0, last)
    first = make(samples, replicates)
    drive(first, 0, 11)
    first.save(str(tmp_path / "state"))
    drive(first, 11, 15)
    second = make(samples, replicates)
    second.restore(str(tmp_path / "state"))
    assert drive(second, 11, last) == whole[11:]


def drive(searcher, start, stop):
    """Trials that report and end, one after the other; returns their configs."""
    configs = []
    for index in range(start, stop):
        config = searcher.suggest(str(index))
        searcher.on_trial_result(str(index), {"epoch": 1, "best": config["lr"], "outcome": "running"})
        searcher.on_trial_complete(str(index), ended("completed", config["lr"], epoch=9))
        configs.append(config)
    return configs


def test_a_grid_is_interleaved_and_bounded():
    searcher = make(samples=None, algorithm="grid")
    configs = asked(searcher)
    assert len(configs) == searcher.total == 13 + 26 + 26
    assert [config["strategy"] for config in configs[:6]] == ["sus", "ius", "io"] * 2
    assert make(samples=7, algorithm="grid").total == 7


def test_without_balance_strategy_is_one_more_dimension():
    searcher = make(samples=40, balanced=False)
    for index in range(40):
        config = searcher.suggest(str(index))
        good = config["strategy"] == "io"
        searcher.on_trial_complete(str(index), ended("completed", 0.0 if good else 1.0, epoch=9))
    counts = Counter(trial.params["strategy"] for trial in searcher.study((ANY, 0)).trials)
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
    other.seeds = first.seeds
    other.replay.started = {config["trial"]: without_trial(config) for config in configs[:7]}
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
    second.replay.started = {config["trial"]: without_trial(config) for config in configs}
    assert [second.suggest(str(index)) for index in range(6)] == configs
    assert all(trial.state == TrialState.RUNNING for study in second._studies.values() for trial in study.trials)


def without_trial(config):
    return {key: value for key, value in config.items() if key not in ("trial", "replicate")}


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


def rates(configs, strategy, replicate=0):
    return [config["lr"] for config in configs if (config["strategy"], config["replicate"]) == (strategy, replicate)]


@pytest.mark.parametrize("algorithm", ["optuna", "random"])
@pytest.mark.parametrize("seed", [0, 7])
def test_within_a_replicate_all_strategies_begin_with_the_same_draws(algorithm, seed):
    """Those with more dimensions too, whatever their trials reach; the group counts are common to whoever has them."""
    configs = drive(make(45, 3, algorithm=algorithm, seed=seed), 0, 45)
    startup = 4 if algorithm == "optuna" else 5
    for replicate in range(3):
        first = rates(configs, "sus", replicate)[:startup]
        assert len(set(first)) == startup
        assert rates(configs, "ius", replicate)[:startup] == first == rates(configs, "io", replicate)[:startup]
        groups = {
            name: [c["groups"] for c in configs if (c["strategy"], c["replicate"]) == (name, replicate)][:startup]
            for name in ("ius", "io")
        }
        assert groups["ius"] == groups["io"]


def test_after_the_start_a_tuning_is_guided_by_its_own_trials():
    searcher = make(120, 2)
    configs = drive(searcher, 0, 120)
    late = [rates(configs, strategy)[10:] for strategy in ("sus", "io")]
    assert late[0] != late[1]
    assert all(sum(lr < 1e-2 for lr in found) > len(found) / 2 for found in late)
    assert {len(searcher.study((name, index)).trials) for name in SPACE.strategies for index in range(2)} == {20}


@pytest.mark.parametrize("algorithm", ["optuna", "random"])
def test_replicates_draw_anew_and_train_with_other_seeds(algorithm):
    configs = asked(make(48, 4, algorithm=algorithm, seed=5))
    drawn = [rates(configs, "sus", replicate) for replicate in range(4)]
    assert len({lr for found in drawn for lr in found}) == sum(map(len, drawn)) == 16
    assert {(config["replicate"], config["seed"]) for config in configs} == {(0, 5), (1, 6), (2, 7), (3, 8)}
    other = asked(make(48, 4, algorithm=algorithm, seed=6))
    assert not set(rates(other, "sus", 0)) & {lr for found in drawn for lr in found}


@given(seed=integers(0, 2**31), replicate=integers(0, 99), strata=integers(1, 12))
def test_the_first_draws_fill_every_dimension_evenly(seed, replicate, strata):
    for dimension in ("lr", "groups"):
        shares = [common_draw(seed, replicate, dimension, index, strata) for index in range(strata)]
        assert sorted(int(share * strata) for share in shares) == list(range(strata))
        assert all(0 <= share < 1 for share in shares)


@settings(max_examples=20)
@given(seed=integers(0, 2**31))
def test_the_first_rates_of_a_tuning_are_one_in_each_quarter_of_the_range(seed):
    configs = asked(make(24, 2, seed=seed))
    for replicate in range(2):
        found = rates(configs, "io", replicate)
        assert sorted(int((math.log10(lr) + 4) / 4 * len(found)) for lr in found) == list(range(len(found)))


def test_a_searcher_that_grows_keeps_what_was():
    whole, grown = make(24, 2), make(24, 2)
    before = drive(whole, 0, 24)
    assert drive(grown, 0, 24) == before
    more = (Growth(replicates=(2, 3), strategies=("sus", "io"), trials=16),)
    grown.turns = guided_turns(SPACE, 24, 2, more, balanced=True)
    grown.seeds = {index: index for index in range(4)}
    assert grown.suggest("next")["trial"] == "0024"
    grown.on_trial_complete("next", ended("completed", 0.5))
    added = drive(grown, 25, 40)
    assert grown.suggest("end") == FairSearcher.FINISHED
    assert Counter((config["strategy"], config["replicate"]) for config in added) == {
        ("sus", 2): 3, ("io", 2): 4, ("sus", 3): 4, ("io", 3): 4,
    }  # fmt: skip
    larger = drive(make(48, 4), 0, 48)
    assert rates(added, "io", 3) == rates(larger, "io", 3)
    assert {config["seed"] for config in added} == {2, 3}


def test_on_a_grid_every_seed_is_a_replicate():
    configs = asked(make(None, 3, algorithm="grid", seed=4))
    assert {(config["replicate"], config["seed"]) for config in configs} == {(0, 4), (1, 5), (2, 6)}
    assert Counter(config["replicate"] for config in configs) == dict.fromkeys(range(3), 13 + 26 + 26)


@pytest.mark.parametrize(("judge", "expected"), [("last", 0.5), ("best", 0.3), ("smoothed", 0.4)])
def test_a_trial_is_judged_by_the_value_that_was_asked_for(judge, expected):
    searcher = make(judged=judged(judge, "val/loss"))
    searcher.suggest("a")
    result = {"epoch": 2, "val/loss": 0.5, "best": 0.3, "smoothed": 0.4}
    searcher.on_trial_result("a", result)
    (trial,) = searcher.study(("sus", 0)).trials
    assert trial.intermediate_values == {2: expected}
    searcher.on_trial_complete("a", {**result, "outcome": "completed", "done": True})
    assert searcher.study(("sus", 0)).trials[0].value == expected


def test_a_searcher_of_an_earlier_version_judges_as_it_did():
    searcher = make()
    del searcher.__dict__["_judged"]
    searcher.suggest("a")
    searcher.on_trial_complete("a", {**ended("completed", 0.5), "best": 0.3})
    assert searcher.study(("sus", 0)).trials[0].value == 0.3
