"""What is done with searches besides running them: listing, removing, looking at them in MLflow's UI."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tune_mtl.best import BestTrial, all_searches, best, find_search
from tune_mtl.core.errors import UserError
from tune_mtl.core.options import build
from tune_mtl.searching.settings import Settings
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import (
    artifact_root,
    check_name,
    client,
    reachable,
    report_folder,
    searches_folder,
    tracking_uri,
)
from tune_mtl.training.trial import read_json


@dataclass(frozen=True)
class SearchSummary:
    """A line of ``tune-mtl list``."""

    name: str
    problem: str
    state: str
    counts: dict[str, int]
    best: BestTrial | None


def summaries(given_uri: str | None = None) -> list[SearchSummary]:
    """All searches of the store, the newest first."""
    uri = tracking_uri(given_uri)
    reachable(uri)
    of = client(uri)
    found = []
    for name, parent in all_searches(of).items():
        children = search_runs(of, [parent.info.experiment_id], name, "trial")
        counts = Counter(run.data.tags.get(names.OUTCOME, run.info.status.lower()) for run in children)
        try:
            winner = best(name, tracking_uri=uri)
        except UserError:
            winner = None
        state = {"FINISHED": "complete", "RUNNING": "running or killed"}.get(parent.info.status, "interrupted")
        found.append(SearchSummary(name, parent.data.tags.get(names.PROBLEM, ""), state, dict(counts), winner))
    return found


def saved_settings(name: str, storage: str | None, given_uri: str | None) -> Settings:
    """What a search was asked for: from its folder, or from its run in MLflow where the folder is elsewhere.

    Raises:
        UserError: if there is no such search.
    """
    folder = (searches_folder() if storage is None else Path(storage)) / name
    if (folder / names.SETTINGS_FILE).exists():
        return build(Settings, read_json(folder / names.SETTINGS_FILE))
    _, of, parent = find_search(name, given_uri)
    with tempfile.TemporaryDirectory() as scratch:
        return build(Settings, read_json(Path(of.download_artifacts(parent.info.run_id, names.SETTINGS_FILE, scratch))))


def remove(name: str, given_uri: str | None = None) -> int:
    """Delete the runs of a search, its folder and its report; returns how many runs.

    Raises:
        UserError: if there is no such search.
    """
    _, of, parent = find_search(check_name(name), given_uri)
    storage = saved_settings(name, None, given_uri).storage
    runs = [parent, *(run for kind in names.KINDS for run in search_runs(of, [parent.info.experiment_id], name, kind))]
    for run in runs:
        of.delete_run(run.info.run_id)
    shutil.rmtree((searches_folder() if storage is None else Path(storage)) / name, ignore_errors=True)
    shutil.rmtree(report_folder(name), ignore_errors=True)
    return len(runs)


def serve(host: str, port: int, given_uri: str | None = None) -> int:
    """Run MLflow's server on the store until it is stopped; returns its exit code."""
    uri = tracking_uri(given_uri)
    if uri.startswith(("http://", "https://")):
        raise UserError(f"{uri.split('@')[-1]} is a server already: open it in a browser.")
    reachable(uri)
    of = client(uri)
    print_address(host, port, {e.name: e.experiment_id for e in of.search_experiments()})
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        uri,
        "--host",
        host,
        "--port",
        str(port),
    ]
    root = artifact_root(uri)
    if root is not None:
        command += ["--default-artifact-root", root]
    try:
        return subprocess.run(command, env={**os.environ, "MLFLOW_TRACKING_URI": uri}).returncode
    except KeyboardInterrupt:
        return 0


def print_address(host: str, port: int, experiments: dict[str, str]) -> None:
    """Where to look."""
    from tune_mtl.terminal.tables import console

    for name, number in experiments.items():
        if name.startswith(names.PREFIX):
            console().print(f"{name}: http://{host}:{port}/#/experiments/{number}", soft_wrap=True)
