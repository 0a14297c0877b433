"""Many trials without processes: Ray's own controller and every part of ours, interrupted and resumed."""

import json
import zipfile
from pathlib import Path

import pytest
from ray.tune.experiment import Trial

import tune_mtl
from benchmarks.metering import CONTROLLER, Meter
from benchmarks.scale import HALVING, LOGGER, SCREEN, SEARCHER, TRACKER, wrap_parts
from benchmarks.simulated import simulated_actors
from tests.experiment.records import check_records
from tune_mtl.ray_tune.snapshots import SNAPSHOT

PROBLEM, TRIALS, AT_ONCE = "tests.trainables.fixtures:problem", 30, 5
pytestmark = [pytest.mark.usefixtures("ray_home"), pytest.mark.slow]


class Crash(Exception):
    pass


@pytest.fixture(scope="module")
def crashed(ray_home):
    """A search that broke off after a while, and what was measured until then."""
    seen = []

    def tell(kind):
        meter.tell(kind)
        seen.append(kind)
        if seen.count("train") > 70:
            raise Crash

    with Meter() as meter, simulated_actors(AT_ONCE, meter.elsewhere, tell), pytest.MonkeyPatch.context() as patched:
        patched.setattr("tune_mtl.ray_tune.snapshots._SECONDS", 0.0)
        patched.setattr("tune_mtl.ray_tune.snapshots._COST_SHARE", 0)
        wrap_parts(meter)
        with pytest.raises(Crash):
            tune_mtl.search(
                PROBLEM, name="many", samples=TRIALS, concurrency=AT_ONCE, max_epochs=12, seed=1, report=False
            )
    return ray_home / "ray" / "many", seen, meter


def kept_trials(folder):
    """The trials that the snapshot in ``folder`` knows, as Ray restores them."""
    with zipfile.ZipFile(folder / SNAPSHOT) as archive:
        [state] = [name for name in archive.namelist() if name.startswith("experiment_state")]
        trials = json.loads(archive.read(state))["trial_data"]
    assert max(len(trial) + len(run) for trial, run in trials) < 25_000
    for kept, run in trials:
        trial = Trial.from_json_state(kept, stub=True)
        trial.restore_run_metadata(run)
        yield trial


def test_a_snapshot_holds_what_a_resume_needs_and_little_else(crashed):
    folder, _, _ = crashed
    went_on = 0
    for trial in kept_trials(folder):
        if trial.status == Trial.TERMINATED:
            assert trial.checkpoint is None
        elif trial.checkpoint is not None:
            went_on += 1
            assert Path(trial.checkpoint.path).is_dir()
            assert len(trial.run_metadata.checkpoint_manager._checkpoint_results) == 1
    assert went_on


def test_every_event_is_metered(crashed):
    folder, seen, meter = crashed
    assert meter.count("result") == seen.count("train") - 1  # at the last one it crashed
    assert meter.count("start") == seen.count("start") + seen.count("reset")
    assert meter.count("end") == sum(trial.status == Trial.TERMINATED for trial in kept_trials(folder))
    for event in ("result", "start", "end"):
        parts = meter.at_the_end(event, meter.count(event))
        assert set(parts) == {CONTROLLER, HALVING, TRACKER, SCREEN, LOGGER, SEARCHER}
    assert len(meter.calls[SEARCHER]) >= meter.count("start")


def test_resumed_it_comes_to_one_run_per_trial(crashed):
    folder, seen, _ = crashed
    with simulated_actors(AT_ONCE, tell=seen.append):
        result = tune_mtl.resume("many")
    assert result.complete
    assert result.counts.keys() >= {"completed", "stopped_early"}
    check_records("many", TRIALS)
    assert "restore" in seen
    assert not list(folder.glob("trial_*/checkpoint_*"))
    best = result.trials()["best/val/loss"].min()
    assert result.best.value == best


@pytest.mark.parametrize("asked", [{}, {"concurrency": 6}], ids=["as many as fit", "six"])
def test_the_workers_that_there_is_room_for_start_together(asked, monkeypatch):
    monkeypatch.setattr("tune_mtl.ray_tune.slots.Slots._fit", lambda *_: 6)
    seen = []
    with simulated_actors(6, tell=seen.append):
        given = {"samples": 9, "max_epochs": 2, "seed": 1, "report": False, "confirm": 0, "replicates": 1}
        tune_mtl.search(PROBLEM, name=f"together-{len(asked)}", **given, **asked)
    assert seen[:6] == ["start"] * 6, "a worker takes half as long to start as a trial for an epoch"
    assert sum(kind in ("start", "reset") for kind in seen) == 9
