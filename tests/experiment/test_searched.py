"""What is searched, as a user asks for it: further dimensions, files and objects; what cannot be is one line."""

import json
import shlex
from itertools import pairwise

import pytest

from search_spaces import Choice, IntRange, LogRange, Range, Space, find_space
from search_spaces.files import text_of
from search_spaces.texts import read_dimension
from tests.reporting.stories import Imagined
from tests.toys import toy_problem
from tune_mtl import Options, StrategyInfo, UserError
from tune_mtl.commands.settings_flags import given_options
from tune_mtl.core.options import build
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.searched import keep_space
from tune_mtl.experiment.problem_facts import problem_facts
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.reporting.search_command import search_command
from tune_mtl.results.settings import Settings
from tune_mtl.strategies.methods.sus import SharedUpdateSteps
from tune_mtl.tracking.names import SPACE_FILE

TWO = {"strategies": ["sus", "io"]}
THREE = {"strategies": ["sus", "io", "gradnorm"]}
VARIED = {
    "model_width": "4:16", "optimizer": ["adam", "sgd"], "adam_weight_decay": "1e-6:1e-2:log", "batch_size": "4:16:log",
    "gradnorm_alpha": "1:3:log", "clip_norm": "1:5", "adam_amsgrad": "true,false", "lr": "1e-3:1e-1",
}  # fmt: skip


def planned(**given):
    return plan_search(toy_problem(3), **given)


def suggested(plan, count=24):
    searcher = FairSearcher(
        plan.space, plan.objective, algorithm="optuna", turns=plan.turns, seeds=plan.seeds, seed=plan.settings.seed,
        balanced=True, constant=plan.constant, tasks=3,
    )  # fmt: skip
    return [searcher.suggest(str(index)) for index in range(count)]


def test_any_value_or_option_becomes_a_dimension_of_those_that_have_it():
    plan = planned(vary=VARIED, **THREE)
    everyone = {
        "lr": LogRange(1e-3, 1e-1), "model_width": IntRange(4, 16), "optimizer": Choice(("adam", "sgd")),
        "adam_weight_decay": LogRange(1e-6, 1e-2), "batch_size": IntRange(4, 16, log=True),
        "clip_norm": Range(1.0, 5.0), "adam_amsgrad": Choice((True, False)),
    }  # fmt: skip
    assert plan.space.of("sus") == everyone
    assert plan.space.of("gradnorm") == everyone | {"gradnorm_alpha": LogRange(1.0, 3.0)}
    assert type(plan.space.of("sus")["clip_norm"]) is Range
    assert set(everyone) <= set(plan.varied)
    assert set(everyone) <= set(plan.searched)
    facts = problem_facts(plan)["dimensions"]
    assert facts["sus"]["batch_size"] == {"low": 4, "high": 16, "log": True}
    assert "gradnorm_alpha" not in facts["io"]
    for config in suggested(plan):
        assert ("adam_weight_decay" in config) == ("adam_amsgrad" in config) == (config["optimizer"] == "adam")
        assert not {"model_width", "optimizer", "batch_size", "lr"} - config.keys()


def test_a_learning_rate_means_the_same_in_either_place():
    spaces = [planned(**given, **TWO).space for given in ({"lr": "1e-3:1e-1"}, {"vary": {"lr": "1e-3:1e-1"}})]
    assert spaces[0] == spaces[1]
    grouped = [planned(**given, **TWO).space for given in ({"groups": "1,3"}, {"vary": {"groups": "1,3"}})]
    assert [space.of("io") for space in grouped] == [grouped[0].of("io")] * 2
    assert "groups" not in grouped[1].of("sus")


def test_an_option_that_every_trial_has_is_for_trials_with_its_optimizer_alone():
    plan = planned(vary={"optimizer": "adam,sgd"}, fixed={"adam_eps": 1e-6}, **TWO)
    assert all((config.get("adam_eps") == 1e-6) == (config["optimizer"] == "adam") for config in suggested(plan))


