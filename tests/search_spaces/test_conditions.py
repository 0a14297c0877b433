"""Options of an optimizer are searched for trials with it alone, whoever chooses."""

import math
from collections import Counter

import optuna
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

from search_spaces import Choice, IntRange, LogRange, Space
from tests.toys import toy_problem
from tune_mtl import Objective, UserError
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.ray_tune.turns import grid_turns, guided_turns
from tune_mtl.training.config import resolve

SPACE = Space(
    name="mine",
    strategies=("sus", "io"),
    dimensions={
        "adam_weight_decay": LogRange(1e-6, 1e-2),
        "lr": Choice((0.1, 0.2, 0.3)),
        "optimizer": Choice(("adam", "sgd")),
        "schedule": Choice(("constant", "cosine")),
        "cosine_final": Choice((0.0, 0.1)),
        "sgd_weight_decay": Choice((0.0, 0.5)),
    },
    per_strategy={"io": {"groups": Choice((2, 3))}},
    seeds=(0, 1),
)
OPTIONS = {"adam_weight_decay": "adam", "sgd_weight_decay": "sgd", "cosine_final": "cosine"}


def fits(config):
    """Whether a config has the options of its optimizer and schedule, all of them and no other."""
    chosen = (config["optimizer"], config["schedule"])
    return all((option in config) == (owner in chosen) for option, owner in OPTIONS.items())


def searcher(algorithm, **options):
    given = {"seed": 0, "balanced": True, "constant": {"epochs": 9}, "tasks": 3, **options}
    seeds = {0: 0, 1: 1}
    if algorithm == "grid":
        turns = grid_turns(SPACE, None, seeds)
    else:
        turns = guided_turns(SPACE, 60, 2 if given["balanced"] else 1, balanced=given["balanced"])
    return FairSearcher(SPACE, Objective("val/loss"), algorithm=algorithm, turns=turns, seeds=seeds, **given)


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("algorithm", ["optuna", "random", "optuna.samplers:NSGAIISampler"])
def test_no_trial_is_given_an_option_of_another_optimizer(algorithm, balanced):
    asked, problem = searcher(algorithm, balanced=balanced), toy_problem(3)
    optimizers = Counter()
    for index in range(60):
        config = asked.suggest(str(index))
        assert fits(config)
        optimizers[config["optimizer"]] += 1
        trained = {key: value for key, value in config.items() if key not in ("trial", "replicate")}
        resolve(problem, trained)
        value = abs(math.log10(config.get("adam_weight_decay", 1e-3)) + 4)
        asked.on_trial_complete(str(index), {"outcome": "completed", "best": value, "epoch": 9, "done": True})
    assert min(optimizers["adam"], optimizers["sgd"]) > 5


def test_first_draws_are_the_same_for_all_strategies():
    asked = searcher("optuna")
    first = [asked.suggest(str(index)) for index in range(8)]
    for sus, io in zip(first[::2], first[1::2], strict=True):
        assert {**sus, "strategy": "", "trial": ""} == {
            **{key: value for key, value in io.items() if key != "groups"}, "strategy": "", "trial": ""
        }  # fmt: skip


def test_a_grid_has_each_option_with_its_optimizer_and_is_counted_without_listing():
    configs = list(SPACE.grid("io"))
    decays = len(LogRange(1e-6, 1e-2).points())
    assert len(configs) == SPACE.grid_size("io") == 3 * (decays + 2) * (1 + 2) * 2 * 2
    assert all(map(fits, configs))
    assert len({str(sorted(config.items())) for config in configs}) == len(configs)
    assert all(fits(turn.config) for turn in grid_turns(SPACE, None, {0: 0}))


def test_what_was_tried_with_one_optimizer_is_learnt_for_it():
    asked = searcher("optuna")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(12):
        config = {**SPACE.suggest(study.ask(), "sus"), "epochs": 9, "seed": 0}
        assert set(SPACE.values(config)) == set(config) - {"strategy", "epochs", "seed"}
        assert asked.learn(config, value=0.5, reached=9, whole=True)
    learnt = asked.study(("sus", 0)).trials
    assert {trial.params["optimizer"] for trial in learnt} == {"adam", "sgd"}
    assert all(("adam_weight_decay" in trial.params) == (trial.params["optimizer"] == "adam") for trial in learnt)
    without = {key: value for key, value in config.items() if not key.startswith("adam_")}
    assert not asked.learn({**without, "optimizer": "adam"}, value=0.5, reached=9, whole=True)
    assert not asked.learn({**config, "model_width": 7}, value=0.5, reached=9, whole=True)


def test_ray_tunes_own_spaces_cannot_say_it():
    with pytest.raises(UserError, match="depend on the optimizer and schedule of a trial"):
        SPACE.to_ray("sus")
    narrowed = SPACE.narrowed(fixed={"optimizer": "sgd", "schedule": "constant"})
    assert "adam_weight_decay" not in narrowed.to_ray("sus")


@settings(max_examples=40)
@given(low=integers(1, 50), more=integers(0, 500), shares=integers(0, 1000))
def test_whole_numbers_on_a_log_scale_stay_in_their_range(low, more, shares):
    dimension = IntRange(low, low + more, log=True)
    points = dimension.points()
    assert (points[0], points[-1]) == (low, low + more)
    assert list(points) == sorted(set(points))
    assert low <= dimension.at(shares / 1000) <= low + more
    assert (dimension.at(0.0), dimension.at(1.0)) == (low, low + more)
