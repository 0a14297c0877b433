"""Where things are: one home for runs, one MLflow store, found the same way by every command."""

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from tune_mtl.core.errors import UserError
from tune_mtl.core.process.home import home
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.tracking.sqlite_file import check_sqlite

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as Run

    StoreClient: TypeAlias = MlflowClient

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_REACH_SECONDS = 10


def searches_folder() -> Path:
    """Return where each search has a folder of its name."""
    return home() / "ray"


def storage_folder(given: str | None) -> Path:
    """Return where searches have their folders: ``given`` (a path, or ``file:///...``), else in the home."""
    return searches_folder() if given is None else Path(given.removeprefix("file://")).absolute()


def check_storage(given: str | None) -> str | None:
    """Return ``given`` if it can be a folder: records are appended and locked there, which object stores cannot do.

    Raises:
        UserError: otherwise.
    """
    if given is not None and "://" in given and not given.startswith("file:///"):
        raise UserError(
            f"storage {given} cannot be used: it must be a folder that all nodes share (NFS, EFS, a ReadWriteMany"
            " volume or a mounted bucket). Weights go to MLflow's artifact store, which may be an object store."
        )
    return given


def report_folder(name: str) -> Path:
    """Return where a search's report goes if nobody says otherwise."""
    return home() / "reports" / name


def check_name(name: str) -> str:
    """``name`` if it can name a folder and nothing outside it.

    Raises:
        UserError: otherwise.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise UserError(f"name {name!r} cannot be used: letters, digits, '_', '-' and '.', starting with a letter.")
    return name


def tracking_uri(given: str | None = None) -> str:
    """Return the given address, else ``MLFLOW_TRACKING_URI``, else the database in the home; never a relative one."""
    chosen = given or os.environ.get("MLFLOW_TRACKING_URI")
    if chosen:
        if chosen.startswith("sqlite:///") and not chosen.startswith("sqlite:////"):
            return f"sqlite:///{Path(chosen.removeprefix('sqlite:///')).absolute()}"
        return chosen
    return f"sqlite:///{home() / 'mlflow.db'}"


_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
"""Of the stores that are reached through the network."""


def artifact_root(uri: str) -> str | None:
    """Return where a store without a server keeps artifacts; None of a server, which knows its own place."""
    return None if uri.startswith(("http://", "https://")) else (home() / "artifacts").as_uri()


def reachable(uri: str, *, writing: bool = False) -> None:
    """Refuse a tracking store that cannot be, or does not answer, in seconds and before anything starts.

    Args:
        uri: Of the store.
        writing: Whether something is to be recorded there; a file that can only be read is enough for reports.

    Raises:
        UserError: in a line without what may be a password.
    """
    if uri.startswith("sqlite:///"):
        check_sqlite(Path(uri.removeprefix("sqlite:///")), writing=writing)
        return
    parts, shown = urlsplit(uri), without_secrets(uri)
    kind = parts.scheme.partition("+")[0]
    if kind not in _PORTS:
        known = ", ".join(f"{name}://" for name in ("sqlite", *_PORTS))
        raise UserError(f"tracking store {shown} cannot be used: it must begin with one of {known}.")
    try:
        port = parts.port or _PORTS[kind]
    except ValueError:  # its message quotes what may be a part of a password
        raise UserError(f"tracking store {shown} is no address: SCHEME://HOST:PORT.") from None
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_REACH_SECONDS).close()
    except OSError as error:
        where = f"{parts.scheme}://{parts.hostname}:{port}"
        raise UserError(
            f"tracking server {where} does not answer ({error}). Is it running? See --tracking-uri."
        ) from None


def client(uri: str) -> "StoreClient":
    """Return a client of the store, with MLflow's chatter turned down."""
    import logging

    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    from mlflow import MlflowClient

    try:
        return MlflowClient(tracking_uri=uri)
    except ModuleNotFoundError as error:
        raise UserError(f"tracking store {without_secrets(uri)} needs {error.name}: {_install(uri)}.") from None
    except Exception as error:  # each store has its own way not to be one
        raise no_store(uri, error) from error


def no_store(uri: str, error: Exception) -> UserError:
    """Return what is said of a store that answers otherwise than an MLflow store of this version."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    return UserError(
        f"tracking store {without_secrets(uri)} does not answer as one: {without_secrets(said)}"
        " Is it an MLflow of this version? Else give another --tracking-uri."
    )


def _install(uri: str) -> str:
    extra = 'pip install "tune-mtl[postgresql]"'
    return extra if uri.startswith("postgresql") else "install SQLAlchemy's driver for it"


def experiment_id(of: "StoreClient", name: str, uri: str) -> str:
    """Return the experiment's id; the experiment is made if there is none."""
    found = of.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    return str(of.create_experiment(name, artifact_location=_artifacts(name, uri)))


def _artifacts(name: str, uri: str) -> str | None:
    root = artifact_root(uri)
    return None if root is None else f"{root}/{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}"


def fetch(store: "StoreClient", run_id: str, file: str, folder: str) -> Path:
    """Copy an artifact of a run into ``folder``; returns where it is.

    Raises:
        UserError: if the run has no such artifact, or the store does not give it.
    """
    from mlflow.exceptions import MlflowException

    try:
        return Path(store.download_artifacts(run_id, file, folder))
    except (MlflowException, OSError) as error:
        raise UserError(str(error).splitlines()[0]) from None
