"""What is done with searches besides running them: listing them, taking them up, removing them."""

import os
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import read_json
from tune_mtl.core.options import build
from tune_mtl.core.secrets import had_secrets
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.planning.settings import Settings
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.searches import all_searches, best, find_search
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import check_name, client, reachable, report_folder, storage_folder, tracking_uri
from tune_mtl.tracking.views import forget_view

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


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


def saved_settings(
    name: str, *, address: str | None = None, storage: str | None = None, tracking_uri: str | None = None
) -> Settings:
    """What a search was asked for, with what is ``given`` anew; from its folder, or from its run in MLflow.

    Raises:
        UserError: if there is no such search, or it needs a password that is not given.
    """
    folder = storage_folder(storage) / check_name(name)
    if (folder / names.SETTINGS_FILE).exists():
        saved = read_json(folder / names.SETTINGS_FILE)
    else:
        _, of, parent = find_search(name, tracking_uri)
        with tempfile.TemporaryDirectory() as scratch:
            saved = read_json(Path(of.download_artifacts(parent.info.run_id, names.SETTINGS_FILE, scratch)))
        place = storage_folder(saved.get("storage"))
        if storage is None and not _ours(place / name):
            raise UserError(
                f"the tracking store says that search '{name}' is in {place}, which holds no such search of yours:"
                " give --storage."
            )
    given = {"address": address, "storage": storage, "tracking_uri": tracking_uri}
    saved |= {key: value for key, value in given.items() if value is not None}
    if had_secrets(saved.get("tracking_uri") or ""):
        saved["tracking_uri"] = os.environ.get("MLFLOW_TRACKING_URI") or saved["tracking_uri"]
    for key in given:
        if had_secrets(saved.get(key) or ""):
            raise UserError(
                f"{key}={saved[key]} of search '{name}' needs what is never kept: give --{key.replace('_', '-')} again."
            )
    return build(Settings, saved)


def _ours(folder: Path) -> bool:
    """Whether ``folder`` holds the search of its name, kept there by this user.

    Where a search is, its run in MLflow says; who else writes to that store must not choose what is unpickled or
    removed here.
    """
    try:
        kept = folder / names.SETTINGS_FILE
        return kept.stat().st_uid == os.getuid() and read_json(kept, "name")["name"] == folder.name
    except (OSError, UserError):
        return False


def _own_folder(name: str, of: "MlflowClient", parent: "Run") -> Path | None:
    """The folder of a search: in the home, else where its run says; None if it is neither, or not ours."""
    places = [storage_folder(None)]
    with tempfile.TemporaryDirectory() as scratch, suppress(Exception):  # whatever a foreign artifact may hold
        settings = read_json(Path(of.download_artifacts(parent.info.run_id, names.SETTINGS_FILE, scratch)))
        places.append(storage_folder(settings["storage"]))
    return next((place / name for place in places if _ours(place / name)), None)


def remove(name: str, given_uri: str | None = None) -> int:
    """Delete the runs of a search, its folder and its report; returns how many runs.

    Raises:
        UserError: if there is no such search, or it is running.
    """
    uri, of, parent = find_search(check_name(name), given_uri)
    reachable(uri, writing=True)
    folder = _own_folder(name, of, parent)
    if folder is not None:
        with alone_in(folder):
            pass
    runs = [parent, *(run for kind in names.KINDS for run in search_runs(of, [parent.info.experiment_id], name, kind))]
    for run in runs:
        of.delete_run(run.info.run_id)
    forget_view(of, parent.info.experiment_id, name)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(report_folder(name), ignore_errors=True)
    return len(runs)


def release_unbegun(name: str, folder: Path, uri: str) -> bool:
    """Make the name of a search free that was killed before its first trial; returns whether it is free now.

    Such a search has no run of a trial, nothing that waits to be delivered and no saved state. One that another driver
    holds, or whose folder is not here, is left alone.
    """
    waiting = any(path.stat().st_size for path in (folder / "tracking").glob("*/*"))
    if not _ours(folder) or (folder / names.SNAPSHOT).exists() or waiting:
        return False
    of = client(uri)
    parent = all_searches(of).get(name)
    if parent is not None:
        experiment = [parent.info.experiment_id]
        if parent.info.status == "FINISHED" or any(search_runs(of, experiment, name, kind) for kind in names.KINDS):
            return False
    with alone_in(folder):
        if parent is not None:
            of.delete_run(parent.info.run_id)
            forget_view(of, parent.info.experiment_id, name)
        shutil.rmtree(folder, ignore_errors=True)
    return True
