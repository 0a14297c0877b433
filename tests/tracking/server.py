"""A real ``mlflow server`` of our own on loopback, as docs/cluster.md starts a team's."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tracking.postgres import free_port


@contextmanager
def mlflow_server(store: str, artifacts: Path, log: Path) -> Iterator[str]:
    """The address of a server that keeps runs in ``store`` and serves what is in ``artifacts``."""
    address = f"127.0.0.1:{free_port()}"
    host, port = address.split(":")
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", port, "--allowed-hosts", address]
    command += ["--artifacts-destination", str(artifacts), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_BACKEND_STORE_URI": store}  # not an argument: those are for all to see
    environment.pop("MLFLOW_TRACKING_URI", None)
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        for _ in range(240):
            assert server.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(f"http://{address}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.5)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # asked gently, it waits for its clients
        server.wait(30)
