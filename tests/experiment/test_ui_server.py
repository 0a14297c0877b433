"""``tune-mtl ui`` prints addresses that are ready, and ends with whatever it started."""

import http.server
import io
import os
import shutil
import signal
import socket
import sys
import threading
import time

import psutil
import pytest
from rich.console import Console

from tests.tracking.postgres import free_port
from tune_mtl.cli import main
from tune_mtl.experiment import ui_server as serving
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.store import client, tracking_uri

STUBBORN = """
import http.server, signal, subprocess, sys, threading
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""


@pytest.fixture
def home(tmp_path, monkeypatch, empty_store):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "home").mkdir()
    shutil.copy(empty_store, tmp_path / "home" / "mlflow.db")
    return tmp_path / "home"


def make_search(name: str, objective: str = "val/loss:min") -> SearchRuns:
    runs = SearchRuns(tracking_uri(), "toy", name)
    runs.open_search({names.OBJECTIVE: objective, names.PROBLEM: "toy"}, {})
    for trial, strategy in (("0000", "sus"), ("0001", "io")):
        runs.open_trial(trial, {"strategy": strategy, "lr": 0.1, "metric": objective}, {"strategy": strategy})
        runs.log(trial, 1, {"train/loss": 1.0, "val/loss": 2.0})
        runs.close_trial(trial, "completed", {"best/val/loss": 2.0, "best/epoch": 1}, {}, {})
    return runs


def ui(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "ui", *words])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exited:
        main()
    return int(exited.value.code or 0)


@pytest.fixture
def fake_server(monkeypatch):
    """A server that answers at once and has a child of its own; gives the port."""
    command = [sys.executable, "-c", STUBBORN]
    monkeypatch.setattr(serving, "_command", lambda _, port, __: [*command, str(port)])
    return free_port()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_a_signal_ends_the_server_and_its_children(home, monkeypatch, capsys, fake_server, number, code):
    there, seen = set(psutil.Process().children(recursive=True)), list[psutil.Process]()

    def stop() -> None:
        while "Ctrl-C" not in printed.getvalue():
            time.sleep(0.05)
        seen.extend(set(psutil.Process().children(recursive=True)) - there)
        os.kill(os.getpid(), number)

    printed = io.StringIO()
    monkeypatch.setattr(serving, "console", lambda: Console(file=printed))
    before = signal.getsignal(number)
    threading.Thread(target=stop, daemon=True).start()
    assert ui(monkeypatch, "--port", str(fake_server)) == code
    assert len(seen) >= 2
    _, alive = psutil.wait_procs(seen, timeout=10)
    assert not alive
    assert signal.getsignal(number) == before
    assert "no searches yet" in printed.getvalue()


def test_what_ends_while_mlflow_starts_is_announced(home, monkeypatch, capsys, fake_server):
    """Its start takes longer than many a trial."""
    make_search("early")
    before = serving._wait_ready

    def wait(server, host, port, stopped):
        ready = before(server, host, port, stopped)
        make_search("late")
        threading.Timer(0.5, stopped.set).start()
        return ready

    monkeypatch.setattr(serving, "_wait_ready", wait)
    assert ui(monkeypatch, "--port", str(fake_server)) == 0
    printed = capsys.readouterr().out
    assert printed.index("search 'late'") < printed.index("search 'early'")
    assert printed.count("the best of each strategy") == 2


def test_what_is_no_store_of_mlflow_is_one_line(home, monkeypatch, capsys):
    (home / "mlflow.db").write_text("no database")
    assert ui(monkeypatch, "--port", str(free_port())) == 2
    error = capsys.readouterr().err
    assert "mlflow.db cannot be read: file is not a database" in error
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{other.server_port}"
        assert ui(monkeypatch, "--tracking-uri", uri) == 2
        other.shutdown()
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: tracking store {uri} does not answer as one: ")
    assert error.endswith("Else give another --tracking-uri.")


def test_a_server_that_does_not_start_is_one_line(home, monkeypatch, capsys):
    ends = "print('once'); print('no room on postgresql://me:word@host/x'); raise SystemExit(3)"
    monkeypatch.setattr(serving, "_command", lambda *_: [sys.executable, "-c", ends])
    port = free_port()
    assert ui(monkeypatch, "--port", str(port)) == 2
    error = capsys.readouterr().err
    log = home / f"ui-{port}.log"
    assert error.startswith(f"error: MLflow does not answer on http://127.0.0.1:{port}: no room on ")
    assert error.endswith(f"The log is {log}.\n")
    assert "word" not in error
    assert log.stat().st_mode & 0o077 == 0


def test_the_addresses_of_a_server_that_runs_are_printed(home, monkeypatch, capsys):
    for ordinal in range(serving.NEWEST + 1):
        make_search(f"s{ordinal}", "val/loss:max" if ordinal == serving.NEWEST else "val/loss:min")
        time.sleep(0.002)
    monkeypatch.setattr(serving, "tracking_uri", lambda _: "http://127.0.0.1:9")
    monkeypatch.setattr(serving, "reachable", lambda _, **__: None)
    monkeypatch.setattr(serving, "client", lambda _: client(tracking_uri()))
    opened: list[str] = []
    monkeypatch.setattr(serving.webbrowser, "open", opened.append)
    assert ui(monkeypatch, "--open") == 0
    printed = capsys.readouterr().out
    addresses = [word for word in printed.split() if word.startswith("http://127.0.0.1:9/#/")]
    assert len(addresses) == 4 * serving.NEWEST
    assert "search 's5'" in printed.splitlines()[1]
    assert "1 older: tune-mtl ui NAME" in printed
    assert opened == addresses[:1]
    assert ui(monkeypatch, "s0") == 0
    assert "viewStateShareKey=s0" in capsys.readouterr().out


def test_a_port_that_is_taken_and_an_unknown_search_are_one_line(home, monkeypatch, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert ui(monkeypatch, "--port", port) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: port {port} of 127.0.0.1 cannot be used")
    assert error.count("\n") == 1
    assert ui(monkeypatch, "--port", "70000") == 2
    assert "port 70000" in capsys.readouterr().err
    make_search("known")
    assert ui(monkeypatch, "knwon", "--port", str(free_port())) == 2
    assert "Did you mean 'known'?" in capsys.readouterr().err
