"""The loop that pauses and thaws: which trial Ray is told to start, and when."""

import pickle
from types import SimpleNamespace

import pytest

from tests.ray_tune.test_conductor import TUNING, Turnabout
from trainables.keys import OUTCOME, TRIAL
from tune_mtl import Objective
from tune_mtl.ray_tune import thawing
from tune_mtl.ray_tune.loop import Decisions
from tune_mtl.ray_tune.slots import Slots
from tune_mtl.ray_tune.thaw.conductor import Conductor
from tune_mtl.ray_tune.thawing import Thawing, ThawLoop


class Made(SimpleNamespace):
    """A trial as Ray has it."""

    def set_status(self, status):
        self.status = status


def trial(name, status="PENDING", saved=0.0):
    checkpoint = SimpleNamespace(metrics={"epoch": saved}) if saved else None
    config = {TRIAL: name, "strategy": "sus"}
    return Made(
        trial_id=name,
        config=config,
        status=status,
        latest_checkpoint_result=checkpoint,
        checkpoint=None,
        last_result={},
    )


def controller(pending_actors=0):
    return SimpleNamespace(
        get_live_trials=list,
        _actor_manager=SimpleNamespace(num_pending_actors=pending_actors),
        _search_alg=SimpleNamespace(set_finished=lambda: None),
    )


def make(slots=1, trials=3) -> ThawLoop:
    judge = Thawing(Conductor(Turnabout(trials=trials)), Objective("val/loss"))
    return ThawLoop(judge, Slots(slots))


def begin(loop, name):
    assert loop.to_begin() is not None
    loop.begin(name, TUNING, {"strategy": "sus"})
    made = trial(name)
    loop.on_trial_add(None, made)
    assert made.status == "PENDING"
    assert loop.next_trial(controller()) is made
    made.status = "RUNNING"
    return made


def report(loop, made, epoch):
    decision = loop.on_trial_result(None, made, {"epoch": epoch, "val/loss": 1 / epoch})
    result = {"epoch": epoch, OUTCOME: "running"}
    Decisions(loop).on_trial_result(0, [], made, result)
    return decision, result[OUTCOME]


def test_a_slot_is_free_when_its_trial_has_paused_and_not_while_it_saves():
    loop = make()
    first = begin(loop, "0000")
    assert loop.to_begin() is None
    assert report(loop, first, 1) == ("PAUSE", "paused")
    assert loop.to_begin() is None  # it is saving
    first.status = "PAUSED"
    begin(loop, "0001")


def test_a_trial_that_is_its_own_successor_goes_on_without_a_pause():
    loop = make(trials=1)
    first = begin(loop, "0000")
    assert report(loop, first, 1) == ("CONTINUE", "running")
    assert loop.conductor.until == {"0000": 2.0}


def test_a_paused_trial_is_thawed_once_and_one_that_still_saves_is_waited_for():
    loop = make(slots=2, trials=2)
    first, second = begin(loop, "0000"), begin(loop, "0001")
    second.status = "PAUSED"
    loop.conductor.until.pop("0001")
    assert loop.to_begin() is None
    second.status = "RUNNING"  # its checkpoint is being saved, and there is a slot besides
    loop._slots = Slots(3)
    assert loop.next_trial(controller()) is None
    second.status = "PAUSED"
    assert loop.next_trial(controller()) is second
    second.status = "PENDING"
    assert loop.next_trial(controller()) is None
    assert first.status == "RUNNING"


def test_who_waits_for_room_too_long_gets_the_next_worker_and_who_is_starting_keeps_its_own(monkeypatch):
    loop = make(slots=2)
    loop.to_begin()
    loop.begin("0000", TUNING, {})
    loop.on_trial_add(None, trial("0000"))
    assert loop.next_trial(controller()).config[TRIAL] == "0000"
    monkeypatch.setattr(thawing, "PATIENCE", -1.0)
    loop.next_trial(controller(pending_actors=1))
    assert loop.to_begin() is None
    loop.next_trial(controller(pending_actors=0))
    assert loop.to_begin() is not None


def test_after_a_resume_trials_pause_until_it_is_their_turn_and_catch_up_first():
    before = make(slots=2)
    for name in ("0000", "0001"):
        made = begin(before, name)
    for name in ("0000", "0001"):
        before.conductor.seen(name, 1.0, 0.5)
    before.conductor.until = {"0001": 2.0}
    state = before.judge.state()
    loop = pickle.loads(pickle.dumps(before))
    assert loop.conductor is loop.judge.conductor
    loop.judge.take_up(state)
    made = [trial("0000", saved=0.0), trial("0001", saved=1.0), trial("0002", "TERMINATED")]
    for one in made:
        loop.on_trial_add(None, one)
    assert [one.status for one in made] == ["PAUSED", "PAUSED", "TERMINATED"]
    assert loop.conductor.until == {"0001": 2.0, "0000": 1.0}  # its checkpoint was older than its report
    assert loop.to_begin() is None
    started = [loop.next_trial(controller())]
    started[0].status = "RUNNING"
    started.append(loop.next_trial(controller()))
    assert started == made[:2]


def test_a_trial_whose_worker_was_lost_while_it_paused_trains_up_to_there_again():
    loop = make()
    first = begin(loop, "0000")
    assert report(loop, first, 1)[0] == "PAUSE"
    loop.on_trial_error(None, first)
    first.status = "PENDING"
    loop.on_trial_add(None, first)
    assert first.status == "PENDING"
    assert loop.conductor.until == {"0000": 1.0}
    assert loop.next_trial(controller()) is first
    first.status = "RUNNING"
    assert report(loop, first, 1)[0] == "PAUSE"


def test_a_trial_that_failed_for_good_is_no_successor():
    loop = make(trials=2)
    first = begin(loop, "0000")
    first.status = "ERROR"
    begin(loop, "0001")
    assert loop.conductor.policy.over == {"0000"}


@pytest.mark.parametrize(
    ("cpus", "gpus", "nodes", "here", "found"),
    [
        (1, 0, [{"CPU": 2.0}], True, 2),
        (2, 0, [{"CPU": 3.0}, {"CPU": 1.0}], True, 1),
        (1, 0.5, [{"CPU": 4.0, "GPU": 1.0}], True, 2),
        (2, 0, [{}, {"CPU": 4.0}], False, 3),
        (4, 0, [{"CPU": 2.0}], True, 1),
    ],
)
def test_as_many_run_as_fit_and_one_more_waits_where_a_cluster_may_grow(monkeypatch, cpus, gpus, nodes, here, found):
    alive = [{"Alive": True, "Resources": resources} for resources in nodes]
    monkeypatch.setattr("ray.nodes", lambda: [*alive, {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}])
    monkeypatch.setattr("tune_mtl.ray_tune.compat.started_here", lambda: here)
    assert Slots(None, cpus, gpus).count() == found
    assert Slots(5, cpus, gpus).count() == 5
