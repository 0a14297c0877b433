"""One fault of each kind, in real processes: searches that go through everything, and others that are left in peace."""

import itertools
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from threading import Event

import pytest
from mlflow.entities import Run

from tests.faults import kinds
from tests.faults.checks import Records, complaints, story
from tests.faults.searches import Asked, Search
from tests.faults.world import World
from tune_mtl.tracking import names
from tune_mtl.tracking.store import client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WITHIN = 30
RESULTS_MEANWHILE = 4
ORPHANS_WITHIN = 90
"""Ray's own agents look for a lost head for a minute before they end."""


class Soon(Random):
    """Chance that always chooses the first moment."""

    def randint(self, a: int, b: int) -> int:  # noqa: ARG002
        return a

    def uniform(self, a: float, b: float) -> float:  # noqa: ARG002
        return a


@dataclass
class Clustered:
    """A search on three nodes, and what happened to the trials of the one that was lost."""

    search: Search
    started_at: float
    victims: dict[str, int] = field(default_factory=dict)
    lost_at: float = 0.0


@dataclass
class Alone:
    """A search with one trial at a time on a Ray of its own, the same one undisturbed, and when its server was down."""

    search: Search
    undisturbed: Search
    down: tuple[float, float]
    disk_was_full: bool


@dataclass
class Thawed:
    """A search whose trials pause, one at a time on a Ray of its own, and the same one undisturbed."""

    search: Search
    undisturbed: Search


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture(scope="module")
def stories(world) -> Iterator[tuple[Future[Clustered], Future[Alone], Future[Thawed]]]:
    measured = Event()
    with ThreadPoolExecutor() as threads:
        clustered = threads.submit(on_a_cluster, world, measured)
        clustered.add_done_callback(lambda _: measured.set())
        yield clustered, threads.submit(alone, world, measured), threads.submit(thawed, world, measured)


def on_a_cluster(world: World, measured: Event) -> Clustered:
    """A node, a worker, the whole cluster and, in confirmation, the driver are killed."""
    server = world.server("cluster")
    server.start(wait=False)
    world.start_cluster(nodes=3)
    server.wait()
    asked = Asked(name="clustered", samples=4, pace=0.8, strategies=("io",), confirm=1, seed=5)
    seen = Clustered(Search(world, asked, server, world.storage, clustered=True), time.time())
    search = seen.search.start()
    lose_a_busy_node(seen)
    search.wait_for(lambda: all(epoch_of(search, trial) > epoch for trial, epoch in seen.victims.items()))
    measured.set()
    kinds.worker_killed(search, Soon())
    search.driver.kill()
    world.lose_cluster()
    world.start_cluster(nodes=1)
    search.resume()
    kinds.driver_killed_confirming(search, Soon())
    search.bring_to_end()
    return seen


def lose_a_busy_node(seen: Clustered) -> None:
    """Kill the node of a trial that has reported three epochs or more."""
    search = seen.search
    search.wait_for(lambda: any(epoch_of(search, trial) >= 3 for trial in search.whereabouts()))
    found = search.whereabouts()
    address = found[max(found, key=lambda trial: epoch_of(search, trial))]
    next(node for node in search.world.nodes if node.address == address).kill()
    seen.lost_at = time.time()
    seen.victims = {trial: epoch_of(search, trial) for trial, place in found.items() if place == address}


def alone(world: World, measured: Event) -> Alone:
    """The disk is full; the driver is killed in a snapshot, then in a save, then interrupted; the server is lost."""
    server = world.server("alone")
    server.start()
    asked = Asked(name="alone", samples=8, replicates=2, pace=0.5, concurrency=1, seed=3)
    peace = Search(world, replace(asked, name="peace", pace=0.0), server, world.storage).start()
    peace.bring_to_end(attempts=0)
    measured.wait()  # how soon a lost node's trials go on is not to depend on us
    try:
        storage, full = world.small_disk("alone"), True
    except PermissionError:
        storage, full = world.storage, False
    search = Search(world, asked, server, storage).start()
    search.wait_for(lambda: len(search.news()) >= 2)
    if full:
        kinds.fill(storage, 2.0)
    kinds.driver_killed_in_snapshot(search, Soon())
    search.resume()
    kinds.driver_killed_while_saving(search, Soon())
    search.resume()
    kinds.ctrl_c(search, Soon())
    search.resume()
    search.wait_for(search.news)
    server.kill()
    down, known = time.time(), len(search.news())
    search.wait_for(lambda: len(search.news()) >= known + RESULTS_MEANWHILE)
    up = time.time()
    server.start()
    search.bring_to_end()
    return Alone(search, peace, (down, up), full)


