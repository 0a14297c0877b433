"""Prepared pages of MLflow: what they show is in the store, under the key that their address names."""

import base64
import json
import zlib

from tests.tracking.test_runs import uri  # noqa: F401
from tune_mtl.core.objective import Objective
from tune_mtl.tracking import names
from tune_mtl.tracking.pages import views
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.store import client

METRICS = ["val/loss", "val/loss/a", "train/loss", "best/val/loss", "best/epoch", "path/total", "seconds"]


def kept(of, experiment: str, search: str) -> dict:
    envelope = json.loads(of.get_experiment(experiment).tags[f"mlflow.sharedViewState.{search}"])
    return json.loads(zlib.decompress(base64.b64decode(envelope["state"].removeprefix("deflate;"))))


def test_trials_are_sorted_by_the_objective_and_show_their_outcome():
    for mode, ascending in (("min", True), ("max", False)):
        view = views.trials_view("s", Objective("val/x", mode), ["groups", "seed", "lr", "strategy"])
        assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`best/val/x`", ascending)
        assert view["selectedColumns"][:5] == [
            "tags.`tune_mtl.outcome`",
            "metrics.`best/val/x`",
            "params.`strategy`",
            "params.`lr`",
            "params.`groups`",
        ]
        assert view["searchFilter"] == "tags.`tune_mtl.search` = 's' and tags.`tune_mtl.kind` = 'trial'"


def test_charts_open_with_the_objective_and_fold_what_is_said_once():
    view = views.trials_view("s", Objective("val/loss"), ["lr"], METRICS)
    sections = {section["name"]: section["display"] for section in view["compareRunSections"]}
    assert list(sections.items()) == [
        ("The search", True), ("val/loss", True), ("Model metrics", False), ("best", False), ("best/val", False),
    ]  # fmt: skip
    lines = [chart["metricKey"] for chart in view["compareRunCharts"] if chart["type"] == "LINE"]
    assert lines == ["val/loss", "train/loss", "path/total"]
    assert [chart["showAllRuns"] for chart in view["compareRunCharts"] if chart["type"] == "PARALLEL"] == [True]
    assert view["runsHiddenMode"] == "FIRST_20_RUNS"


def test_a_view_is_kept_made_anew_and_forgotten(uri):  # noqa: F811
    runs = SearchRuns(uri, "toy", "s")
    runs.open_search({names.OBJECTIVE: "val/loss:min"}, {})
    of = client(uri)
    views.keep_view(of, runs.experiment, "s", Objective("val/loss"), ["lr"], METRICS)
    assert kept(of, runs.experiment, "s")["orderByAsc"] is True
    many = [f"val/task{number:04d}/{metric}" for number in range(3000) for metric in ("a", "b")]
    views.keep_view(of, runs.experiment, "s", Objective("val/acc", "max"), ["lr"], many)
    assert kept(of, runs.experiment, "s")["orderByAsc"] is False
    for _ in range(2):
        views.forget_view(of, runs.experiment, "s")
        assert "mlflow.sharedViewState.s" not in of.get_experiment(runs.experiment).tags
