"""A database file that cannot be used is one line at once, for root as for others."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from sqlalchemy.exc import DatabaseError

from tune_mtl.cli import main
from tune_mtl.core.errors import UserError
from tune_mtl.results import summaries
from tune_mtl.tracking.store import reachable


@pytest.fixture
def unwritable(monkeypatch):
    """Have a path without write permission, which root is not kept from writing."""
    denied = set()
    permitted = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in denied and permitted(path, mode))
    return denied


def make_database(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE one (number INTEGER)")
    return path


def test_a_file_in_the_place_of_the_home_or_a_folder_in_that_of_the_database(tmp_path):
    (tmp_path / "home").touch()
    (tmp_path / "folder").mkdir()
    for path, reason in (("home/mlflow.db", "cannot be made: File exists"), ("folder", "it is a folder")):
        with pytest.raises(UserError, match=f"{path} .*{reason}.* Set TUNE_MTL_HOME"):
            reachable(f"sqlite:///{tmp_path}/{path}")


@pytest.mark.parametrize("content", [b"no database at all, only a text" * 9, b"SQLite format 3\0" + b"\xff" * 500])
def test_a_file_that_is_no_database_or_a_damaged_one(tmp_path, content):
    (tmp_path / "mlflow.db").write_bytes(content)
    with pytest.raises(UserError, match=r"mlflow.db cannot be read: (file is not a database|.*malformed)"):
        reachable(f"sqlite:///{tmp_path}/mlflow.db")


def test_what_may_not_be_written_can_be_read_but_not_made(tmp_path, unwritable):
    unwritable.add(str(tmp_path))
    with pytest.raises(UserError, match=f"cannot be made: no permission to write {tmp_path}"):
        reachable(f"sqlite:///{tmp_path}/mlflow.db")
    made = make_database(tmp_path / "mlflow.db")
    reachable(f"sqlite:///{made}")
    with pytest.raises(UserError, match=f"cannot be written: no permission to write {tmp_path}"):
        reachable(f"sqlite:///{made}", writing=True)
    unwritable.clear()
    unwritable.add(str(made))
    with pytest.raises(UserError, match=f"no permission to write {made}"):
        reachable(f"sqlite:///{made}", writing=True)


def test_a_database_that_another_process_writes_is_waited_for_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_mtl.tracking.sqlite_file._PATIENCE", 0.0)
    made = make_database(tmp_path / "mlflow.db")
    with closing(sqlite3.connect(made, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        reachable(f"sqlite:///{made}", writing=True)


def listing(monkeypatch, tmp_path, error):
    def read(_):
        raise error

    monkeypatch.setattr(summaries, "all_searches", read)
    monkeypatch.setattr(summaries, "client", lambda _: None)
    monkeypatch.setattr("sys.argv", ["tune-mtl", "list", "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db"])
    main()


def test_damage_that_is_met_later_is_a_line_and_other_errors_are_not_hidden(tmp_path, monkeypatch, capsys):
    damaged = sqlite3.DatabaseError("database disk image is malformed")
    with pytest.raises(SystemExit) as ended:
        listing(monkeypatch, tmp_path, DatabaseError("SELECT 1", {}, damaged))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the tracking store cannot be used: database disk image is malformed. See the disk")
    with pytest.raises(DatabaseError, match="no such column"):
        listing(monkeypatch, tmp_path, DatabaseError("SELECT 1", {}, sqlite3.OperationalError("no such column")))


_KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA cache_size=1")
database.executemany("INSERT INTO one VALUES (?)", ((number,) for number in range(100_000)))
os.kill(os.getpid(), 9)
"""


def test_half_a_change_of_a_killed_process_is_undone_and_no_damage(tmp_path):
    made = make_database(tmp_path / "mlflow.db")
    subprocess.run([sys.executable, "-c", _KILLED, str(made)])
    assert (tmp_path / "mlflow.db-journal").stat().st_size
    reachable(f"sqlite:///{made}")
    reachable(f"sqlite:///{made}", writing=True)
    with closing(sqlite3.connect(made)) as database:
        assert database.execute("SELECT count(*) FROM one").fetchone() == (0,)
