"""The kinds of faults: each strikes a running search once, at a moment that chance decides."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from tests.faults.processes import actors
from tests.faults.searches import Search
from tune_mtl.training.trial import CHECKPOINT

Place = Literal["local", "cluster"]


class Missed(Exception):
    """The search had ended before the fault struck."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        what: For people.
        strike: Waits for the moment and strikes; returns when and whom, for people.
        places: Where it can happen: Ray started by the driver itself, or a cluster of three nodes.
        confirm: Fresh seeds that the search confirms on.
        small_disk: Whether the storage has to be on a disk that can be filled.
        scheduler: The one that the search needs; None: any.
    """

    what: str
    strike: Callable[[Search, Random], str]
    places: tuple[Place, ...] = ("local", "cluster")
    confirm: int = 0
    small_disk: bool = False
    scheduler: str | None = None


def _moment(search: Search, chance: Random, *, earliest: int = 1, latest: int = 12) -> str:
    """Wait for some result, and a little longer."""
    results, after = chance.randint(earliest, latest), chance.uniform(0.0, 0.6)
    search.wait_for(lambda: len(search.news()) >= results)
    time.sleep(after)
    if not search.driver.running:
        raise Missed
    return f"{after:.2f} s after result {results}"


def worker_killed(search: Search, chance: Random) -> str:
    """SIGKILL to the process that trains a trial."""
    moment = _moment(search, chance)
    search.wait_for(search.world.trial_workers)
    worker = chance.choice(search.world.trial_workers())
    worker.kill()
    return f"{moment}, worker {worker.pid}"


def worker_killed_while_saving(search: Search, chance: Random) -> str:
    """SIGKILL to a worker while it puts a checkpoint into the storage: a part of one is left there."""
    moment = _moment(search, chance, latest=8)
    _next_checkpoint(search)
    workers = search.world.trial_workers()
    for worker in workers:
        worker.kill()
    return f"{moment}, at the next checkpoint, {len(workers)} workers"


def node_killed(search: Search, chance: Random) -> str:
    """All processes of a node that trains trials; another node joins some seconds later."""
    moment = _moment(search, chance)
    busy = [node for node in search.world.nodes[1:] if actors([node.process.pid])]
    node = chance.choice(busy or search.world.nodes[1:])
    node.kill()
    pause = chance.uniform(0.0, 6.0)
    time.sleep(pause)
    search.world.add_node()
    return f"{moment}, {node.name}; another one {pause:.1f} s later"


def disk_full(search: Search, chance: Random) -> str:
    """Not a byte left in the storage for some seconds."""
    moment, seconds = _moment(search, chance), chance.uniform(2.0, 8.0)
    fill(search.storage, seconds)
    return f"{moment}, for {seconds:.1f} s"


def fill(disk: Path, seconds: float) -> None:
    """Keep a disk full: what is freed meanwhile is taken at once."""
    ballast = disk / "ballast"
    deadline = time.monotonic() + seconds
    with ballast.open("wb", buffering=0) as file:
        while time.monotonic() < deadline:
            for size in (2**20, 2**12, 1):
                with suppress(OSError):
                    while time.monotonic() < deadline:
                        file.write(bytes(size))
            time.sleep(0.01)
    ballast.unlink()


def server_down(search: Search, chance: Random) -> str:
    """The tracking server is killed, and started again later."""
    moment, seconds = _moment(search, chance, latest=8), chance.uniform(4.0, 12.0)
    search.server.kill()
    time.sleep(seconds)
    search.server.start()
    return f"{moment}, for {seconds:.1f} s and its start"


def server_restarted(search: Search, chance: Random) -> str:
    """The tracking server is killed and started again at once."""
    moment = _moment(search, chance, latest=10)
    search.server.kill()
    search.server.start()
    return moment


def driver_killed(search: Search, chance: Random) -> str:
    """SIGKILL to the driver, at any moment of its life."""
    if chance.random() < 0.25:
        seconds = chance.uniform(0.5, 15.0)
        time.sleep(seconds)
        moment = f"{seconds:.1f} s after its start"
    else:
        moment = _moment(search, chance, latest=18)
    search.driver.kill()
    return moment


def driver_killed_in_snapshot(search: Search, chance: Random) -> str:
    """SIGKILL to the driver while it writes the search's state."""
    moment = _moment(search, chance)
    partial = str(search.folder / ".snapshot.zip.partial")
    search.wait_for(lambda: os.path.exists(partial), pause=0.0)  # noqa: PTH110 - as quick as can be
    search.driver.kill()
    return f"{moment}, at the next snapshot ({'half written' if os.path.exists(partial) else 'just put in place'})"  # noqa: PTH110


def driver_killed_while_saving(search: Search, chance: Random) -> str:
    """SIGKILL to the driver while a trial replaces its checkpoint with the best weights."""
    moment = _moment(search, chance, latest=8)
    _next_checkpoint(search)
    search.driver.kill()
    return f"{moment}, at the next checkpoint"


