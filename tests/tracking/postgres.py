"""A real PostgreSQL of our own: loopback, a free port, passwords demanded, gone afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USER = "postgres"


def programs() -> Path | None:
    """Where ``initdb`` and ``postgres`` are: on PATH, or where Debian puts them; None if they are not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def postgresql(password: str) -> Iterator[str]:
    """The address of an empty database, with its password."""
    where = programs()
    assert where is not None
    # The server refuses to run as root, and its user cannot look into pytest's folders.
    as_user = ["runuser", "-u", _USER, "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="tune-mtl-postgres-", dir="/tmp"))
    secret = folder / "password"
    secret.write_text(password)
    if as_user:
        shutil.chown(folder, _USER)
        shutil.chown(secret, _USER)
    port = free_port()
    server: subprocess.Popen[bytes] | None = None
    try:
        made = [*as_user, str(where / "initdb"), "--pgdata", str(folder / "data"), "--username", _USER, "--no-sync"]
        made += ["--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8", "--locale", "C"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        secret.unlink()
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            command = [*as_user, str(where / "postgres"), "-D", str(folder / "data"), "-p", str(port), *options]
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
        _make_database(port, password)
        yield f"postgresql://{_USER}:{password}@127.0.0.1:{port}/mlflow"
    finally:
        if server is not None:
            os.killpg(server.pid, signal.SIGINT)  # does not wait for clients
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _make_database(port: int, password: str) -> None:
    import psycopg

    for _ in range(150):
        try:
            connection = psycopg.connect(host="127.0.0.1", port=port, user=_USER, password=password, dbname="postgres")
            break
        except psycopg.OperationalError:  # not up yet
            time.sleep(0.2)
    else:
        raise RuntimeError("PostgreSQL did not start")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE mlflow")
    connection.close()
