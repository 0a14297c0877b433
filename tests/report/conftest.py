"""A store of its own for every test; making its tables takes seconds, so they are made once and copied."""

import shutil

import pytest

import tune_mtl
from tests.report.stories import usual
from tune_mtl.report.evidence import Evidence
from tune_mtl.tracking.store import client, reachable, tracking_uri


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    uri = f"sqlite:///{folder}/mlflow.db"
    reachable(uri)
    client(uri).search_experiments()
    return folder / "mlflow.db"


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
        return written, Evidence.read("made")
