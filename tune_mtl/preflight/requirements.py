"""What a search needs besides nodes, looked at from the driver: the tracking store and prepared data."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tune_mtl.core.errors import UserError
from tune_mtl.core.process.secrets import HIDDEN, without_secrets
from tune_mtl.preflight.checks import DRIVER, Check
from tune_mtl.preflight.probe import reason
from tune_mtl.prepare.prepared_set import MANIFEST, PreparedSet, data_folder
from tune_mtl.tracking.store import client, reachable

_ANSWER_SECONDS = 20


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a search needs of its nodes, its storage and its tracking store.

    Attributes:
        folder: Where searches have their folders.
        store: The address of the tracking store.
        prepared: The prepared data that its problem reads.
        cpus, gpus: What one trial takes.
        modules: Those of the user's that workers must be able to import.
        address, storage, tracking_uri: What the user gave, for the command that repeats the checks.
    """

    folder: Path
    store: str
    prepared: tuple[PreparedSet, ...]
    cpus: float
    gpus: float
    address: str | None
    storage: str | None
    tracking_uri: str | None
    modules: tuple[str, ...] = ()


_SQLITE = "sqlite:///"


def check_tracking(uri: str) -> Check:
    """Check whether the store answers a question from here: no other node talks to it. It makes nothing."""
    shown = f"tracking store {public(uri)}"
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).exists():
        return _to_be_made(shown, Path(uri.removeprefix(_SQLITE)).parent)
    try:
        _ = urlsplit(uri).port
    except ValueError:  # it quotes what it takes for the port: maybe a part of a password
        way_out = "give SCHEME://HOST:PORT; in a password, write %2F for /, %3F for ?, %23 for # and %40 for @"
        return Check("failure", DRIVER, f"{shown} is no address", way_out)
    try:
        reachable(uri, writing=True)
        _ask(uri)
    except UserError as error:
        return Check("failure", DRIVER, without_secrets(str(error)))
    except Exception as error:
        why = without_secrets(reason(error).replace(uri, public(uri)))
        way_out = (
            "see that it runs, is an MLflow of this version and lets this machine in (--allowed-hosts,"
            " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD), or give another --tracking-uri"
        )
        return Check("failure", DRIVER, f"{shown} does not answer: {why}", way_out)
    return Check("ok", DRIVER, f"{shown} answers")


def find_data(given: str | None) -> tuple[list[PreparedSet], list[Check]]:
    """Return the prepared sets in a folder (or the one that it is), and what is odd about it.

    Nothing there is a failure only if the folder was asked for, by the argument or ``TUNE_MTL_DATA``.
    """
    folder = data_folder(given)
    whole = [folder] if (folder / MANIFEST).exists() else sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    sets, checks = [], []
    for path in whole:
        try:
            sets.append(PreparedSet(path))
        except UserError as error:
            checks.append(Check("failure", DRIVER, f"data: {error}"))
    for path in sorted(folder.glob("*.partial")):
        name = path.name.removesuffix(".partial")
        way_out = f"the same tune-mtl prepare {name} command goes on"
        checks.append(Check("warning", DRIVER, f"data: {name} in {folder} is half prepared", way_out))
    if not whole:
        asked = given is not None or "TUNE_MTL_DATA" in os.environ
        what = f"data: none in {folder}" if asked else f"data: none in {folder}, and none asked for"
        way_out = f"tune-mtl prepare DATASET --source DIR --out {folder}, or say where it is with --data"
        checks.append(Check("failure" if asked else "ok", DRIVER, what, way_out if asked else ""))
    return sets, checks


def sizes(prepared: PreparedSet) -> list[Check]:
    """Check whether all files of a set have the size and kind that its manifest says; it reads next to nothing."""
    try:
        for split in prepared.manifest.splits:
            prepared.arrays(split)
    except UserError as error:
        return [Check("failure", DRIVER, f"data: {error}")]
    return []


def public(uri: str) -> str:
    """Return an address without what may be a password, even one that should have been quoted."""
    scheme, mark, rest = uri.partition("://")
    if "@" in rest and not rest.startswith("/"):
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    return without_secrets(f"{scheme}{mark}{rest}")


def _to_be_made(shown: str, folder: Path) -> Check:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Check("ok", DRIVER, f"{shown} is not there yet: the first search makes it")
    return Check("failure", DRIVER, f"{shown} cannot be made: {folder} cannot be written", "give --tracking-uri")


def _ask(uri: str) -> None:
    """Ask the store one question, and wait for the answer within the time limit."""
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            client(uri).search_experiments(max_results=1)
        except BaseException as error:
            raised.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    if asking.is_alive():
        raise TimeoutError(f"no answer within {_ANSWER_SECONDS} s")
    if raised:
        raise raised[0]