def driver_killed_thawing(search: Search, chance: Random) -> str:
    """SIGKILL to the driver when it has decided that a paused trial goes on, and before or while it does."""
    moment, after = _moment(search, chance, latest=4), chance.uniform(0.0, 0.4)
    before = search.thaws()
    search.wait_for(lambda: search.thaws() > before, pause=0.0)
    time.sleep(after)
    search.driver.kill()
    return f"{moment}, {after:.2f} s after the next thaw was decided"


def checkpoints_damaged(search: Search, chance: Random) -> str:
    """SIGKILL to the driver; then half of the checkpoints are cut short, and the others are gone."""
    moment = _moment(search, chance, earliest=3)
    search.driver.kill()
    found = sorted(search.folder.glob(f"trial_*/checkpoint_*/{CHECKPOINT}"))
    for number, path in enumerate(found):
        if number % 2:
            path.unlink()
        else:
            os.truncate(path, path.stat().st_size // 2)
    return f"{moment}, {len(found)} checkpoints"


def _next_checkpoint(search: Search) -> None:
    """Wait until the next one begins to appear."""
    before = set(search.folder.glob("trial_*/checkpoint_*"))
    search.wait_for(lambda: not before.issuperset(search.folder.glob("trial_*/checkpoint_*")), pause=0.0)


def driver_terminated(search: Search, chance: Random) -> str:
    """SIGTERM to the driver: what a batch system or Kubernetes sends first."""
    moment = _moment(search, chance)
    search.driver.process.terminate()
    code = search.driver.wait(60)
    assert code == 143, f"exit code {code} after SIGTERM: {search.driver.said()}"
    assert f"tune-mtl resume {search.asked.name}" in search.driver.said(), search.driver.said()
    assert "SIGTERM received" not in search.driver.said(), "Ray's trace"
    return moment


def driver_killed_confirming(search: Search, chance: Random) -> str:
    """SIGKILL to the driver while winners are trained again on fresh seeds."""
    results, after = chance.randint(0, 6), chance.uniform(0.0, 0.6)
    search.wait_for(lambda: (search.folder / "tracking" / "confirm").exists())
    search.wait_for(lambda: len(search.reported("confirm")) >= results)
    time.sleep(after)
    if not search.driver.running:
        raise Missed
    search.driver.kill()
    return f"{after:.2f} s after result {results} of the confirmation"


def head_lost(search: Search, chance: Random) -> str:
    """All nodes at once, and the driver with them or not; the search goes on with a new cluster at another address."""
    moment, together = _moment(search, chance), chance.random() < 0.7
    if together:
        search.driver.kill()
    search.world.lose_cluster()
    search.world.start_cluster()
    return f"{moment}, {'with' if together else 'without'} its driver"


def ctrl_c(search: Search, chance: Random) -> str:
    """Ctrl-C in the driver's terminal."""
    moment = _moment(search, chance)
    search.driver.interrupt()
    code = search.driver.wait()
    assert code == 130, f"exit code {code} after Ctrl-C: {search.driver.said()}"
    assert f"tune-mtl resume {search.asked.name}" in search.driver.said(), search.driver.said()
    return moment


KINDS: dict[str, Kind] = {
    "worker_killed": Kind("the process that trains a trial is killed", worker_killed),
    "worker_killed_while_saving": Kind("it is killed while it saves a checkpoint", worker_killed_while_saving),
    "node_killed": Kind("a node is lost; another joins later", node_killed, ("cluster",)),
    "disk_full": Kind("the storage's disk is full for seconds", disk_full, small_disk=True),
    "server_down": Kind("the tracking server is down for seconds", server_down),
    "server_restarted": Kind("the tracking server restarts", server_restarted),
    "driver_killed": Kind("the driver is killed at any moment", driver_killed),
    "driver_killed_in_snapshot": Kind("the driver is killed while it saves the search", driver_killed_in_snapshot),
    "driver_killed_while_saving": Kind(
        "the driver is killed while a trial's best weights are replaced", driver_killed_while_saving
    ),
    "driver_killed_thawing": Kind(
        "the driver is killed while a paused trial is thawed", driver_killed_thawing, scheduler="thaw"
    ),
    "checkpoints_damaged": Kind("the driver is killed, and checkpoints are damaged or gone", checkpoints_damaged),
    "driver_terminated": Kind("the driver is terminated (SIGTERM)", driver_terminated),
    "driver_killed_confirming": Kind("the driver is killed during confirmation", driver_killed_confirming, confirm=1),
    "head_lost": Kind("the whole cluster is lost; a new one takes over", head_lost, ("cluster",)),
    "ctrl_c": Kind("Ctrl-C", ctrl_c),
}
