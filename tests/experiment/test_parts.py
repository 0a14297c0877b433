"""Optimizers and schedules that users bring to a search: by name in its trials, with options only where they apply."""

import shlex

import pytest
from optuna.trial import FixedTrial

from search_spaces import Choice, IntRange, Space
from tests.strategies.test_own_optimizers import Marked
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.planning.parts import readmit_parts, with_parts
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.problem_facts import problem_facts
from tune_mtl.problems.registry import load_problem
from tune_mtl.results.best_trial import train_command
from tune_mtl.results.settings import Settings
from tune_mtl.training.config import resolve

MARKED, HALVES = "tests.strategies.test_own_optimizers:Marked", "tests.strategies.test_schedules:halves"


def plan(**more) -> Plan:
    return plan_search(toy_problem(2), strategies=["sus", "io"], replicates=1, **more)


@pytest.mark.parametrize(
    "given",
    [
        {"optimizer": Marked, "schedule": HALVES},
        {"optimizer": MARKED, "schedule": HALVES},
        {"fixed": {"optimizer": MARKED, "schedule": HALVES}},
        {"optimizer": MARKED, "schedule": HALVES, "fixed": {"optimizer": Marked}},
    ],
)
def test_a_flag_and_a_fixed_value_mean_the_same(given):
    made = plan(**given)
    assert made.references == (MARKED, HALVES)
    config = made.first_config("io").as_dict()
    told = ("optimizer", "optimizer_from", "schedule", "schedule_from")
    assert tuple(config[key] for key in told) == ("marked", MARKED, "halves", HALVES)
    assert "marked_momentum" in made.space.of("sus"), "what is tunable is searched"
    assert resolve(made.problem, config).as_dict() == config
    assert problem_facts(made)["parts"] == {"optimizer": {"marked": MARKED}, "schedule": {"halves": HALVES}}
    words = shlex.split(train_command(config))
    assert words[words.index("--optimizer") + 1] == MARKED
    assert words[words.index("--schedule") + 1] == HALVES
    assert not any(word.startswith(("optimizer_from", "schedule_from")) for word in words)


def test_what_contradicts_itself_is_refused_in_a_line():
    with pytest.raises(UserError, match="optimizer=adam and --set optimizer=sgd contradict each other"):
        plan(optimizer="adam", fixed={"optimizer": "sgd"})
    with pytest.raises(UserError, match="--set adam_eps: it belongs to optimizer 'adam', which no trial has"):
        plan(optimizer=MARKED, fixed={"adam_eps": 1e-7})
    with pytest.raises(UserError, match="optimizer '__main__:Gone' was given as an object, which no other process"):
        readmit_parts({"optimizer": "__main__:Gone"})


def test_settings_are_kept_and_a_search_that_goes_on_has_the_same_space():
    made = plan(optimizer=Marked, schedule=HALVES, fixed={"marked_momentum": 0.7})
    kept = Settings(**made.settings.public())
    assert (kept.optimizer, kept.schedule) == (MARKED, HALVES)
    assert Plan.make(load_problem(toy_problem(2)), kept).space == made.space
    assert made.space.of("io")["marked_momentum"].points() == (0.7,)


def several() -> Space:
    dimensions = {"optimizer": Choice(("adam", MARKED)), "marked_said": Choice(("a", "b")), "lr": Choice((0.1, 0.2))}
    dimensions |= {"adam_amsgrad": Choice((False, True)), "schedule": Choice(("constant", "step"))}
    dimensions |= {"step_every": IntRange(1, 3)}
    return with_parts(Space(name="own", strategies=("sus",), dimensions=dimensions), toy_problem(2))


def test_options_are_dimensions_only_of_trials_that_use_their_owner():
    space = several()
    configs = list(space.grid("sus"))
    assert len(configs) == space.grid_size("sus") == 2 * (2 + 2) * (1 + 3)
    assert len({tuple(sorted(map(str, config.items()))) for config in configs}) == len(configs)
    for config in configs:
        assert ("marked_said" in config) == (config["optimizer"] == "marked") == ("optimizer_from" in config)
        assert ("adam_amsgrad" in config) == (config["optimizer"] == "adam")
        assert ("step_every" in config) == (config["schedule"] == "step")
        resolve(toy_problem(2), config)


def test_only_those_are_suggested_and_remembered():
    space = several()
    asked = {"optimizer": "marked", "marked_said": "b", "lr": 0.1, "schedule": "constant"}
    config = space.suggest(FixedTrial(asked), "sus")
    assert {key: config[key] for key in asked} == asked
    assert config["optimizer_from"] == MARKED
    assert space.values(config) == asked
    with pytest.raises(UserError, match="which Ray Tune's own spaces cannot say"):
        space.to_ray("sus")


def test_a_space_of_a_problem_may_name_them_and_the_plan_tries_each():
    problem = toy_problem(2)
    problem.spaces = {"own": several()}
    made = plan_search(problem, space="own", replicates=1)
    assert made.references == (MARKED,)
    assert made.tried("optimizer") == ("adam", "marked")
    assert not {"optimizer", "optimizer_from", "schedule"} & made.constant.keys()
