"""Real Ray nodes, several on this machine: started with `ray start`, each in a session of its own, ended by pid."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

_RAY = Path(sys.executable).with_name("ray")
_SECONDS = 120
_NOT_INHERITED = re.compile(r"PYTEST_.*|RAY_.*|TUNE_.*|MLFLOW_.*|PYTHONPATH")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Node:
    """One node: ``ray start --block`` and all processes of its session."""

    process: subprocess.Popen[bytes]
    name: str
    address: str
    log: Path

    def processes(self) -> list[psutil.Process]:
        """All that runs of it, also where the parent is gone; ``name()`` is ``raylet``, ``ray::IDLE``, ..."""
        found = []
        for each in psutil.process_iter():
            with suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getsid(each.pid) == self.process.pid and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
        return found

    def kill(self) -> None:
        """As a power cut does: everything, SIGKILL."""
        while alive := self.processes():
            for each in alive:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            time.sleep(0.05)
        self.process.wait()


class Nodes:
    """A cluster on loopback for the length of a ``with``; nothing of it is left afterwards, whatever was raised.

    The first node started is the head. All nodes and drivers share a token made for them: give processes that connect
    ``environment``, or connect from this one within :meth:`admitted`.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.address = f"127.0.0.2:{free_port()}"  # Ray replaces 127.0.0.1 by the machine's own address
        self._temp = Path(tempfile.mkdtemp(prefix="nodes-"))  # short, since Ray's sockets are below it
        token = self._temp / "token"
        token.write_text(secrets.token_hex(32))
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(
        self,
        name: str | None = None,
        *,
        cpus: int = 1,
        gpus: int = 0,
        under: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Node:
        """Start a node, and wait until it runs: two that start at once would take the same names for their sockets.

        Args:
            name: Shown by Ray; default ``node0``, ``node1``, ...
            cpus, gpus: That it offers, whatever the machine has.
            under: A command that runs the node's, such as ``unshare -m sh -c 'mount ...; exec "$@"' sh``.
            environment: Beside this process's own, without what pytest, Ray or we have set in it.
        """
        name, head = name or f"node{len(self.nodes)}", not self.nodes
        host, port = f"127.0.0.{len(self.nodes) + 2}", self.address.rpartition(":")[2]
        place = ["--head", f"--port={port}", f"--temp-dir={self._temp}"] if head else [f"--address={self.address}"]
        command = [
            *(*under, str(_RAY), "start", *place, "--block", f"--node-ip-address={host}", f"--node-name={name}"),
            *(f"--num-cpus={cpus}", f"--num-gpus={gpus}", "--disable-usage-stats"),
            *(["--include-dashboard=false"] if head else []),
        ]
        inherited = {key: value for key, value in os.environ.items() if not _NOT_INHERITED.fullmatch(key)}
        log = self._temp / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**inherited, **self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        node = Node(process, name, host, log)
        self.nodes.append(node)
        deadline = time.monotonic() + _SECONDS
        while b"Ray runtime started" not in log.read_bytes():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return node

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Lets ``ray.init(address)`` in this process in: Ray reads its variables once, unless told to again."""
        from ray._raylet import AuthenticationTokenLoader, Config

        before = {key: os.environ.get(key) for key in self.environment}
        try:
            os.environ.update(self.environment)
            Config.initialize("")
            AuthenticationTokenLoader.instance().reset_cache()
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value
            Config.initialize("")
            AuthenticationTokenLoader.instance().reset_cache()

    def stop(self) -> None:
        """End all nodes, the head last, and remove what they wrote."""
        for node in reversed(self.nodes):
            node.kill()
        shutil.rmtree(self._temp, ignore_errors=True)
