"""Whose fault a failure is, as Ray Tune's own trial and actor manager meet it."""

from types import SimpleNamespace

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import ActorDiedError, ObjectLostError, OutOfMemoryError, RayActorError
from ray.tune.experiment import Trial

from tune_mtl.ray_tune import retries
from tune_mtl.ray_tune.retries import LOST_WORKERS, RETRIES, OutOfMemory, Retries

GUARD = OutOfMemoryError("1 worker(s) were killed: it was 14.68GB used / 23.54GB limit (0.62)\nmuch more\nto read")


class Lost(ActorDiedError):
    """As Ray tells of a worker that was killed: it does not say by whom."""

    def __str__(self) -> str:
        return "The actor died unexpectedly.\n\tip: 10.0.0.1\nmaybe by the OOM killer due to high memory usage"


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """A trial whose failures are judged, and what the kernel counts."""
    kernel = SimpleNamespace(kills=7)
    monkeypatch.setattr(retries, "kernel_kills", lambda: kernel.kills)
    monkeypatch.setattr(retries.ray.util, "get_node_ip_address", lambda: "10.0.0.1")
    trial = Trial("unknown", stub=True, config={"trial": "0000"}, max_failures=RETRIES)
    monkeypatch.setattr(Trial, "local_path", str(tmp_path))
    judge = Retries()
    judge.setup()
    judge.on_trial_start(0, [], trial)
    with judge.deciding():
        yield trial, kernel
    assert Trial.handle_error.__name__ == "handle_error"
    assert "Retries" not in Trial.handle_error.__qualname__


def fails(trial: Trial, error: Exception) -> bool:
    """Return whether the trial is tried again after ``error``."""
    trial.handle_error(error)
    return trial.should_recover()


def test_a_worker_that_ray_killed_for_its_memory_gets_one_retry(judged, tmp_path):
    trial, _ = judged
    assert fails(trial, GUARD)
    assert all(fails(trial, Lost()) for _ in range(5))  # nodes are lost meanwhile: those do not count
    assert not fails(trial, GUARD)
    last = (tmp_path / "error.txt").read_text().strip().splitlines()[-1]
    assert last.startswith("out of memory: Ray killed the worker of the trial when its node had 14.68GB used / 23.54GB")
    assert "smaller batch_size, or fewer trials at once: --concurrency" in last


def test_the_kernel_is_believed_where_it_has_killed_since_the_trial_was_alive(judged, tmp_path):
    trial, kernel = judged
    for again in (True, False):
        assert fails(trial, Lost())
        kernel.kills += 1
        assert fails(trial, Lost()) is again
    assert "out of memory: the kernel killed the worker" in (tmp_path / "error.txt").read_text()


def test_a_worker_of_another_machine_is_lost_whatever_the_kernel_here_has_done(judged, monkeypatch):
    trial, kernel = judged
    monkeypatch.setattr(retries.ray.util, "get_node_ip_address", lambda: "10.0.0.2")
    kernel.kills += 1
    assert all(fails(trial, Lost()) for _ in range(LOST_WORKERS))
    assert [fails(trial, Lost()) for _ in range(RETRIES + 1)] == [True] * RETRIES + [False]


def test_code_that_raises_has_its_own_retries_and_a_lost_worker_takes_none(judged):
    trial, _ = judged
    assert fails(trial, ValueError("its own"))
    assert fails(trial, Lost())
    assert fails(trial, ValueError("its own"))
    assert not fails(trial, ValueError("its own"))


@pytest.mark.parametrize(("error", "kind"), [(GUARD, OutOfMemory), (ObjectLostError("a1", None, ""), RayActorError)])
@pytest.mark.usefixtures("judged")
def test_no_error_of_rays_ends_the_search(error, kind):
    seen = []
    actor = SimpleNamespace(actor_id=1, _on_error=None)
    task = SimpleNamespace(_tracked_actor=actor, _on_error=lambda _, caught: seen.append(caught))
    manager = SimpleNamespace(_failed_actor_ids=set(), _cleanup_actor=lambda **_: None)
    RayActorManager._actor_task_failed(manager, tracked_actor_task=task, exception=error)
    assert [type(caught) for caught in seen] == [kind]
    assert manager._failed_actor_ids == {1}


def test_the_kernels_count_is_read_where_there_is_one(tmp_path, monkeypatch):
    counts = tmp_path / "vmstat"
    monkeypatch.setattr(retries, "_KERNEL_COUNTS", counts)
    assert retries.kernel_kills() == 0
    counts.write_text("pgfault 12\noom_kill 3\noom_kill_disable 0\n")
    assert retries.kernel_kills() == 3