def thawed(world: World, measured: Event) -> Thawed:
    """Where trials pause: the driver is killed while one is saved, and while one is thawed; then checkpoints go."""
    server = world.server("thawed")
    server.start()
    asked = Asked(name="thawed", samples=6, pace=0.4, concurrency=1, seed=3, scheduler="thaw")
    peace = Search(world, replace(asked, name="unpaused", pace=0.0), server, world.storage).start()
    peace.bring_to_end(attempts=0)
    measured.wait()
    search = Search(world, asked, server, world.storage).start()
    kinds.driver_killed_while_saving(search, Soon())
    search.resume()
    kinds.driver_killed_thawing(search, Soon())
    search.resume()
    kinds.checkpoints_damaged(search, Soon())
    search.resume()
    search.bring_to_end()
    return Thawed(search, peace)


def epoch_of(search: Search, trial: str) -> int:
    return max((each.epoch for each in search.reported() if each.trial == trial), default=0)


def test_trials_of_a_lost_node_continue_elsewhere_from_their_last_checkpoint(stories):
    seen = stories[0].result()
    to_start = seen.search.reported()[0].at - seen.started_at
    assert seen.victims
    for trial, epoch in seen.victims.items():
        later = [each for each in seen.search.reported() if each.trial == trial and each.at > seen.lost_at]
        assert 1 < later[0].epoch <= epoch + 1, "not from the last checkpoint, of which every trial has one by then"
        assert later[0].at - seen.lost_at < max(WITHIN, 3 * to_start), "much slower than the search's own start"


def test_losing_workers_nodes_clusters_and_drivers_loses_and_doubles_nothing(stories):
    assert complaints(stories[0].result().search) == []


def test_training_does_not_wait_for_a_lost_tracking_server(stories):
    seen = stories[1].result()
    down, up = seen.down
    times = [each.at for each in seen.search.reported()]
    usual = max(later - earlier for earlier, later in itertools.pairwise(times) if later < down)
    meanwhile = [at for at in times if down <= at <= up]
    assert len(meanwhile) >= RESULTS_MEANWHILE
    assert max(later - earlier for earlier, later in itertools.pairwise([down, *meanwhile])) <= 2 * usual + 2


def test_a_search_killed_and_resumed_equals_one_that_never_was(stories):
    seen = stories[1].result()
    assert complaints(seen.undisturbed) == []
    assert complaints(seen.search) == []
    assert story(seen.search) == story(seen.undisturbed)


def test_with_trials_that_pause_a_killed_search_equals_one_that_never_was(stories):
    seen = stories[2].result()
    assert seen.search.thaws() > 2
    assert complaints(seen.undisturbed) == []
    assert complaints(seen.search) == []
    assert story(seen.search) == story(seen.undisturbed)


def test_the_disk_was_full_and_nothing_was_lost(stories):
    seen = stories[1].result()
    if not seen.disk_was_full:
        pytest.skip("mounting a small disk needs root")
    assert complaints(seen.search) == []


def test_no_process_is_left(world, stories):
    for told in stories:
        told.exception()
    assert world.orphans_after(ORPHANS_WITHIN) == []
    subprocess.run(["sh", "-c", "sleep 60 & true"], check=True)  # would one be seen?
    (orphan,) = world.orphans()
    orphan.kill()


def test_whatever_is_amiss_is_noticed(stories):
    search = stories[1].result().undisturbed
    records, server = Records(search), client(search.server.uri)
    doubled, changed, lost, twin, *_ = (run.info.run_id for run in sorted(records.trials, key=trial_id))
    server.log_metric(doubled, "val/loss/t0", 1.0, step=1)
    server.log_metric(changed, "best/val/loss", 0.0)
    server.delete_run(lost)
    twins = {tag: value for tag, value in server.get_run(twin).data.tags.items() if tag.startswith("tune_mtl.")}
    server.create_run(server.get_run(twin).info.experiment_id, tags=twins)
    found = "\n".join(complaints(search))
    for expected in (
        "trial 0002 has 0 runs, not 1",
        "a run of trial 0002 was deleted",
        "trial 0003 has 2 runs, not 1",
        f"trial 0000 (run {doubled}) has val/loss/t0 at epochs [1, 2, 3, 4, 5, 6, 1]",
        f"trial 0001 (run {changed}) says best/val/loss=0.0",
        "is RUNNING with outcome",
        "best --recompute is trial 0001 at 0.0",
    ):
        assert expected in found


def trial_id(run: Run) -> str:
    return str(run.data.tags[names.TRIAL_ID])
