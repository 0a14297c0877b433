"""``--objective`` of a search: what trials are judged by, where its reference comes from, and what is refused."""

import json

import pytest

import tune_mtl
from tests.reporting.stories import Story, by_task, facts_of_tasks
from tests.test_cli import tune_mtl as command
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking import names


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def planned(**asked):
    return plan_search(toy_problem(2, objective=None, dropout=False), strategies=["sus"], max_epochs=1, **asked)


def measured():
    """An earlier search of the same tasks, whose sus reaches 0.5 and 2 on average."""
    facts = facts_of_tasks(["t0", "t1"])
    story = Story("earlier", settings={"strategies": ["sus", "io"]}, ranked_by=names.BY_TRIAL, **facts)
    sus = {"t0": [0.4, 0.6], "t1": [1.0, 3.0]}
    return by_task({"sus": sus, "io": {"t0": [0.1, 0.1], "t1": [0.25, 0.25]}}, into=story).end()


def test_each_objective_is_a_metric_of_every_trial():
    assert str(planned(objective="worst").objective) == "val/worst_task:min"
    plan = planned(objective="weighted", task_weights={"t1": 3})
    assert str(plan.objective) == "val/weighted_loss:min"
    assert plan.constant["task_weights"] == "t1=3"
    plan = planned(objective="delta-m", task_reference="t0=0.5,t1=2")
    assert str(plan.objective) == "val/delta_m:max"
    assert plan.constant["task_reference"] == "t0=0.5,t1=2"
    assert str(planned(objective="mean").objective) == "val/relative_loss:min"


def test_reference_losses_are_found_where_an_objective_needs_them():
    plan = planned(objective="worst")
    assert all(task.reference_loss for task in plan.problem.tasks)


def test_a_reference_can_be_what_an_earlier_search_measured():
    measured()
    plan = planned(objective="delta-m", task_reference="earlier")
    assert plan.constant["task_reference"] == "loss/t0=0.5,loss/t1=2.0"
    assert plan.settings.task_reference_from == "strategy sus of search earlier"
    plan = planned(objective="delta-m", task_reference="earlier:io")
    assert plan.constant["task_reference"] == "loss/t0=0.1,loss/t1=0.25"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"objective": "weighted"}, "objective='weighted' and task_weights need each other"),
        ({"objective": "delta-m"}, "objective='delta-m' and task_reference need each other"),
        ({"task_weights": "t0=1"}, "objective='weighted' and task_weights need each other"),
        ({"objective": "pareto"}, "objective='pareto' is not offered: early stopping"),
        ({"objective": "median"}, "should be 'mean', 'worst', 'weighted', 'delta-m'"),
        ({"objective": "worst", "metric": "val/loss"}, "exclude each other"),
        ({"objective": "weighted", "task_weights": "t7=1"}, "there is no task 't7'"),
        ({"objective": "delta-m", "task_reference": "t0=1"}, "no value for task 't1'"),
        ({"objective": "delta-m", "task_reference": "nobody"}, "there is no search 'nobody'"),
    ],
)
def test_mistakes_are_said_before_anything_starts(asked, said):
    with pytest.raises(UserError, match=said) as refused:
        planned(**asked)
    assert "\n" not in str(refused.value)


def test_a_reference_that_has_no_run_is_named():
    measured()
    with pytest.raises(UserError, match=r"reference 'mgda_ub' has no results in search 'earlier': .*sus"):
        planned(objective="delta-m", task_reference="earlier:mgda_ub")


def test_the_command_line_says_the_same(capsys):
    done = command("search", "multidigits", "--objective", "weighted", "--strategies", "sus", "--dry-run")
    assert done.returncode == 2
    assert done.stderr.strip().startswith("error: objective='weighted' and task_weights need each other")


@pytest.mark.slow
def test_a_search_ranks_by_it_and_the_report_says_so(home):
    given = {"strategies": ["sus", "ius"], "groups": "2", "replicates": 1, "samples": 2, "confirm": 0, "export": False}
    problem = "tests.trainables.fixtures:problem"
    result = tune_mtl.search(problem, objective="worst", name="worst", max_epochs=2, **given)
    search = SearchData.read("worst")
    assert str(search.objective) == "val/worst_task:min"
    for run in search.trials:
        assert run.config["metric"] == "val/worst_task:min"
    for strategy, won in result.best_by_strategy.items():
        reached = [
            run.metrics["best/val/worst_task"] for run in search.trials if run.strategy == strategy and run.ranked
        ]
        assert won.value == min(reached)
    page = result.report.page.read_text()
    assert "configs were ranked by the worst task: the largest over tasks of validation loss / reference loss" in page
    settings = json.loads((home / "ray" / "worst" / names.SETTINGS_FILE).read_text())
    assert settings["objective"] == "worst"
    assert "--objective worst" in page
