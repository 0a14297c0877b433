"""Trials that pause, without processes: Ray's own controller and every part of ours, killed at any moment."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

import tune_mtl
from benchmarks.simulated import simulated_actors
from tests.experiment.records import check_records
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.ray_tune.loop import TIME_IS_UP
from tune_mtl.ray_tune.thawing import NOT_THAWED
from tune_mtl.tracking.tracker import Tracker

PROBLEM = "tests.trainables.fixtures:problem"
ASKED = {"strategies": ["sus", "io"], "samples": 10, "replicates": 1, "max_epochs": 6, "seed": 1, "scheduler": "thaw"}
COLUMNS = ["trial_id", "strategy", "outcome", "lr", "best/val/loss", "best/epoch"]
pytestmark = [pytest.mark.usefixtures("ray_home"), pytest.mark.slow]


class Killed(BaseException):
    pass


class Life:
    """A driver that is killed when it hears of its ``last`` event; what it writes down stays as it is then."""

    def __init__(self, last=None):
        self._left, self.events = last, []

    def tell(self, kind):
        self.events.append(kind)
        if self._left is not None and len(self.events) > self._left:
            raise Killed

    def lead(self, function, *args, slots=1, **asked):
        with simulated_actors(slots, tell=self.tell):
            return function(*args, **asked)


def searched(name, kills=(), slots=1, between=lambda: None, **asked):
    """A search, killed after so many events of each of its lives, to its end; ``between``: what happens after kills."""
    given = {**ASKED, "name": name, "concurrency": slots, "report": False, "export": False, **asked}
    steps = [lambda life: life.lead(tune_mtl.search, PROBLEM, slots=slots, **given)]
    for events in kills:
        with pytest.raises(Killed):
            steps[-1](Life(events))
        between()
        steps.append(lambda life: life.lead(tune_mtl.resume, name, slots=slots))
    return steps[-1](Life())


def journal(result, call) -> list[dict]:
    lines = (result.folder / "tracking" / "trial" / "tracking.jsonl").read_text().splitlines()
    return [record["arguments"] for record in map(json.loads, lines) if record["call"] == call]


def decisions(result) -> list:
    return [(told["number"], told["step"]) for told in journal(result, "decide")]


def spent(result) -> dict[str, int]:
    """The epochs that each strategy's trials took."""
    strategies = {told["trial"]: told["config"]["strategy"] for told in journal(result, "open")}
    return dict(Counter(strategies[told["trial"]] for told in journal(result, "log")))


def table(result):
    frame = result.trials()[COLUMNS].sort_values("trial_id").reset_index(drop=True)
    return frame.to_dict("records")


@pytest.fixture(scope="module")
def in_peace(ray_home):
    return searched("peace")


def test_every_strategy_trains_as_long_and_what_is_paused_at_the_end_is_closed_in_full(in_peace):
    _, runs = check_records("peace", len(in_peace.trials()))
    assert in_peace.complete
    assert spent(in_peace) == {"sus": 10, "io": 10}
    reasons = {run.data.tags["tune_mtl.outcome"]: run.data.tags.get("tune_mtl.reason") for run in runs}
    assert reasons["stopped_early"] == NOT_THAWED
    assert in_peace.best.value == in_peace.trials()["best/val/loss"].min()
    assert not list(in_peace.folder.glob("trial_*/checkpoint_*"))


@pytest.mark.parametrize(
    ("kills", "every_event"), [((3, 21), True), ((12, 12, 12), True), ((36, 9), False), ((47, 2), True)]
)
def test_killed_at_any_moment_with_one_slot_it_is_the_search_that_never_was(in_peace, kills, every_event, monkeypatch):
    monkeypatch.setattr("tune_mtl.ray_tune.snapshots._SECONDS", 0.0 if every_event else 1e9)
    monkeypatch.setattr("tune_mtl.ray_tune.snapshots._COST_SHARE", 0)
    result = searched(f"killed-{'-'.join(map(str, kills))}-{every_event}", kills)
    assert decisions(result) == decisions(in_peace)
    assert table(result) == table(in_peace)
    assert result.best.trial_id == in_peace.best.trial_id


def test_killed_while_what_is_paused_ends_the_rest_of_it_ends_later(in_peace, monkeypatch):
    ended, end = [], Tracker.end

    def killed_at_the_third(tracker, trial, recorded):
        ended.append(trial)
        if len(ended) == 3:
            raise Killed
        end(tracker, trial, recorded)

    with monkeypatch.context() as patched:
        patched.setattr(Tracker, "end", killed_at_the_third)
        with pytest.raises(Killed):
            searched("ending")
    result = Life().lead(tune_mtl.resume, "ending")
    assert table(result) == table(in_peace)
    check_records("ending", len(result.trials()))


def test_with_several_slots_every_trial_comes_to_where_it_had_been(monkeypatch):
    monkeypatch.setattr("tune_mtl.ray_tune.snapshots._SECONDS", 0.2)
    result = searched("several", (16, 20, 17), slots=3)
    check_records("several", len(result.trials()))
    numbers = [number for number, _ in decisions(result)]
    assert numbers == sorted(set(numbers))
    best = result.trials().set_index("trial_id")["best/val/loss"]
    reported = defaultdict(dict)
    for told in journal(result, "log"):
        value = told["values"]["val/loss"]
        assert reported[told["trial"]].setdefault(told["epoch"], value) == value
    for trial, values in reported.items():
        assert best[trial] == min(values.values())


def test_a_paused_trial_without_its_checkpoint_starts_again_and_comes_to_the_same(in_peace, monkeypatch):
    monkeypatch.setattr("tune_mtl.ray_tune.snapshots._SECONDS", 0.0)
    monkeypatch.setattr("tune_mtl.ray_tune.snapshots._COST_SHARE", 0)
    folder = in_peace.folder.with_name("lost")

    def lose():
        weights = list(folder.glob(f"trial_*/checkpoint_*/{BEST_WEIGHTS}"))
        assert len(weights) > 2
        for path in weights:
            path.unlink()

    result = searched("lost", (30,), between=lose)
    assert table(result) == table(in_peace)
    check_records("lost", len(result.trials()))


def test_it_grows_by_trials_and_goes_on_with_as_much_for_each_strategy():
    before = len(searched("grown", slots=2).trials())
    with simulated_actors(2):
        result = tune_mtl.extend("grown", samples=6)
    assert len(result.trials()) > before
    check_records("grown", len(result.trials()))
    assert spent(result) == {"sus": 16, "io": 16}


def test_when_the_time_is_up_what_is_paused_ends_with_what_it_has_reached(monkeypatch):
    life = Life()
    clock = SimpleNamespace(monotonic=lambda: float(len(life.events)))  # every event takes a second
    monkeypatch.setattr("tune_mtl.ray_tune.loop.time", clock)
    asked = {**ASKED, "name": "timed", "concurrency": 2, "report": False, "export": False}
    result = life.lead(tune_mtl.search, PROBLEM, slots=2, **asked, time_budget=30.0)
    assert result.complete
    _, runs = check_records("timed", len(result.trials()))
    assert sum(spent(result).values()) < 2 * ASKED["samples"]
    assert any(run.data.tags.get("tune_mtl.reason") == TIME_IS_UP for run in runs)
    assert Path(result.best.checkpoint).exists()
