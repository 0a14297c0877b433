"""A real MLflow server, to be killed and started again on the same store."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.faults.processes import kill_family, until
from tests.preflight.nodes import free_port

_SECONDS = 120


class Server:
    """``mlflow server`` on sqlite, with served artifacts, at one address for its whole life."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder, self._port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pids(self) -> list[int]:
        return [] if self._process is None else [self._process.pid]

    def start(self, *, wait: bool = True) -> None:
        """Start it; answering takes it about 5 seconds on a free machine."""
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self._port)),
            *("--backend-store-uri", f"sqlite:///{self._folder / 'mlflow.db'}", "--workers", "1"),
            *("--serve-artifacts", "--artifacts-destination", str(self._folder / "artifacts")),
        ]
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it answers."""
        assert until(self.answers, _SECONDS), (self._folder / "server.log").read_text()[-2000:]

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            kill_family(self._process.pid)
            self._process.wait()
            self._process = None
