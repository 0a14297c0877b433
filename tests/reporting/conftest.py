"""A store of its own for every test."""

import shutil

import pytest

import tune_mtl
from tests.reporting.stories import Story, repeated, replicated, usual
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking import names
from tune_mtl.tracking.store import reachable, tracking_uri


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch, empty_store):
    return use_home(tmp_path / "home", empty_store, monkeypatch)


def use_home(folder, empty_store, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_HOME", str(folder))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    reachable(tracking_uri())
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder


@pytest.fixture(scope="session")
def reported(tmp_path_factory, empty_store):
    """The usual search with its report, once for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("reported")
    with pytest.MonkeyPatch.context() as patched:
        use_home(folder, empty_store, patched)
        written = tune_mtl.report(usual().end())
        return written, SearchData.read("made")


@pytest.fixture(scope="session")
def repeated_search(tmp_path_factory, empty_store):
    """A search that repeated its tunings, in a store, with its report."""
    folder = tmp_path_factory.mktemp("repeated")
    with pytest.MonkeyPatch.context() as patched:
        use_home(folder, empty_store, patched)
        reached = repeated({"io": 0.30, "ius": 0.31, "sus": 0.5}, 4)
        facts = {"total": 24, "trials_per_tuning": 2}
        story = Story("tunings", settings={"strategies": list(reached)}, ranked_by=names.BY_TRIAL, **facts)
        told = {"io": {"groups": 2, "updates": 80, "path": 40.0}, "ius": {"groups": 2, "updates": 80, "path": 30.0}}
        replicated(reached, into=story, told=told)
        return tune_mtl.report(story.end()), SearchData.read("tunings")
