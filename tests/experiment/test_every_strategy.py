"""`--strategies all`: whatever can train the network, and a line for whatever cannot."""

import sys

import pytest
import torchjd.aggregation

from tests.toys import toy_problem
from tune_mtl import Task, UserError
from tune_mtl.cli import main
from tune_mtl.experiment.planning.every_strategy import with_every_strategy
from tune_mtl.experiment.search import plan_search
from tune_mtl.strategies.registry import registry

CONVOLUTIONS = "strategy 'mr' needs a trunk with convolutions: it masks their channels. This one has none."


def test_with_convolutions_all_strategies_are_tried():
    given, left_out = with_every_strategy(toy_problem(conv=True), {"strategies": ["all"]})
    assert given["strategies"] == tuple(registry)
    assert left_out == {}


@pytest.mark.parametrize("asked", ["all", ["all"], ("all",)])
def test_what_cannot_train_the_network_is_left_out_with_why(asked):
    plan = plan_search(toy_problem(), strategies=asked, replicates=1)
    assert set(registry) - set(plan.space.strategies) == {"mr"}
    assert plan.left_out == {"mr": CONVOLUTIONS}
    assert plan.settings.strategies == plan.space.strategies  # what a resume goes on with
    plan.check_strategies()


def test_a_strategy_named_is_no_strategy_left_out():
    plan = plan_search(toy_problem(), strategies=["sus", "mr"], replicates=1)
    assert plan.left_out == {}
    with pytest.raises(UserError, match="'mr' needs a trunk with convolutions"):
        plan.check_strategies()


def test_few_tasks_and_negative_losses_leave_strategies_out():
    problem = toy_problem(1, conv=True)
    problem.tasks = [Task("t0", lambda prediction, _: prediction.mean() - 100.0)]
    _, left_out = with_every_strategy(problem, {"strategies": "all"})
    assert "needs at least 3 tasks" in left_out["jd_krum"]
    assert "needs at least 2 tasks" in left_out["jd_nashmtl"]
    assert "cannot be used with these losses" in left_out["jd_geometricmean"]
    assert not {"sus", "ius", "io", "stl", "mr"} & left_out.keys()


def test_what_is_not_installed_is_left_out(monkeypatch):
    def not_installed(*_, **__):
        raise ImportError("no such package")

    monkeypatch.setattr(torchjd.aggregation, "CAGrad", not_installed)
    _, left_out = with_every_strategy(toy_problem(conv=True), {"strategies": "all"})
    assert left_out == {
        "jd_cagrad": "strategy 'jd_cagrad' needs packages that are not installed: pip install \"tune-mtl[solvers]\"."
    }


def test_all_stands_for_every_strategy_that_is_built_in():
    with pytest.raises(UserError, match="strategies=all,sus: 'all' stands for sus too"):
        plan_search(toy_problem(), strategies=["all", "sus"])


def test_the_plan_says_what_is_left_out(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path))
    words = ["search", "tests.trainables.fixtures:problem", "--strategies", "all", "--dry-run", "--max-epochs", "1"]
    monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    assert f"left out: {CONVOLUTIONS}\n" in capsys.readouterr().out