@pytest.mark.parametrize(
    ("vary", "given", "said"),
    [
        ({"wdith": "1,2"}, {}, "unknown option 'wdith'"),
        ({"model_widht": "1,2"}, {}, "unknown option 'model_widht'. Did you mean 'model_width'"),
        ({"gradnorm_alpha": "1:3"}, {}, "belongs to strategy 'gradnorm', which is not compared: add gradnorm"),
        ({"sgd_weight_decay": "0:1"}, {}, "belongs to optimizer 'sgd', which no trial has (they have adam)"),
        ({"cosine_final": "0:1"}, {}, "belongs to schedule 'cosine', which no trial has (they have constant)"),
        ({"lr": "1:2"}, {"lr": "1"}, "--lr and --search lr say the same"),
        ({"groups": "1:2"}, {"groups": "2"}, "--groups and --search groups say the same"),
        (
            {"adam_eps": "1:2"},
            {"fixed": {"adam_eps": 1}},
            "adam_eps is in --set, which every trial has, and in --search",
        ),
        ({"adam_betas.a": "1:2"}, {"fixed": {"adam_betas": [0, 1]}}, "adam_betas is in --set, which every"),
        ({"lr.x": "1,2"}, {}, "lr.x is a part of lr, which has a value of its own"),
        ({"lr": [1e-3, None]}, {}, "has trials of strategy 'sus' without a learning rate: give --lr"),
        ({"optimizer": "adam,torch.optim:Adam"}, {}, "optimizer='torch.optim:Adam' is 'adam', which is there twice"),
        ({"seed": "1,2"}, {}, "seed is no dimension of a search"),
        ({"epochs": "1,2"}, {}, "use --max-epochs"),
        ({"metric": "1,2"}, {}, "use --metric"),
        ({"problem_data": "a,b"}, {}, "all trials have the same problem"),
        ({"batch_size": "0,32"}, {}, "batch_size=0 should be greater than"),
        ({"batch_size": "0:32"}, {}, "batch_size=0 should be greater than"),
        ({"batch_size": "8.5:32"}, {}, "batch_size=8.5 should be a valid integer"),
        ({"optimizer": "adam,adm"}, {}, "unknown optimizer 'adm'. Did you mean 'adam'"),
        ({"adam_weight_decay": "-1:1"}, {}, "adam_weight_decay=-1"),
        ({"groups": "1:9"}, {}, "groups=9 is impossible with 3 tasks"),
        ({"lr": "1:0.1"}, {}, "--search lr: range 1:0.1 must go from a smaller"),
        ({"lr": "0:1"}, {}, "must be above 0"),
        ({"lr": ""}, {}, "--search lr: has no values"),
        ({"model_width": "-1,8"}, {}, "--search model_width: problem 'toy' has no network that can be trained with"),
        ({"model_width": "wide,8"}, {}, "model_width='wide'"),
    ],
)
def test_what_cannot_be_searched_is_one_line(vary, given, said):
    with pytest.raises(UserError) as refused:
        planned(vary=vary, **given, **TWO)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_printed_space_suggests_what_the_built_in_one_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built_in = planned(space="wide", vary={"model_width": "4,8"}, **THREE)
    space = find_space(toy_problem(3), "wide").narrowed(strategies=("sus", "io", "gradnorm"))
    (tmp_path / "my.yaml").write_text(text_of(space))
    for given in ("my.yaml", str(tmp_path / "my.yaml"), space):
        plan = planned(space=given, vary={"model_width": "4,8"})
        assert suggested(plan) == suggested(built_in)
        assert (plan.total, plan.seeds) == (built_in.total, built_in.seeds)


def test_a_search_keeps_the_space_and_not_the_file(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("strategies: [sus, io]\ndimensions:\n  lr: 1e-3:1e-1\n  optimizer: [adam, sgd]\n")
    plan = planned(space=str(file), vary={"adam_eps": [1e-8, 1e-6]})
    file.unlink()
    kept = build(Settings, json.loads(json.dumps(plan.settings.public())))
    assert kept == plan.settings
    again = Plan.make(toy_problem(3), kept)
    assert (again.space, again.space.name) == (plan.space, "my")
    keep_space(kept, tmp_path)
    repeated = planned(space=str(tmp_path / SPACE_FILE), vary={"adam_eps": [1e-8, 1e-6]})
    assert repeated.space == plan.space


def test_the_command_that_repeats_a_search_says_what_was_searched(tmp_path):
    vary = {"a": "1e-3:1.0:log", "b": ["x", "y z"], "c": [1, 2], "d": ["1e-3", "t"], "lr": {"low": 1, "high": 2}}
    words = shlex.split(search_command(Imagined(settings={"vary": vary}).search()))
    said = [word for flag, word in pairwise(words) if flag == "--search"]
    read = given_options({"vary": said})["vary"]
    assert planned_values(read) == planned_values(vary)
    whole = {"space_content": {"name": "wide"}, "space": "wide", "storage": str(tmp_path)}
    assert f"--space {tmp_path}/made/{SPACE_FILE}" in search_command(Imagined(settings=whole).search())


def planned_values(vary):
    return {key: read_dimension(values) for key, values in vary.items()}


def test_a_grid_is_as_large_as_its_dimensions_say():
    vary = {"optimizer": "adam,sgd", "adam_eps": "1e-8,1e-6,1e-4", "batch_size": "4,8"}
    plan = planned(vary=vary, algorithm="grid", lr="0.1,0.2", strategies=["sus"])
    assert plan.total == 2 * 2 * (3 + 1)


def test_a_space_may_be_an_object_of_a_notebook():
    own = Space(name="mine", strategies=("io",), dimensions={"lr": Choice((0.1,)), "batch_size": Range(8, 16)})
    plan = planned(space=own)
    assert plan.space.strategies == ("io",)
    assert plan.space.of("io")["batch_size"] == IntRange(8, 16)


def test_a_space_without_what_all_trials_need_is_one_line():
    given = {"strategies": ("sus", "io"), "dimensions": {"batch_size": Choice((8, 16))}}
    with pytest.raises(UserError, match="space 'own' has trials of strategy 'sus' without a learning rate: give --lr"):
        plan_search(toy_problem(3), space=Space(name="own", **given), replicates=1)
    plan_search(toy_problem(3), space=Space(name="own", **given), lr="1e-3:1e-2", replicates=1)
    given["dimensions"] = {"lr": Choice((1e-3,)), "groups": Choice((2,))}
    with pytest.raises(UserError, match="sus has no groups: put it under per_strategy"):
        plan_search(toy_problem(3), space=Space(name="own", **given), replicates=1)


def test_a_strategy_that_was_refused_does_not_own_a_config_key():
    class Batch(SharedUpdateSteps):
        class Own(Options):
            size: int = 3

        info = StrategyInfo(name="batch", title="Batch", rule="refused", options=Own)

    with pytest.raises(UserError, match="has an option that a config calls 'batch_size'"):
        plan_search(toy_problem(3), strategies=["sus", Batch], replicates=1)
    assert planned(vary={"batch_size": "8,16"}, **TWO).space.of("sus")["batch_size"] == Choice((8, 16))


@pytest.mark.parametrize("part", ["optimizer", "schedule"])
def test_several_of_a_part_are_a_dimension(part):
    with pytest.raises(UserError, match=f"--{part} a,b: all trials have one and the same; --search {part}=a,b tries"):
        planned(**{part: "a,b"}, **TWO)
