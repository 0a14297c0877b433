"""Whole searches on a real Ray and a real MLflow store."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import mlflow.pytorch
import pytest
import torch
from mlflow import MlflowClient
from ray import cloudpickle, tune

import tune_mtl
from search_spaces import find_space
from tests.experiment.processes import SLOW_PROBLEM, fresh_environment, reported
from tests.experiment.records import check_records
from tests.local_ray import local_ray
from tests.test_cli import tune_mtl as command
from tests.toys import toy_problem
from tests.training.trainers import timeless
from trainables import IOTrainable
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.core.outcome import RANKED
from tune_mtl.exporting.run_model import model_of
from tune_mtl.problems.registry import load_problem
from tune_mtl.results.settings import Settings
from tune_mtl.tracking import names

PROBLEM = "tests.trainables.fixtures:problem"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def ray_of_our_own():
    with local_ray(cpus=2):  # here, trials run side by side
        yield


@pytest.fixture(scope="module")
def module_home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(module_home, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_HOME", str(module_home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return module_home


@pytest.fixture(scope="module")
def searched(module_home, ray_of_our_own):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNE_MTL_HOME", str(module_home))
        return tune_mtl.search(
            PROBLEM,
            name="main",
            samples=9,
            concurrency=1,  # of trials that are equally good, the first to end is the best
            lr="1e-3:1e4",
            fixed={"optimizer": "sgd"},
            seed=3,
            report=False,
            export=True,
        )


def test_a_search_tracks_every_trial_once(searched):
    assert searched.complete
    assert sum(searched.counts.values()) == 9
    parent, children = check_records("main", trials=9)
    assert parent.data.tags[names.BEST_RUN] == searched.best.run_id
    artifacts = {artifact.path for artifact in tune_mtl.best("main").client.list_artifacts(parent.info.run_id)}
    assert artifacts >= {"search.json", "trials.csv", "best_config.json"}
    for run in children:
        tags = run.data.tags
        assert set(run.data.params) == {"strategy", "lr", "seed"} | (
            {"groups"} if "groups" in run.data.params else set()
        )
        assert json.loads(tags[names.CONFIG])["problem"] == PROBLEM
        if tags[names.OUTCOME] == "diverged":
            assert "first to be not finite" in tags[names.REASON]
        if tags[names.OUTCOME] in RANKED and run.data.metrics["best/val/loss"] < 1e6:
            for metric in (
                "train/loss",
                "val/loss",
                "val/loss/t0",
                "path/total",
                "path/from_start",
                "updates",
                "seconds",
            ):
                assert metric in run.data.metrics
            for metric in ("best/epoch", "best/val/loss", "path/best_total", "path/best_shortest", "path/best_ratio"):
                assert metric in run.data.metrics
            assert not any(metric.startswith("test/") for metric in run.data.metrics)


def test_the_winners_run_has_its_mlflow_model_without_asking(searched):
    best = searched.best
    model = model_of(best.client, best.run_id)
    network = mlflow.pytorch.load_model(model.artifact_location.removeprefix("file://"))
    inputs = load_problem(PROBLEM).data("test").batch(torch.arange(9)).inputs
    with torch.no_grad():
        expected, got = best.load_model()(inputs), network(inputs)
    assert all(torch.equal(expected[task], got[task]) for task in expected)
    others = {trial.run_id for trial in searched.best_by_strategy.values()} - {best.run_id}
    assert others
    assert all(model_of(best.client, run_id) is None for run_id in others)
    assert Settings(problem="p", name="n").export  # by default; the tests turn it off
    assert "<table>" in searched._repr_html_()


def test_a_stock_tuner_runs_the_trainables(tmp_path):
    space = find_space(load_problem(PROBLEM), "wide").to_ray("io")
    tuner = tune.Tuner(
        IOTrainable,
        param_space={**space, "problem": PROBLEM, "lr": tune.loguniform(1e-3, 1e-2), "epochs": 2},
        tune_config=tune.TuneConfig(metric="val/loss", mode="min", num_samples=1),
        run_config=tune.RunConfig(name="stock", storage_path=str(tmp_path), verbose=0),
    )
    found = tuner.fit().get_best_result()
    assert found.metrics["outcome"] == "completed"
    assert found.config["groups"] in (2, 4)


def test_every_strategy_got_the_same_number_and_diverged_ones_are_no_winners(searched):
    frame = searched.trials()
    assert frame["strategy"].value_counts().to_dict() == {"sus": 3, "ius": 3, "io": 3}
    assert "diverged" in searched.counts
    assert set(searched.best_by_strategy) <= {"sus", "ius", "io"}
    for trial in searched.best_by_strategy.values():
        assert trial.outcome in RANKED
        assert math.isfinite(trial.value)


def test_best_is_what_sorting_by_the_best_metric_shows(searched):
    frame = searched.trials()
    # with sgd, ius and io are the same method, and all strategies try the same learning rates: the first one counts
    ranked = frame[frame["outcome"].isin(RANKED)].sort_values(["best/val/loss", "trial_id"])
    best = tune_mtl.best("main")
    assert best.run_id == ranked.iloc[0]["run_id"]
    assert best.value == ranked.iloc[0]["best/val/loss"] == best.metrics["best/val/loss"]
    for strategy, group in ranked.groupby("strategy"):
        assert tune_mtl.best("main", strategy=strategy).run_id == group.iloc[0]["run_id"]


def test_the_printed_command_repeats_the_winner_bit_for_bit(searched, tmp_path, monkeypatch, capsys):
    best = tune_mtl.best("main")
    words = best.train_command().split()[1:]
    monkeypatch.setattr(sys, "argv", ["tune-mtl", *words, "--out", str(tmp_path / "again")])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0, capsys.readouterr().err
    result = json.loads((tmp_path / "again" / "result.json").read_text())
    assert result["config"] == {**best.config}
    for record in timeless(result["history"]):
        epoch = int(record.pop("epoch"))
        for name, value in record.items():
            logged = {m.step: m.value for m in best.client.get_metric_history(best.run_id, name)}
            if epoch in logged:
                assert logged[epoch] == value
    assert result["metrics"]["best/val/loss"] <= best.value


def test_the_best_model_can_be_loaded_anywhere(searched):
    best = tune_mtl.best("main")
    model = best.load_model()
    problem = toy_problem(4)
    data = problem.data("val")
    batch = data.everything
    predictions = model(batch.inputs)
    losses = [task.loss(predictions[task.name], batch.targets[task.name]).item() for task in problem.tasks]
    assert sum(losses) / 4 == pytest.approx(best.value, rel=1e-4)


def test_finished_trials_keep_no_checkpoints_on_disk(searched):
    assert not list(searched.folder.rglob("*.pt"))


def test_commands_on_a_finished_search(searched, monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
        with pytest.raises(SystemExit) as exited:
            main()
        return exited.value.code, capsys.readouterr()

    code, printed = run("best", "main")
    assert code == 0
    assert "repeat it exactly:\n  tune-mtl train" in printed.out
    code, printed = run("best", "main", "--json")
    assert json.loads(printed.out)["config"] == tune_mtl.best("main").config
    code, printed = run("list")
    assert re.search(r"main\s+tests.*complete", printed.out)
    for words, expected in (
        (["best", "man"], "there is no search 'man'"),
        (["best", "main", "--strategy", "stl"], "no finished trial of 'stl'"),
        (["resume", "nothing"], "there is no search 'nothing'"),
        (["rm", "../x"], "cannot be used"),
        (["search", PROBLEM, "--name", "main"], "tune-mtl resume main"),
        (["search", PROBLEM, "--strategies", "sus,oi"], "unknown strategy 'oi'. Did you mean 'io'?"),
        (["search", PROBLEM, "--metric", "val/accuracy"], "is not reported by problem"),
        (["search", PROBLEM, "--samples", "0"], "samples=0"),
        (["search", PROBLEM, "--samples", "2"], "samples=2 leaves some of the 3 strategies"),
        (["search", PROBLEM, "--max-epochs", "-1"], "max_epochs=-1"),
        (["search", PROBLEM, "--time-budget", "0"], "time_budget=0"),
        (["search", PROBLEM, "--algorithm", "magic"], "algorithm='magic'"),
        (["search", PROBLEM, "--lr", "fast"], "'fast' must be numbers"),
        (["search", PROBLEM, "--groups", "9"], "groups=9 is impossible with 4 tasks"),
        (["search", PROBLEM, "--set", "adam_betaz=1"], "unknown option 'adam_betaz'"),
        (["search", PROBLEM, "--name", "a/b"], "cannot be used"),
        (["search", PROBLEM, "--tracking-uri", "http://127.0.0.1:9"], "http://127.0.0.1:9 does not answer"),
        (["search", "no_such_module:x"], "does not import"),
        (["search", "json:dumps"], "could not be made"),
    ):
        code, printed = run(*words)
        assert (code, printed.err.count("\n")) == (2, 1), printed.err
        assert expected in printed.err


def test_dry_run_starts_nothing(home, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "search", PROBLEM, "--name", "dry", "--dry-run"])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().out
    assert "96 trials (8 tunings of every strategy) of at most 4 epochs" in printed
    assert "the choice of each strategy of each of its tunings on 1 fresh seed: 24 whole runs" in printed
    assert "MiB on disk" in printed
    assert not (home / "ray" / "dry").exists()


def test_a_trial_whose_code_raises_fails_alone_with_its_traceback():
    given = {"name": "failing", "samples": 2, "strategies": ["sus", "io"], "confirm": 2}
    result = tune_mtl.search("tests.trainables.fixtures:failing", **given)
    assert "No trial has ended well" in result.report.answer
    assert result.counts == {"failed": 2}
    assert result.best is None
    _, children = check_records("failing", trials=2)
    for run in children:
        assert "the user's own mistake" in run.data.tags["tune_mtl.reason"]


def test_a_config_on_several_seeds_is_ranked_by_its_mean():
    result = tune_mtl.search(
        toy_problem(4),
        name="seeds",
        space="paper",
        strategies=["sus"],
        lr="1e-2,1e-1",
        max_epochs=2,
        confirm=0,
        report=False,
    )
    frame = result.trials()
    assert len(frame) == 6
    assert set(frame["outcome"]) == {"completed"}
    means = frame.groupby("lr")["best/val/loss"].mean()
    assert result.best.value == pytest.approx(means.min())
    assert result.best.config["lr"] == means.idxmin()
    assert result.best.seeds == 3


def test_removing_a_search(home):
    tune_mtl.search(PROBLEM, name="gone", samples=1, strategies=["sus"], max_epochs=1, report=False)
    assert (home / "ray" / "gone").exists()
    from tune_mtl.experiment.manage import remove

    assert remove("gone") == 2
    assert not (home / "ray" / "gone").exists()
    with pytest.raises(UserError, match="there is no search 'gone'"):
        tune_mtl.best("gone")


def test_a_time_budget_ends_a_search_and_storage_may_be_anywhere(tmp_path):
    given = {"strategies": ["sus"], "samples": 400, "replicates": 1, "max_epochs": 2, "report": False}
    given["scheduler"] = "none"
    first = tune_mtl.search(PROBLEM, name="timed", storage=str(tmp_path / "far"), time_budget=6, **given)
    assert first.complete
    assert first.folder.parent == tmp_path / "far"
    done = len(first.trials())
    assert 0 < done < 400
    check_records("timed", trials=done)
    again = tune_mtl.resume("timed")
    assert again.complete
    assert len(again.trials()) == done
    from tune_mtl.experiment.manage import remove

    remove("timed")
    assert not first.folder.exists()


@pytest.mark.timeout(280)
def test_ctrl_c_stops_gently_and_says_how_to_go_on(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_PROBLEM)
    environment = fresh_environment(tmp_path)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tune_mtl.cli",
            "search",
            "slow:problem",
            "--name",
            "stopped",
            "--samples",
            "6",
            "--no-report",
        ],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not reported(tmp_path / "home" / "ray" / "stopped"):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=100)
    assert process.returncode == 130, errors
    assert "tune-mtl resume stopped" in printed
    assert "Traceback" not in errors
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    assert "running" not in set(tune_mtl.trials("stopped", tracking_uri=uri)["outcome"])
    done = command("resume", "stopped", cwd=tmp_path, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    check_records("stopped", trials=6, tracking_uri=uri)


@pytest.mark.timeout(280)
def test_killed_and_resumed_nothing_is_lost_or_doubled(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_PROBLEM)
    environment = fresh_environment(tmp_path)
    words = ["search", "slow:problem", "--name", "killed", "--samples", "9", "--seed", "1", "--no-report"]
    log = tmp_path / "home" / "ray" / "killed"
    for attempt, wait in enumerate((3, 9)):
        process = subprocess.Popen(
            [sys.executable, "-m", "tune_mtl.cli", *(words if attempt == 0 else ["resume", "killed"])],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        before = reported(log)
        while process.poll() is None and reported(log) < before + wait:
            time.sleep(0.05)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = command("resume", "killed", cwd=tmp_path, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    _, children = check_records("killed", trials=9, tracking_uri=uri)
    assert {run.data.tags[names.TRIAL_ID] for run in children} == {f"{index:04d}" for index in range(9)}
    frame = tune_mtl.trials("killed", tracking_uri=uri)
    assert frame["strategy"].value_counts().to_dict() == {"sus": 3, "ius": 3, "io": 3}
    for strategy, rung in lowest_rungs(log).items():
        runs = [run.info.run_id for run in children if run.data.params["strategy"] == strategy]
        histories = [MlflowClient(uri).get_metric_history(run_id, "val/loss") for run_id in runs]
        assert rung == sorted(history[0].value for history in histories)


def lowest_rungs(folder: Path) -> dict[str, list[float]]:
    """What the last snapshot holds in each strategy's lowest rung: every trial's loss after the first epoch."""
    with zipfile.ZipFile(folder / "snapshot.zip") as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("callback-states"))
        states = cloudpickle.loads(archive.read(name)).values()
    (rungs,) = (state["rungs"] for state in states if isinstance(state, dict) and "rungs" in state)
    return {strategy: sorted(-value for value in saved["rungs"][0][-1].values()) for strategy, saved in rungs.items()}
