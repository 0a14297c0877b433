"""A small world of real processes on loopback: Ray nodes, a tracking server, drivers, a disk that can be full."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults import slow
from tests.faults.processes import actors, adopt_orphans, alive, bury, children, kill_family, title, until
from tests.faults.server import Server
from tests.preflight.nodes import Node, Nodes

_ROOT = Path(__file__).parents[2]
_CTRL_C_WORKS = ("env", "--default-signal=INT")  # also where this process was started in the background
_OTHERS = re.compile(r"PYTEST_.*|RAY_.*|TUNE_.*|MLFLOW_.*")


@dataclass
class Driver:
    """A command of ours in a process and session of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float = 240) -> int:
        """Its exit code; one that takes longer than ``seconds`` is killed, and it is an error."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            kill_family(self.process.pid)
            self.process.wait()
            raise AssertionError(f"still running after {seconds} s: {self.log}\n{self.said()}") from None

    def kill(self) -> None:
        """SIGKILL to this process alone: what it started has to notice by itself."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal does it: to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


class World:
    """Everything that a search on a cluster needs, for the length of a ``with``; nothing of it is left afterwards.

    Attributes:
        folder: Of everything: the user's module, the home, the storage, the servers' stores, logs.
        storage: A folder that all nodes share.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="faults-")) if folder is None else folder
        self.user, self.home, self.storage = (self.folder / name for name in ("user", "home", "storage"))
        for part in (self.user, self.home, self.storage):
            part.mkdir(parents=True)
        shutil.copy(slow.__file__, self.user / "slow.py")
        self._servers: list[Server] = []
        self._nodes: Nodes | None = None
        self._drivers: list[Driver] = []
        self._numbers = itertools.count()
        self._mounted: list[Path] = []

    def __enter__(self) -> "World":
        self._here_before = {child.pid for child in children()}
        adopt_orphans()
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._drivers:
            kill_family(driver.process.pid)
            driver.process.wait()
        self.lose_cluster()
        for server in self._servers:
            server.kill()
        for orphan in self.orphans():
            kill_family(orphan.pid)
        self._bury()
        adopt_orphans(yes=False)
        for mounted in self._mounted:
            subprocess.run(["umount", "--lazy", str(mounted)], check=False)

    def server(self, name: str = "server") -> Server:
        """A tracking server with a store of its own; whoever needs it starts it."""
        self._servers.append(Server(self.folder / name))
        return self._servers[-1]

    def command(self, *words: str, clustered: bool = False) -> Driver:
        """Start ``tune-mtl WORDS`` where the user's module is; ``clustered``: with the cluster's token."""
        log = self.folder / f"driver{next(self._numbers)}.log"
        inherited = {key: value for key, value in os.environ.items() if not _OTHERS.fullmatch(key)}
        own = {"TUNE_MTL_HOME": str(self.home), "PYTHONPATH": str(_ROOT)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_CTRL_C_WORKS, sys.executable, "-m", "tune_mtl.cli", *words],
                cwd=self.user,
                env={**inherited, **own, **(self._nodes.environment if clustered and self._nodes else {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        driver = Driver(process, log)
        self._drivers.append(driver)
        return driver

    @property
    def address(self) -> str:
        """Of the cluster."""
        assert self._nodes is not None, "there is no cluster"
        return self._nodes.address

    @property
    def nodes(self) -> list[Node]:
        """Those that run, the head first."""
        return [] if self._nodes is None else [node for node in self._nodes.nodes if node.process.poll() is None]

    def start_cluster(self, *, nodes: int = 3, cpus: int = 2) -> None:
        """A new cluster of ``nodes``, each with an address of its own; no trial runs on a head that has others."""
        self._nodes = Nodes()
        for number in range(nodes):  # one after the other: two at once would take the same name for their sockets
            self.add_node(cpus=cpus if number or nodes == 1 else 0)

    def add_node(self, cpus: int = 2, hidden: Path | None = None) -> Node:
        """One more node; it sees the folder ``hidden`` as an empty one, where this process may mount."""
        assert self._nodes is not None
        under: tuple[str, ...] = ()
        if hidden is not None and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
            under = ("unshare", "-m", "sh", "-c", f"mount -t tmpfs none '{hidden}' && exec \"$@\"", "sh")
        return self._nodes.start(cpus=cpus, under=under, environment={"PYTHONPATH": str(_ROOT)})

    def lose_cluster(self) -> None:
        """Kill all nodes at once."""
        if self._nodes is not None:
            self._nodes.stop()
            self._nodes = None

    def small_disk(self, name: str, megabytes: int = 16) -> Path:
        """A new disk of its own.

        Raises:
            PermissionError: mounting is root's.
        """
        disk = self.folder / "disks" / name
        disk.mkdir(parents=True)
        options = ["-o", f"size={megabytes}m", "faults", str(disk)]
        done = subprocess.run(["mount", "-t", "tmpfs", *options], capture_output=True, text=True)
        if done.returncode != 0:
            raise PermissionError(f"no small disk can be mounted: {done.stderr.strip()}")
        self._mounted.append(disk)
        return disk

    def trial_workers(self) -> list[psutil.Process]:
        """Ray's workers that hold a trial, of whatever driver or node."""
        return actors(self._started())

    def orphans(self) -> list[psutil.Process]:
        """What outlived the driver or node that started it, and trials on a cluster that have no driver any more."""
        self._bury()
        ours = {*self._started(), *self._here_before}
        left = [child for child in children() if child.pid not in ours]
        if not any(driver.running for driver in self._drivers):
            left += self.trial_workers()
        return left

    def orphans_after(self, seconds: float) -> list[str]:
        """Those that are left after so long."""
        until(lambda: not self.orphans(), seconds, pause=0.2)
        return [f"{orphan.pid} {title(orphan)[:120]}" for orphan in self.orphans() if alive(orphan)]

    def _started(self) -> list[int]:
        nodes = [] if self._nodes is None else [node.process.pid for node in self._nodes.nodes]
        drivers = [driver.process.pid for driver in self._drivers if driver.running]
        return [*drivers, *nodes, *(pid for server in self._servers for pid in server.pids)]

    def _bury(self) -> None:
        bury([*self._started(), *(driver.process.pid for driver in self._drivers)])
