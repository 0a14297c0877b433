"""Confirmation and budgets on a real Ray and a real MLflow store."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from pandas.testing import assert_frame_equal

import tune_mtl
from search_spaces.space import Choice, Space
from tests.experiment.processes import SLOW_PROBLEM, fresh_environment, reported
from tests.experiment.records import check_records
from tests.local_ray import local_ray
from tests.test_cli import tune_mtl as command
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.core.options import build
from tune_mtl.experiment.search import plan_search
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.settings import Settings
from tune_mtl.tracking import names

PROBLEM = "tests.trainables.fixtures:problem"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture(scope="module", autouse=True)
def ray_of_our_own():
    with local_ray():
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
def confirmed(module_home, ray_of_our_own):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNE_MTL_HOME", str(module_home))
        given = {"strategies": ["sus", "io", "stl"], "samples": 6, "seed": 7, "lr": "1e-3:1e-1", "confirm": 2}
        given |= {"replicates": 1, "controls": 3}
        return tune_mtl.search(PROBLEM, name="sure", **given)


def without_seed(config):
    return {key: value for key, value in config.items() if key != "seed"}


def test_the_winners_run_in_full_on_fresh_seeds_and_are_tested_once(confirmed):
    assert confirmed.complete
    search = SearchData.read("sure")
    runs = search.confirmed(names.CONFIRM)
    assert len(runs) == 6
    assert {run.config["seed"] for run in runs} == {8, 9}
    for run in runs:
        assert without_seed(run.config) == without_seed(search.winners[run.strategy].config)
        assert sorted(search.history(run, "val/loss")) == [1, 2, 3, 4]
        assert {"test/loss", "test/loss/t0", "best/val/loss", "memory/optimizer_mib"} <= run.metrics.keys()
    assert not any(name.startswith("test/") for run in search.trials for name in run.metrics)
    found = search.client.get_run(runs[0].run_id).data.tags
    assert found[names.KIND] == "confirm"
    assert found[names.PARENT] == search.run_id
    assert len(tune_mtl.trials("sure")) == 6
    assert search.state == "complete"
    assert search.tags[names.CONFIRMATION] == "complete"


def test_it_equals_one_trial_trained_by_hand(confirmed):
    search = SearchData.read("sure")
    run = search.confirmed(names.CONFIRM, "io")[0]
    result = tune_mtl.train(PROBLEM, run.config)
    for name in ("test/loss", "best/val/loss", "path/best_total", "updates"):
        assert result.metrics[name] == run.metrics[name]


def test_whoever_takes_fewer_updates_gets_as_many(confirmed):
    search = SearchData.read("sure")
    most = {run.metrics["updates"] for run in search.confirmed(names.CONFIRM, "io")}
    control = search.confirmed(names.EQUAL_UPDATES)
    assert [run.strategy for run in control] == ["sus", "sus"]
    assert {run.metrics["updates"] for run in control} == most
    assert {run.metrics["updates"] for run in search.confirmed(names.CONFIRM, "sus")} < most | {28.0}


def test_a_control_goes_on_where_the_confirming_run_has_ended(confirmed, home):
    search = SearchData.read("sure")
    for run in search.confirmed(names.EQUAL_UPDATES):
        tags = search.client.get_run(run.run_id).data.tags
        assert tags[names.CONTINUES] == f"confirm-sus-{run.config['seed']}"
        whole = tune_mtl.train(PROBLEM, run.config)
        for name in ("val/loss", "train/loss/t1", "path/total", "updates"):
            assert search.history(run, name) == {int(one["epoch"]): one[name] for one in whole.history}
        assert {name: run.metrics[name] for name in whole.metrics if not name.startswith("seconds")} == {
            name: value for name, value in whole.metrics.items() if not name.startswith("seconds")
        }
    assert not list((home / "ray" / "sure").glob("confirm-*/trial_*/checkpoint_*"))


def test_paths_are_compared_at_one_learning_rate(confirmed):
    search = SearchData.read("sure")
    paths = search.paths()
    assert {runs[0].strategy for runs in paths.values()} == {"sus", "io"}
    assert all(len(runs) == 2 for runs in paths.values())
    assert {run.lr for runs in paths.values() for run in runs} == {search.common_lr}
    assert float(search.tags[names.COMMON_LR]) == search.common_lr


def test_the_search_ends_with_its_page_and_answer(confirmed, home):
    assert confirmed.report.page == home / "reports" / "sure" / "index.html"
    assert "over 2 fresh seeds" in confirmed.report.answer
    assert {table.key for table in confirmed.report.tables["sure"]} >= {"quality", "equal-updates", "path-common"}


def test_confirming_again_adds_only_what_is_missing(confirmed):
    before = {run.trial_id: run.run_id for run in SearchData.read("sure").reruns}
    tune_mtl.confirm("sure", seeds=2)
    assert {run.trial_id: run.run_id for run in SearchData.read("sure").reruns} == before
    written = tune_mtl.confirm("sure", seeds=3)
    after = {run.trial_id: run.run_id for run in SearchData.read("sure").reruns}
    assert before.items() < after.items()
    assert {name for name in after.keys() - before.keys() if name.startswith("confirm-")} == {
        f"confirm-{strategy}-10" for strategy in ("sus", "io", "stl")
    }
    assert "over 3 fresh seeds" in written.answer
    with pytest.raises(UserError, match="seeds=0"):
        tune_mtl.confirm("sure", seeds=0)
    with pytest.raises(UserError, match="there is no search 'nobody'"):
        tune_mtl.confirm("nobody")


def test_counted_in_updates_everybody_takes_as_many():
    given = {"strategies": ["sus", "io"], "groups": "4", "scheduler": "none", "max_epochs": 2, "report": False}
    result = tune_mtl.search(PROBLEM, name="updates", samples=2, budget="updates", concurrency=1, **given)
    frame = result.trials().set_index("strategy")
    per_epoch = 60 // 8
    assert frame.loc["io", "updates"] == frame.loc["sus", "updates"] == 2 * per_epoch * 4
    histories = {
        run.strategy: SearchData.read("updates").history(run, "val/loss") for run in SearchData.read("updates").trials
    }
    assert len(histories["sus"]) == 8
    assert len(histories["io"]) == 2


def test_early_stopping_counts_the_budgets_unit():
    plan = plan_search(PROBLEM, strategies=["sus", "io"], budget="updates", max_updates=90)
    assert (plan.budget.counts, plan.budget.length, plan.budget.grace) == ("updates", 90, 7.5)
    assert plan.constant["max_updates"] == 90
    assert plan.constant["epochs"] == 13
    given = {"strategies": ["sus"], "samples": 6, "max_updates": 90, "budget": "updates", "report": False, "seed": 1}
    result = tune_mtl.search(PROBLEM, name="rungs", lr="1e-4:1e1", concurrency=1, **given)
    frame = result.trials()
    assert set(frame["outcome"]) == {"completed", "stopped_early"}
    assert set(frame[frame["outcome"] == "completed"]["updates"]) == {90.0}
    # an epoch has 7 updates: the first evaluations at or after the rungs of 7.5, 22.5 and 67.5
    assert set(frame[frame["outcome"] == "stopped_early"]["updates"]) <= {14.0, 28.0, 70.0}


def test_counted_in_seconds_the_clock_decides():
    given = {"strategies": ["sus"], "samples": 2, "scheduler": "none", "report": False, "concurrency": 1}
    result = tune_mtl.search(PROBLEM, name="seconds", budget="seconds", max_seconds=0.5, **given)
    frame = result.trials()
    assert set(frame["outcome"]) == {"completed"}
    assert all(0.5 <= seconds < 5 for seconds in frame["seconds"])


def test_updates_are_equal_whatever_the_batch_size():
    problem = toy_problem(3, spaces={"sizes": Space(
        name="sizes", strategies=("sus", "io"), dimensions={"lr": Choice((0.1,)), "batch_size": Choice((6, 12))},
    )})  # fmt: skip
    plan = plan_search(problem, space="sizes", budget="updates", max_epochs=4)
    assert plan.budget.config == {"max_updates": 4 * 10 * 3, "epochs": 24}


def test_addresses_lose_their_passwords_where_others_can_read_them():
    secret = {
        "tracking_uri": "http://me:word@host:5000",
        "storage": "s3://key:word@bucket/x",
        "name": "x",
        "problem": "y",
    }
    public = build(Settings, secret).public()
    assert public["tracking_uri"] == "http://***@host:5000"
    assert public["storage"] == "s3://***@bucket/x"
    assert "word" not in json.dumps(public)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": "seconds"}, "budget='seconds' and max_seconds"),
        ({"max_seconds": 3.0}, "budget='seconds' and max_seconds"),
        ({"max_updates": 3}, "max_updates=3 needs budget='updates'"),
        ({"budget": "updates", "max_updates": 3, "max_epochs": 2}, "exclude each other"),
        ({"budget": "money"}, "budget='money'"),
        ({"confirm": -1}, "confirm=-1"),
        ({"controls": -1}, "controls=-1 must be 'auto', 'all' or a number from 0 to 100"),
        ({"controls": "some"}, "controls='some' must be 'auto', 'all' or a number"),
        ({"judge": "worst"}, "judge='worst'"),
        ({"judge": "best", "scheduler": "none", "algorithm": "random"}, "judge=best has no use with"),
        ({"budget": "seconds", "max_seconds": 3.0, "fixed": {"schedule": "cosine"}}, "which max_seconds leaves open"),
    ],
)
def test_budgets_that_cannot_be_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        plan_search(PROBLEM, **given)


def test_killed_in_a_later_replicate_and_while_confirming_nothing_is_lost_or_doubled(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_PROBLEM)
    environment = fresh_environment(tmp_path)
    asked = {"strategies": "sus,io", "samples": 6, "replicates": 3, "max_epochs": 2, "concurrency": 1}
    asked["controls"] = "all"  # which go on from twelve epochs of confirmation
    words = [f"--{key.replace('_', '-')}={value}" for key, value in asked.items()]
    folder = tmp_path / "home" / "ray" / "killed"
    for words_now, kind, wait in (
        (["search", "slow:problem", "--name", "killed", *words], "trial", 6),  # two epochs of four trials come before
        (["resume", "killed"], "confirm", 15),
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "tune_mtl.cli", *words_now],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and reported(folder, kind) < wait:
            time.sleep(0.05)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = command("resume", "killed", cwd=tmp_path, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    assert "the whole report: " in done.stdout
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    check_records("killed", trials=6, tracking_uri=uri)
    search = SearchData.read("killed", uri)
    assert len({run.trial_id for run in search.reruns}) == len(search.reruns)
    assert [run.trial_id for run in search.reruns if run.role == names.CONFIRM] == [
        f"confirm-{s}-{seed}" for s in ("io", "sus") for seed in (1000, 1001, 1002)
    ]
    assert not list(folder.glob("confirm-*/trial_*/checkpoint_*"))
    for run in search.reruns:
        assert run.outcome == "completed"
        continued = search.client.get_run(run.run_id).data.tags.get(names.CONTINUES)
        assert (continued is not None) == (run.role == names.EQUAL_UPDATES)
        logged = search.client.get_metric_history(run.run_id, "val/loss")
        assert [point.step for point in logged] == list(range(1, len(logged) + 1))
        assert "test/loss" in run.metrics
    peaceful = {**asked, "strategies": ["sus", "io"], "report": False}
    tune_mtl.search(toy_problem(3), name="peaceful", **peaceful)
    for kind in ("trial", "confirm"):
        found, expected = (
            tune_mtl.trials(name, tracking_uri=where, kind=kind)
            .drop(columns=["run_id", "seconds", "problem"])
            .sort_index(axis="columns")
            for name, where in (("killed", uri), ("peaceful", None))
        )
        assert_frame_equal(found, expected, check_exact=True)
    first, second = tune_mtl.verdict("killed", tracking_uri=uri), tune_mtl.verdict("peaceful")
    assert json.loads(json.dumps(first).replace("killed", "peaceful")) == json.loads(json.dumps(second))
    exact = search.confirmed(names.CONFIRM, "io")[0]
    (tmp_path / "config.json").write_text(json.dumps(dict(exact.config)))
    out = tmp_path / "again"
    words = ["train", "slow:problem", "--config", str(tmp_path / "config.json"), "--out", str(out)]
    again = command(*words, cwd=tmp_path, timeout=200, env=environment)
    assert again.returncode == 0, again.stderr
    assert json.loads((out / "result.json").read_text())["metrics"]["test/loss"] == exact.metrics["test/loss"]
