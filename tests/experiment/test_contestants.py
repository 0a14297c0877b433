"""Strategies that users bring to a search: planned like all others, and held to their records before it starts."""

import re
import sys
from typing import Annotated

import pytest

from tests.toys import toy_problem
from tune_mtl import Options, StrategyInfo, Tunable, UserError
from tune_mtl.experiment.planning.contestants import readmit
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.problems.registry import load_problem
from tune_mtl.results.best_trial import train_command
from tune_mtl.results.settings import Settings
from tune_mtl.strategies.methods.io import IndividualOptimizers
from tune_mtl.strategies.methods.sus import SharedUpdateSteps
from tune_mtl.training.config import resolve

RECORD = {"title": "Mine", "rule": "one step"}
HERE = "tests.experiment.test_contestants"


class ScaledOptions(Options):
    """By how much."""

    factor: Annotated[float, Tunable(0.5, 2.0)] = 1.0


class Scaled(SharedUpdateSteps):
    info = StrategyInfo(options=ScaledOptions, **RECORD)


class Grouped(IndividualOptimizers):
    info = StrategyInfo(has_groups=True, forwards="G", backwards="G", updates="G", states="G", **RECORD)


class Twin(SharedUpdateSteps):
    info = StrategyInfo(name="scaled", **RECORD)


class IgnoresGroups(SharedUpdateSteps):
    info = StrategyInfo(has_groups=True, **RECORD)


class CountsWrong(SharedUpdateSteps):
    info = StrategyInfo(updates="N", **RECORD)


class Fails(SharedUpdateSteps):
    info = StrategyInfo(**RECORD)

    def learn(self, batch):
        return super().learn(batch.labels)


class EverySecond(SharedUpdateSteps):
    info = StrategyInfo(**RECORD)

    def learn(self, batch):
        return super().learn(batch) if self.mini_batches % 2 == 0 else self.look(batch)


class Exits(SharedUpdateSteps):
    info = StrategyInfo(**RECORD)

    def setup(self):
        sys.exit(3)


class Batch(SharedUpdateSteps):
    class Own(Options):
        """A config calls it batch_size."""

        size: int = 3

    info = StrategyInfo(options=Own, **RECORD)


def plan(*strategies, **more) -> Plan:
    return plan_search(toy_problem(2), strategies=list(strategies), replicates=1, **more)


def test_a_strategy_that_is_brought_is_planned_like_any_other():
    made = plan("sus", Scaled, f"{HERE}:Grouped")
    assert made.space.strategies == ("sus", "scaled", "grouped")
    assert made.settings.contestants == {"scaled": f"{HERE}:Scaled", "grouped": f"{HERE}:Grouped"}
    assert {"lr", "scaled_factor"} <= made.space.of("scaled").keys(), "what is tunable is searched"
    assert "groups" in made.space.of("grouped")
    assert made.references == (f"{HERE}:Scaled", f"{HERE}:Grouped")
    assert not {"strategy", "strategy_from"} & made.constant.keys()
    made.check_strategies()


def test_a_config_says_where_the_class_is_found_and_only_of_those_brought():
    made = plan("sus", Scaled)
    configs = {
        name: resolve(made.problem, made.completed(next(made.space.grid(name)))).as_dict() for name in ("sus", "scaled")
    }
    assert configs["scaled"]["strategy_from"] == f"{HERE}:Scaled"
    assert "strategy_from" not in configs["sus"]
    assert f"--strategy {HERE}:Scaled " in train_command({**configs["scaled"], "last": 1})
    assert resolve(made.problem, configs["scaled"]).as_dict() == configs["scaled"]


@pytest.mark.parametrize("asked", [Scaled, f"{HERE}:Scaled", "scaled"])
def test_a_trial_takes_a_strategy_as_it_is_given(asked):
    plan(Scaled)
    config = resolve(toy_problem(2), {"strategy": asked, "lr": 0.1, "scaled_factor": 2.0})
    assert (config.strategy, config.strategy_from) == ("scaled", f"{HERE}:Scaled")


def test_a_flag_replaces_the_strategy_of_a_config_file():
    kept = {"strategy": "scaled", "strategy_from": f"{HERE}:Scaled", "lr": 0.1}
    assert resolve(toy_problem(2), {**kept, "strategy": "sus"}).as_dict().get("strategy_from") is None
    other = resolve(toy_problem(2), {**kept, "strategy": f"{HERE}:Grouped"})
    assert (other.strategy, other.strategy_from, other.groups) == ("grouped", f"{HERE}:Grouped", 2)
    with pytest.raises(
        UserError, match=f"strategy 'wrong' is to be found as '{HERE}:Scaled', but .* is named 'scaled'"
    ):
        resolve(toy_problem(2), {**kept, "strategy": "wrong"})


def test_a_search_that_goes_on_has_its_strategies_again():
    made = plan("sus", Scaled)
    kept = Settings(**made.settings.public())
    again = Plan.make(load_problem(toy_problem(2)), kept)
    assert again.space == made.space
    with pytest.raises(UserError, match=f"strategy 'other' of this search is '{HERE}:Scaled', which is named 'scaled'"):
        readmit({"other": f"{HERE}:Scaled"})
    with pytest.raises(UserError, match="was given as an object, __main__:Gone, which no other process can import"):
        readmit({"gone": "__main__:Gone"})


def test_all_stands_beside_those_that_are_brought():
    made = plan("all", Scaled)
    assert made.space.strategies[-1] == "scaled"
    assert "sus" in made.space.strategies
    with pytest.raises(UserError, match="'all' stands for sus too"):
        plan("all", "sus")


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        ((Scaled, Twin), f"strategies '{HERE}:Scaled' and '{HERE}:Twin' are both named 'scaled'"),
        ((Scaled, Scaled), "strategies must be one or more different ones, got scaled, scaled"),
        ((IgnoresGroups,), "declares has_groups, but learns the same with 1 group and with 2"),
        ((CountsWrong,), "declares updates='N' per mini-batch, 6 in 3 of them, and took 3"),
        ((EverySecond,), "took 2 updates in 3 mini-batches: step in each"),
        ((f"./{HERE}:Scaled",), f"must be package.module:attribute, without a path: {HERE}:Scaled"),
        (("rules.py:Scaled",), "must be package.module:attribute, without a path: rules:Scaled"),
        (("__main__:Gone",), "'__main__:Gone' was given as an object, which no other process can import"),
        ((Fails,), "strategy 'fails' fails on its first mini-batches: AttributeError: 'Labelled' object has no"),
        ((Exits,), "strategy 'exits' fails on its first mini-batches: SystemExit: 3"),
        ((Batch,), "has an option that a config calls 'batch_size'"),
    ],
)
def test_what_cannot_compete_is_refused_in_a_line_before_anything_starts(strategies, said):
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        plan(*strategies)
    assert "\n" not in str(refused.value)


def test_a_failure_names_the_line_of_the_users_own_file():
    with pytest.raises(UserError, match=r"\(.*test_contestants\.py:\d+\)$"):
        plan(Fails)
