"""What is done with searches besides running them: listing them, taking them up, removing them."""

import os
import shutil
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import read_json
from tune_mtl.core.options import build
from tune_mtl.core.process.secrets import had_secrets
from tune_mtl.experiment.formats import SAVED, check_format
from tune_mtl.experiment.lock import alone_in
from tune_mtl.results.searches import all_searches, find_search
from tune_mtl.results.settings import Settings
from tune_mtl.tracking import names
from tune_mtl.tracking.pages.views import forget_view
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import check_name, client, reachable, report_folder, storage_folder

if TYPE_CHECKING:
    from tune_mtl.tracking.store import Run, StoreClient


def saved_settings(
    name: str,
    *,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    formats: Collection[int] = SAVED,
) -> Settings:
    """Return what a search was asked for, with what is given anew; from its folder, or from its run in MLflow.

    Args:
        name: Of the search.
        address, storage, tracking_uri: What is given anew.
        formats: Those of a search's folder that the caller can work with.

    Raises:
        UserError: if there is no such search, its format is another, or it needs a password that is not given.
    """
    folder = storage_folder(storage) / check_name(name)
    if (folder / names.SETTINGS_FILE).exists():
        saved = read_json(folder / names.SETTINGS_FILE)
    else:
        _, store, parent = find_search(name, tracking_uri)
        with tempfile.TemporaryDirectory() as scratch:
            saved = read_json(Path(store.download_artifacts(parent.info.run_id, names.SETTINGS_FILE, scratch)))
        place = storage_folder(saved.get("storage"))
        if storage is None and not _ours(place / name):
            raise UserError(
                f"the tracking store says that search '{name}' is in {place}, which holds no such search of yours:"
                " give --storage."
            )
    check_format(name, saved, formats)
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
    """Return whether ``folder`` holds the search of its name, kept there by this user.

    Where a search is, its run in MLflow says; who else writes to that store must not choose what is unpickled or
    removed here.
    """
    try:
        kept = folder / names.SETTINGS_FILE
        return kept.stat().st_uid == os.getuid() and read_json(kept, "name")["name"] == folder.name
    except (OSError, UserError):
        return False


def _own_folder(name: str, store: "StoreClient", parent: "Run") -> Path | None:
    """Return the folder of a search: in the home, else where its run says; None if it is neither, or not ours."""
    places = [storage_folder(None)]
    with tempfile.TemporaryDirectory() as scratch, suppress(Exception):  # whatever a foreign artifact may hold
        settings = read_json(Path(store.download_artifacts(parent.info.run_id, names.SETTINGS_FILE, scratch)))
        places.append(storage_folder(settings["storage"]))
    return next((place / name for place in places if _ours(place / name)), None)


def remove(name: str, given_uri: str | None = None) -> int:
    """Delete the runs of a search, its folder and its report; returns how many runs.

    Raises:
        UserError: if there is no such search, or it is running.
    """
    uri, store, parent = find_search(check_name(name), given_uri)
    reachable(uri, writing=True)
    folder = _own_folder(name, store, parent)
    if folder is not None:
        with alone_in(folder):
            pass
    runs = [
        parent,
        *(run for kind in names.KINDS for run in search_runs(store, [parent.info.experiment_id], name, kind)),
    ]
    for run in runs:
        store.delete_run(run.info.run_id)
    forget_view(store, parent.info.experiment_id, name)
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
    store = client(uri)
    parent = all_searches(store).get(name)
    if parent is not None:
        experiment = [parent.info.experiment_id]
        if parent.info.status == "FINISHED" or any(search_runs(store, experiment, name, kind) for kind in names.KINDS):
            return False
    with alone_in(folder):
        if parent is not None:
            store.delete_run(parent.info.run_id)
            forget_view(store, parent.info.experiment_id, name)
        shutil.rmtree(folder, ignore_errors=True)
    return True
