"""Samplers that users bring: seeded by their argument alone, saved exactly, and refused where that cannot be."""

import importlib.util
import random
from collections import Counter

import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from search_spaces import Choice, LogRange, Space
from tune_mtl import Objective, UserError
from tune_mtl.ray_tune.rehearsal import rehearse
from tune_mtl.ray_tune.samplers import admit_sampler
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.ray_tune.turns import guided_turns

SPACE = Space(
    name="s",
    strategies=("sus", "io"),
    dimensions={
        "lr": LogRange(1e-4, 1.0),
        "optimizer": Choice(("adam", "sgd")),
        "adam_eps": LogRange(1e-9, 1e-6),
    },
    per_strategy={"io": {"groups": Choice((2, 4))}},
)
HERE = "tests.ray_tune.test_samplers"
WELL = ("GPSampler", "NSGAIISampler", "NSGAIIISampler", "QMCSampler", "RandomSampler", "TPESampler")


class HalfAway(BaseSampler):
    """Goes half of the way from the last value to the best one, with a generator of its own."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def infer_relative_search_space(self, *_):
        return {}

    def sample_relative(self, *_):
        return {}

    def sample_independent(self, study, _, name, distribution):
        if not hasattr(distribution, "low"):
            return self.random.choice(distribution.choices)
        done = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE and name in t.params]
        low = min(done, key=lambda t: t.value).params[name] if done else distribution.low
        return low + 0.5 * self.random.random() * (distribution.high - low)


def make_tpe(seed, startup, trials):
    assert startup is not None
    assert trials >= 1
    return TPESampler(seed=seed, n_startup_trials=min(startup, 3))


def unseeded():
    return RandomSampler()


class Closed(RandomSampler):
    def __init__(self, seed):
        super().__init__(seed)
        self.unsaved = lambda: seed


class Global(HalfAway):
    random = random

    def __init__(self, seed):
        self.seed = seed


class SavedOtherwise(HalfAway):
    def __setstate__(self, state):
        self.random = random.Random(7)


def searcher(algorithm, trials=20, replicates=1, **options):
    turns = guided_turns(SPACE, trials, replicates, balanced=options.get("balanced", True))
    seeds = {index: index for index in range(replicates)}
    given = {"seed": 0, "balanced": True, "constant": {"epochs": 9}, "tasks": 4, **options}
    return FairSearcher(SPACE, Objective("val/loss"), algorithm=algorithm, turns=turns, seeds=seeds, **given)


ENDS = ("completed", "completed", "running", "diverged", "failed")


def drive(asked, start, stop):
    """Trials that end in every way, one after the other; returns their configs."""
    configs = []
    for index in range(start, stop):
        config = asked.suggest(str(index))
        end = ENDS[index // 2 % len(ENDS)]
        result = {"outcome": end, "epoch": 9, "done": True}
        asked.on_trial_complete(str(index), result if end in ENDS[3:] else {**result, "best": config["lr"]})
        configs.append(config)
    return configs


@pytest.mark.parametrize("algorithm", [*(f"optuna.samplers:{name}" for name in WELL), f"{HERE}:HalfAway"])
def test_a_restored_searcher_goes_on_exactly_with_any_sampler(tmp_path, algorithm):
    trials = 14 if "GP" in algorithm else 20
    whole = drive(searcher(algorithm, trials), 0, trials)
    first = searcher(algorithm, trials)
    drive(first, 0, 11)
    first.save(str(tmp_path / "state"))
    second = searcher(algorithm, trials)
    second.restore(str(tmp_path / "state"))
    assert drive(second, 11, trials) == whole[11:]
    assert Counter(config["strategy"] for config in whole) == {"sus": trials / 2, "io": trials / 2}
    assert all(("adam_eps" in config) == (config["optimizer"] == "adam") for config in whole)


@pytest.mark.parametrize("algorithm", ["optuna.samplers:NSGAIISampler", f"{HERE}:make_tpe", f"{HERE}:HalfAway"])
def test_strategies_begin_alike_and_know_nothing_of_each_other(algorithm):
    alike = ("lr", "optimizer", "adam_eps")
    configs = drive(searcher(algorithm, 16), 0, 16)
    for sus, io in zip(configs[:8:2], configs[1:8:2], strict=True):
        assert [sus.get(key) for key in alike] == [io.get(key) for key in alike]
    other = searcher(algorithm, 16)
    for index in range(16):  # io is told other results
        config = other.suggest(str(index))
        assert config["strategy"] == "io" or config == configs[index]
        end, told = ENDS[index // 2 % len(ENDS)], config["lr"] if config["strategy"] == "sus" else 1.0
        result = {"outcome": end, "epoch": 9, "done": True}
        other.on_trial_complete(str(index), result if end in ENDS[3:] else {**result, "best": told})


def test_replicates_have_samplers_of_their_own():
    configs = drive(searcher(f"{HERE}:HalfAway", 32, 2), 0, 32)
    assert not {config["lr"] for config in configs if config["replicate"] == 0} & {
        config["lr"] for config in configs if config["replicate"] == 1
    }


@pytest.mark.parametrize("name", [name for name in WELL if name != "GPSampler"])
def test_strategy_may_be_one_more_dimension(name):
    configs = drive(searcher(f"optuna.samplers:{name}", 30, balanced=False), 0, 30)
    assert {config["strategy"] for config in configs} == {"sus", "io"}
    assert all(("groups" in config) == (config["strategy"] == "io") for config in configs)


@pytest.mark.parametrize("name", ["TPESampler", "NSGAIISampler", "QMCSampler"])
def test_a_sampler_that_is_sound_is_taken_without_a_word(name):
    assert rehearse(f"optuna.samplers:{name}", SPACE, 8) == []
    assert rehearse("optuna", SPACE, 8) == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Global, "is not exact: everything random has to come from a generator of its own"),
        (Global, "although its seed is the same, so that no command repeats the search: seed everything random"),
        (unseeded, "although its seed is the same, so that no command repeats the search: have it take a seed"),
        (lambda: RandomSampler(3), "takes no seed: all tunings get the same suggestions"),
        (SavedOtherwise, "suggests other configs once it was saved"),
    ],
)
def test_what_chance_decides_is_warned_of(made, said):
    state = random.getstate()
    warned = rehearse(admit_sampler(made), SPACE, 8)
    assert any(said in line for line in warned)
    assert random.getstate() == state


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (f"{HERE}:Closed", "cannot be saved, so that no killed search could be resumed"),
        ("optuna.samplers:GridSampler", "use --algorithm grid"),
        ("optuna.samplers:BruteForceSampler", "use --algorithm grid"),
        ("optuna.samplers:PartialFixedSampler", "could not be made: TypeError"),
        ("optuna.samplers:GPSmapler", "Did you mean 'GPSampler'"),
        ("ray.tune.search.optuna:OptunaSearch", "is no sampler of Optuna's but the class OptunaSearch"),
        ("math:pi", "is no sampler of Optuna's but a float"),
        ("builtins:dict", "is no sampler of Optuna's but the class dict"),
        ("time:time", "gives a float, no sampler of Optuna's"),
        ("no_such_module:sampler", "does not import"),
        ("__main__:Gone", "was given as an object, which no other process can import"),
    ],
)
def test_what_is_no_sampler_for_a_search_is_refused_in_a_line(algorithm, said):
    with pytest.raises(UserError) as refused:
        rehearse(algorithm, SPACE, 8)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_package_that_is_missing_is_said_in_a_line():
    if importlib.util.find_spec("cmaes") is None:
        with pytest.raises(UserError, match="CmaEsSampler' needs a package that is not installed: No module named 'cm"):
            rehearse("optuna.samplers:CmaEsSampler", SPACE, 8)
    else:
        assert rehearse("optuna.samplers:CmaEsSampler", SPACE, 8) == []


def test_an_object_is_refused_since_every_tuning_needs_its_own():
    with pytest.raises(UserError, match="every tuning needs a sampler of its own"):
        admit_sampler(RandomSampler(0))


def test_a_warm_start_needs_a_sampler_that_learns():
    assert rehearse("optuna.samplers:TPESampler", SPACE, 8, must_learn=True) == []
    for name in ("RandomSampler", "QMCSampler"):
        with pytest.raises(UserError, match="needs an algorithm that learns"):
            rehearse(f"optuna.samplers:{name}", SPACE, 8, must_learn=True)
