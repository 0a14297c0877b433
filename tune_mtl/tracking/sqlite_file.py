"""The SQLite file of a tracking store, looked at before MLflow is: what is wrong with it is known in milliseconds."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from tune_mtl.core.errors import UserError

_TROUBLE = re.compile(
    r"\(sqlite3\.\w+\) ([^\n]*(?:malformed|not a database|readonly|is full|I/O error|unable to open)[^\n]*)"
)
_PATIENCE = 5.0
"""Seconds to wait for another process that has locked the file."""


def check_sqlite(path: Path, *, writing: bool) -> None:
    """Refuse a file that is no database, or cannot be read, made or, where that is wanted, written.

    MLflow would try for two minutes and then show the traceback of its database library.

    Raises:
        UserError: in a line with the reason and the way out.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = path.exists() and path.stat().st_size > 0
        reason = _unreadable(path) if there else None
    except OSError as error:
        raise UserError(f"tracking store sqlite:///{path} cannot be made: {error.strerror}. {_way_out()}") from None
    if reason is not None:
        raise UserError(f"tracking store sqlite:///{path} cannot be read: {reason}. {_way_out()}")
    if there and not writing:
        return
    for needed in (path, path.parent):  # SQLite keeps a journal beside the file
        if needed.exists() and not os.access(needed, os.W_OK):
            done = "written" if there else "made"
            raise UserError(
                f"tracking store sqlite:///{path} cannot be {done}: no permission to write {needed}. {_way_out()}"
            )


def trouble_with_file(error: BaseException) -> str | None:
    """Return what ``error`` says of the file of a store, in a line; None if it says nothing of the kind.

    Damage that lies deep in a file, and a disk that has become full, are met when they are met.
    """
    found = _TROUBLE.search(str(error))
    if found is None:
        return None
    return (
        f"the tracking store cannot be used: {found[1]}. See the disk that it is on; a damaged file may be repaired:"
        " sqlite3 mlflow.db '.recover' | sqlite3 repaired.db"
    )


def _unreadable(path: Path) -> str | None:
    """Return why the file cannot be read as a database; None if it can, or if another process has locked it."""
    if path.is_dir():
        return "it is a folder"
    try:
        _read(path, "ro")
    except sqlite3.DatabaseError as error:
        if "readonly" in str(error) and os.access(path, os.W_OK):
            return _after_a_kill(path)
        return None if "locked" in str(error) else str(error)
    return None


def _after_a_kill(path: Path) -> str | None:
    """Return why a file cannot be read in which a killed process has left half a change: to read is to undo that."""
    try:
        _read(path, "rw")
    except sqlite3.DatabaseError as error:
        return None if "locked" in str(error) else str(error)
    return None


def _read(path: Path, mode: str) -> None:
    """Read the names of the tables."""
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", timeout=_PATIENCE, uri=True)) as database:
        database.execute("SELECT name FROM sqlite_master").fetchall()


def _way_out() -> str:
    """Return how a user gets a store that works."""
    return "Set TUNE_MTL_HOME to a folder that you may write, or give another --tracking-uri."
