"""MLflow's UI on the tracking store: started, announced with ready addresses, and ended with whatever it started."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tune_mtl.core.errors import UserError
from tune_mtl.core.process.home import home
from tune_mtl.core.process.secrets import without_secrets
from tune_mtl.results.searches import all_searches, find_search
from tune_mtl.terminal.console import console
from tune_mtl.tracking.pages.prepare import Pages, prepare_pages
from tune_mtl.tracking.store import artifact_root, client, reachable, tracking_uri

if TYPE_CHECKING:
    from tune_mtl.tracking.store import Run, StoreClient

NEWEST = 5
"""The number of searches that are announced if none is named."""
_START_SECONDS = 180
_END_SECONDS = 10
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WEB = "--log-level warning --timeout-graceful-shutdown 1"
"""For MLflow's web server: at the end, a page that is still open is not waited for."""
_LEAN = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""Without the eight processes that MLflow keeps for jobs of language models: they take the cores from a search."""


def serve(
    host: str, port: int, given_uri: str | None = None, *, search: str | None = None, browse: bool = False
) -> int:
    """Run MLflow's server on the store until it is stopped; returns the exit code.

    Args:
        host: Where it listens.
        port: Likewise.
        given_uri: The store. One that is a server already is not started: its addresses are printed.
        search: Announce this one; None: the newest.
        browse: Open the first address in a browser.

    Raises:
        UserError: if there is no such search, the port is taken, or MLflow does not start.
    """
    uri = tracking_uri(given_uri)
    served = uri.startswith(("http://", "https://"))
    if not served:
        _check_port(host, port)
    reachable(uri, writing=True)
    store = client(uri)
    found, left = _searches(store, search, given_uri)
    if served:
        _announce(without_secrets(uri).rstrip("/"), _pages(store, found), left, browse=browse)
        return 0
    address, log = f"http://{host}:{port}", home() / f"ui-{port}.log"
    console().print(f"MLflow starts on {address}, which takes some seconds (log: {log}) ...", soft_wrap=True)
    with _stoppable() as stopped:
        server = _start(host, port, uri, log)
        try:
            if _wait_ready(server, host, port, stopped):
                found, left = _searches(store, search, given_uri)  # trials may have ended since
                _announce(address, _pages(store, found), left, browse=browse)
                console().print("Ctrl-C ends it.")
            elif not stopped.is_set():
                raise UserError(f"MLflow does not answer on {address}: {_last_line(log)} The log is {log}.")
            while server.poll() is None and not stopped.is_set():
                stopped.wait(0.2)
        finally:
            code = _end(server)
        return stopped.code if stopped.is_set() else code


def _start(host: str, port: int, uri: str, log: Path) -> "subprocess.Popen[bytes]":
    """Start MLflow's server in a session of its own; what it says goes to ``log``."""
    told = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_BACKEND_STORE_URI": uri, **_LEAN}
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb", opener=partial(os.open, mode=0o600)) as said:
            return subprocess.Popen(
                _command(host, port, uri),
                env={**os.environ, **told},
                start_new_session=True,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
    except OSError as error:
        raise UserError(f"{log} cannot be written: {error.strerror}. Set TUNE_MTL_HOME to another folder.") from None


def _last_line(log: Path) -> str:
    """Return the last thing that the server said, as a sentence without secrets."""
    lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    return without_secrets(lines[-1].strip()).rstrip(".") + "."


def _command(host: str, port: int, uri: str) -> list[str]:
    """Return the command line of the server, which is not told the store: arguments are for all to see."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port)]
    command += ["--workers", "1", "--uvicorn-opts", _WEB]
    root = artifact_root(uri)
    return command if root is None else [*command, "--default-artifact-root", root]


class _Stop(threading.Event):
    """Whether a signal asked to end, and the exit code that it asks for."""

    code = 0


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    """Have signals that end a process noticed instead; Ctrl-C is the usual end and no failure."""
    stop = _Stop()

    def ask(number: int, _: FrameType | None) -> None:
        stop.code = 0 if number == signal.SIGINT else 128 + number
        stop.set()

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(server: "subprocess.Popen[bytes]") -> int:
    """End the server and every process that it has started; returns its exit code."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(_END_SECONDS)
    return server.returncode


def _wait_ready(server: "subprocess.Popen[bytes]", host: str, port: int, stopped: threading.Event) -> bool:
    """Return whether the server answers, once that is known."""
    here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    until = time.monotonic() + _START_SECONDS
    while server.poll() is None and not stopped.is_set() and time.monotonic() < until:
        try:
            urllib.request.urlopen(f"http://{here}:{port}/health", timeout=1).close()
            return True
        except OSError:
            stopped.wait(0.2)
    return False


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            raise UserError(
                f"port {port} of {host} cannot be used: {reason}. Is tune-mtl ui running already? Else give --port."
            ) from None


def _searches(store: "StoreClient", search: str | None, given_uri: str | None) -> tuple[dict[str, "Run"], int]:
    """Return the searches to announce, by name, and how many others there are."""
    if search is not None:
        return {search: find_search(search, given_uri)[2]}, 0
    found = all_searches(store)
    return dict(list(found.items())[:NEWEST]), max(0, len(found) - NEWEST)


def _pages(store: "StoreClient", found: Mapping[str, "Run"]) -> list[Pages]:
    return [prepare_pages(store, name, parent) for name, parent in found.items()]


def _announce(address: str, pages: list[Pages], left: int, *, browse: bool) -> None:
    """Print where to look, and open the first of it if asked to."""
    screen = console()
    for found in pages:
        screen.print(f"\nsearch '{found.name}' on {found.problem}:", soft_wrap=True)
        lines = {
            "trials, best first": found.trials,
            "their charts": found.charts,
            "the best of each strategy": found.winners,
            "the answer, how it went": found.search,
        }
        for title, where in lines.items():
            if where is not None:
                screen.print(f"  {title:<26} {address}/{where}", soft_wrap=True, highlight=False, markup=False)
    if left:
        screen.print(f"\n{left} older: tune-mtl ui NAME (tune-mtl list has the names).")
    if not pages:
        screen.print(f"{address} has no searches yet: tune-mtl search multidigits starts one.", soft_wrap=True)
    if browse:
        webbrowser.open(f"{address}/{pages[0].trials if pages else ''}")
