"""One run per trial, for ever: on a real store."""

import shutil

import pandas as pd
import pytest

from tune_mtl import UserError
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import SearchRuns, search_runs
from tune_mtl.tracking.store import check_name, client, reachable, tracking_uri
from tune_mtl.training.checkpoint import load, save

CONFIG = {"strategy": "io", "lr": 0.1}


@pytest.fixture
def uri(tmp_path, monkeypatch, empty_store):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = tracking_uri()
    reachable(found)
    shutil.copy(empty_store, tmp_path / "home" / "mlflow.db")
    return found


def opened(uri) -> SearchRuns:
    runs = SearchRuns(uri, "toy", "s", check_file=load)
    runs.open_search({}, {"search.json": {"samples": 2}})
    return runs


def children(uri, runs):
    return search_runs(client(uri), [runs.experiment], "s", "trial")


def test_a_trial_opened_again_keeps_its_run_and_its_steps(uri):
    runs = opened(uri)
    runs.open_trial("0000", CONFIG, {"lr": 0.1})
    runs.log("0000", 1, {"train/loss": 1.0, "val/loss": 2.0})
    runs.log("0000", 2, {"train/loss": 0.5, "val/loss": 1.0})
    again = opened(uri)
    again.open_trial("0000", CONFIG, {"lr": 0.1})
    again.log("0000", 2, {"train/loss": 0.5, "val/loss": 1.0})
    again.log("0000", 3, {"train/loss": 0.4, "val/loss": 0.9})
    (run,) = children(uri, again)
    history = client(uri).get_metric_history(run.info.run_id, "val/loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 2.0), (2, 1.0), (3, 0.9)]
    assert run.data.params == {"lr": "0.1"}
    assert run.data.tags[names.PARENT] == again.open_search({}, {})


def test_a_redone_suggestion_replaces_the_lost_one(uri):
    runs = opened(uri)
    runs.open_trial("0000", CONFIG, {"lr": 0.1})
    again = opened(uri)
    again.open_trial("0000", {**CONFIG, "lr": 0.2}, {"lr": 0.2})
    (run,) = children(uri, again)
    assert run.data.params == {"lr": "0.2"}


def test_closing_twice_changes_nothing_and_leaves_nothing_running(uri, tmp_path):
    weights = tmp_path / "best.pt"
    save(weights, {"weights": {}})
    runs = opened(uri)
    for trial in ("0000", "0001"):
        runs.open_trial(trial, CONFIG, {})
    for _ in range(2):
        runs.close_trial("0000", "completed", {"best/val/loss": 0.5}, {}, {"best.pt": weights})
        weights.unlink(missing_ok=True)
    runs.close_search(complete=False, tags={}, table=pd.DataFrame({"a": [1]}), best=CONFIG)
    states = {run.data.tags[names.TRIAL_ID]: run.info.status for run in children(uri, runs)}
    assert states == {"0000": "FINISHED", "0001": "KILLED"}
    (done,) = [run for run in children(uri, runs) if run.data.tags[names.TRIAL_ID] == "0000"]
    assert [artifact.path for artifact in client(uri).list_artifacts(done.info.run_id)] == ["best.pt"]
    assert len(client(uri).get_metric_history(done.info.run_id, "best/val/loss")) == 1


def test_only_numbers_that_are_defined_are_logged():
    result = {"val/loss": 1.0, "val/x": float("nan"), "path/total": 3, "path/best_total": 2.0, "epoch": 1, "done": True}
    assert names.per_epoch(result) == {"val/loss": 1.0, "path/total": 3.0}
    assert names.once(result) == {"path/best_total": 2.0}


def test_a_run_whose_making_was_not_heard_of_is_found_again(uri):
    first, second = opened(uri), opened(uri)
    first.open_trial("0000", CONFIG, {"lr": 0.1})
    second.open_trial("0000", CONFIG, {"lr": 0.1})
    second.log("0000", 1, {"train/loss": 1.0})
    assert len(children(uri, first)) == 1


def test_an_epoch_delivered_twice_is_logged_once(uri):
    runs = opened(uri)
    runs.open_trial("0000", CONFIG, {})
    runs.log("0000", 1, {"train/loss": 1.0}, at=1000)
    again = opened(uri)
    again.log("0000", 1, {"train/loss": 1.0}, at=1000)
    again.log("0000", 2, {"train/loss": 0.5}, at=2000)
    (run,) = children(uri, again)
    history = client(uri).get_metric_history(run.info.run_id, "train/loss")
    assert [(metric.step, metric.timestamp) for metric in history] == [(1, 1000), (2, 2000)]


def test_names_cannot_leave_the_home():
    assert check_name("my-search_1.2") == "my-search_1.2"
    for bad in ("../x", "a/b", "", ".hidden", "a..b", "x" * 200, "a b"):
        with pytest.raises(UserError, match="cannot be used"):
            check_name(bad)


def test_an_unreachable_server_is_named():
    with pytest.raises(UserError, match=r"http://127.0.0.1:9 does not answer"):
        reachable("http://127.0.0.1:9")


def test_weights_that_are_half_written_are_not_taken_for_whole(uri, tmp_path):
    weights = tmp_path / "best.pt"
    save(weights, {"weights": {}})
    weights.write_bytes(weights.read_bytes()[:-9])
    runs = opened(uri)
    runs.open_trial("0000", CONFIG, {})
    with pytest.raises(UserError, match="unusable"):
        runs.close_trial("0000", "completed", {}, {}, {"best.pt": weights})
    save(weights, {"weights": {}})
    runs.close_trial("0000", "completed", {}, {}, {"best.pt": weights})
    (run,) = children(uri, runs)
    assert run.info.status == "FINISHED"
