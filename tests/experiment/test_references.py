"""A search on a problem that sets no objective: workers, resume and report agree on its references."""

import json
import os
from pathlib import Path

import pytest
import torch.nn.functional as F
from mlflow import MlflowClient

import tune_mtl
from tests.test_cli import tune_mtl as command
from tests.toys import make_tasks, toy_problem
from trainables.sharing import SharedProblem
from tune_mtl import Objective, Task
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.references import keep_references
from tune_mtl.experiment.problem_facts import problem_facts
from tune_mtl.experiment.search import plan_search
from tune_mtl.results.searches import find_search
from tune_mtl.tracking import names
from tune_mtl.training.references import cache
from tune_mtl.training.references import find as references
from tune_mtl.training.references.find import references_of


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "_found", {})
    return tmp_path / "home"


def scaled():
    """Two tasks of very different scale, and no objective."""
    problem = toy_problem(2, objective=None, dropout=False)
    problem.tasks = make_tasks(2, scale=1e6)
    return problem


def unfair():
    """The best constant of the second task scores less than nothing."""
    problem = scaled()
    problem.tasks = [Task("t0", F.mse_loss), Task("t1", lambda p, t: 1e3 * F.mse_loss(p, t) - 5e3)]
    return problem


def test_a_plan_is_judged_by_the_relative_loss_and_its_facts_say_so():
    plan = plan_search(scaled(), strategies=["sus"], max_epochs=1)
    assert str(plan.objective) == plan.constant["metric"] == "val/relative_loss:min"
    facts = problem_facts(plan)
    assert facts["objective_warning"] is None
    assert facts["metrics"]["relative_loss"] == "min"


def test_what_cannot_be_judged_fairly_is_planned_with_a_warning():
    plan = plan_search(unfair(), strategies=["sus"], max_epochs=1)
    assert str(plan.objective) == "val/loss:min"
    said = problem_facts(plan)["objective_warning"]
    assert "task 't1' (its best constant prediction scores -" in said
    assert "task 't1' is more than 99 % before training" in said


def test_a_metric_or_an_objective_leaves_the_plan_alone(monkeypatch):
    monkeypatch.setattr(references, "find_references", lambda *_: pytest.fail("nothing is to be found"))
    assert str(plan_search(scaled(), strategies=["sus"], metric="val/loss").objective) == "val/loss:min"
    assert str(plan_search(toy_problem(2, objective=Objective()), strategies=["sus"]).objective) == "val/loss:min"


def test_a_search_goes_on_with_the_references_that_it_began_with(monkeypatch):
    plan = plan_search(scaled(), strategies=["sus"], max_epochs=1, name="kept")
    plan.folder.mkdir(parents=True)
    keep_references(plan.problem, plan.folder)
    monkeypatch.setattr(references, "find_references", lambda *_: pytest.fail("nothing is to be found"))
    again = Plan.make(scaled(), plan.settings)
    assert references_of(again.problem) == references_of(plan.problem)
    assert str(again.objective) == "val/relative_loss:min"


def test_a_warning_is_kept_too(monkeypatch):
    plan = plan_search(unfair(), strategies=["sus"], max_epochs=1, name="warned")
    plan.folder.mkdir(parents=True)
    keep_references(plan.problem, plan.folder)
    monkeypatch.setattr(references, "find_references", lambda *_: pytest.fail("nothing is to be found"))
    again = Plan.make(unfair(), plan.settings)
    assert str(again.objective) == "val/loss:min"
    assert again.problem.objective_warning == plan.problem.objective_warning


def test_a_search_from_before_goes_on_by_the_mean_loss():
    plan = plan_search(scaled(), strategies=["sus"], max_epochs=1, name="old")
    plan.folder.mkdir(parents=True)
    (plan.folder / names.SETTINGS_FILE).write_text(json.dumps(plan.settings.public()))
    assert str(Plan.make(scaled(), plan.settings).objective) == "val/loss:min"


def test_workers_are_handed_references_and_find_none(monkeypatch):
    monkeypatch.setattr(references, "find_references", lambda *_: pytest.fail("workers find nothing"))
    by_name = SharedProblem(
        "a", "tests.experiment.test_references:scaled", str(Path.cwd()), references={"t0": 2.0, "t1": 3.0}
    )
    assert references_of(by_name.load()) == {"t0": 2.0, "t1": 3.0}


def test_the_commands_say_it_in_one_line(tmp_path, home):
    (tmp_path / "mine.py").write_text("from tests.experiment.test_references import unfair")
    environment = {**os.environ, "TUNE_MTL_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    for words in (["train", "mine:unfair", "--strategy", "sus"], ["search", "mine:unfair", "--dry-run"]):
        done = command(*words, "--lr", "0.01", cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if "reference loss" in line]
        assert line.startswith("warning: no reference loss was found for task 't1'")
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_every_trial_uses_the_references_of_the_driver(home):
    result = tune_mtl.search(
        "tests.experiment.test_references:scaled",
        strategies=["sus", "io"],
        samples=4,
        max_epochs=2,
        name="fair",
        lr="1e-3:1e-2",
    )
    assert result.complete
    kept = json.loads((result.folder / names.REFERENCES_FILE).read_text())["losses"]
    frame = result.trials()
    shares = [frame[f"best/val/loss/{task}"] / reference for task, reference in kept.items()]
    assert (sum(shares) / 2).tolist() == pytest.approx(frame["best/val/relative_loss"].tolist(), rel=1e-12)
    assert result.best.value == frame["best/val/relative_loss"].min()
    assert (home / cache.FILE).exists()
    uri, _, parent = find_search("fair", None)
    facts = json.loads(Path(MlflowClient(uri).download_artifacts(parent.info.run_id, names.FACTS_FILE)).read_text())
    assert facts["objective_warning"] is None
    assert parent.data.tags[names.OBJECTIVE] == "val/relative_loss:min"
    assert result.best.load_model() is not None
    again = tune_mtl.train(result.best.config["problem"], result.best.config)
    best = int(result.best.metrics["best/epoch"]) - 1
    assert again.history[best]["val/relative_loss"] == result.best.value
