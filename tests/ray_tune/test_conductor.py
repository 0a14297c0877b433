"""What is decided is carried out once, in its order, and again after a kill."""

import json
from collections import deque

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from tune_mtl.ray_tune.thaw.conductor import Conductor, as_record, from_record
from tune_mtl.ray_tune.thaw.policy import Begin, GoOn

TUNING = ("sus", 0)


class Turnabout:
    """Begins so many trials, then has the one that has come least far go one step further."""

    def __init__(self, trials=3, length=3.0):
        self._trials, self._length, self.reached, self.over, self.asked = trials, length, {}, set(), 0

    def begun(self, trial, tuning, config):  # noqa: ARG002
        self.reached.setdefault(trial, 0.0)

    def seen(self, trial, reached, value):  # noqa: ARG002
        self.reached[trial] = max(reached, self.reached[trial])

    def ended(self, trial, *, reached, diverged, failed):  # noqa: ARG002
        self.over.add(trial)

    def next(self, running):
        self.asked += 1
        if len(self.reached) < self._trials:
            return Begin(TUNING, 1.0)
        free = [trial for trial in self.reached if trial not in running and trial not in self.over]
        least = min(free, key=lambda trial: (self.reached[trial], trial), default=None)
        return None if least is None else GoOn(least, self.reached[least] + 1)

    @property
    def finished(self):
        return len(self.reached) == self._trials and len(self.over) == self._trials

    @property
    def open(self):
        return [] if self.finished else [TUNING]

    def state(self):
        return {"reached": self.reached, "over": sorted(self.over)}

    def take_up(self, state):
        self.reached, self.over = dict(state["reached"]), set(state["over"])


class Fickle(Turnabout):
    """Has the one that reported last go on: who that is depends on whose worker is quick."""

    def next(self, running):
        step = super().next(running)
        free = [trial for trial in self.reached if trial not in running and trial not in self.over]
        return GoOn(free[-1], self.reached[free[-1]] + 1) if isinstance(step, GoOn) else step

    def seen(self, trial, reached, value):
        super().seen(trial, reached, value)
        self.reached[trial] = self.reached.pop(trial)


class World:
    """Slots that train what a conductor says, an evaluation at a time; what it keeps on disk, and a kill."""

    def __init__(self, slots=1, length=3.0, policy=Turnabout, last_first=False):
        self.slots, self.length, self.policy, self.last_first = slots, length, policy, last_first
        self.conductor, self.log, self.events = Conductor(policy(length=length)), {}, []
        self.conductor.record = self.log.__setitem__
        self.running, self.begun = deque(), 0

    def event(self):
        """Fill the slots, then let a trial report, first or last come; returns whether there was one."""
        while len(self.running) < self.slots and (step := self.conductor.step()) is not None:
            self.running.append(self._started(step))
        if not self.running:
            return False
        self.running.rotate(int(self.last_first))
        trial = self.running.popleft()
        reached = self.conductor.reached[trial] + 1
        self.conductor.seen(trial, reached, 1 / reached)
        self.events.append((trial, reached))
        if reached == self.length:
            self.conductor.ended(trial)
        elif self.conductor.goes_on(trial, reached):
            self.running.append(trial)
        return True

    def _started(self, step):
        if isinstance(step, GoOn):
            return self.conductor.go_on()
        name, self.begun = f"{self.begun:04d}", self.begun + 1
        self.conductor.begin(name, step.tuning, {"strategy": "sus"})
        return name

    def snapshot(self):
        return json.loads(json.dumps([self.conductor.state(), self.begun, len(self.events)]))

    def killed(self, snapshot):
        """The world after a kill: with what the snapshot says, and the decisions that were kept."""
        after = World(self.slots, self.length, self.policy, not self.last_first)
        state, after.begun, events = snapshot
        after.events = self.events[:events]
        after.log.update(self.log)
        after.conductor.take_up(state)
        after.conductor.replay.decisions = dict(self.log)
        after.running = deque(after.conductor.until)
        return after


def in_peace(slots=1):
    world = World(slots)
    while world.event():
        pass
    return world


def test_in_peace_every_trial_ends_and_every_decision_is_kept_before_it_is_carried_out():
    world = in_peace()
    assert world.events == [(f"{trial:04d}", float(epoch)) for epoch in (1, 2, 3) for trial in range(3)]
    assert sorted(world.log) == list(range(9))
    assert world.conductor.policy.finished
    assert world.conductor.step() is None


@given(lists(integers(0, 5), min_size=1, max_size=4), integers(0, 8))
def test_with_one_slot_a_killed_search_decides_as_one_left_in_peace(lives, age):
    whole, world = in_peace(), World()
    for events in lives:
        snapshots = [world.snapshot()]
        for _ in range(events):
            world.event()
            snapshots.append(world.snapshot())
        world = world.killed(snapshots[max(0, len(snapshots) - 1 - age)])
    while world.event():
        pass
    assert world.events == whole.events
    assert world.log == whole.log


@given(integers(1, 14), integers(0, 8), integers(2, 3))
def test_with_several_slots_no_trial_is_left_behind_where_it_was_before_a_kill(events, age, slots):
    world = World(slots, length=6.0, policy=Fickle)
    snapshots = [world.snapshot()]
    for _ in range(events):
        world.event()
        snapshots.append(world.snapshot())
    before = dict(world.conductor.reached)
    world = world.killed(snapshots[max(0, len(snapshots) - 1 - age)])
    while world.conductor.replay.decisions.get(world.conductor._decided) is not None and world.event():
        pass
    for trial, reached in before.items():
        assert max(world.conductor.reached[trial], world.conductor.until.get(trial, 0.0)) >= reached


def test_a_trial_whose_slot_has_another_use_pauses_and_its_own_successor_goes_on():
    conductor = Conductor(Turnabout(trials=2))
    for name in ("0000", "0001"):
        assert isinstance(conductor.step(), Begin)
        conductor.begin(name, TUNING, {})
    conductor.seen("0000", 1.0, 0.5)
    assert conductor.goes_on("0000", 1.0)  # the other one is still on its way
    assert conductor.until == {"0000": 2.0, "0001": 1.0}
    conductor.seen("0001", 1.0, 0.5)
    assert conductor.goes_on("0001", 1.0)
    conductor.seen("0000", 2.0, 0.5)
    conductor.ended("0001", failed=True)
    assert conductor.goes_on("0000", 2.0)


def test_a_trial_that_has_to_catch_up_goes_to_where_it_was_and_takes_no_new_decision():
    world = World()
    for _ in range(2):
        world.event()
    conductor, asked = world.conductor, world.conductor.policy.asked
    step = conductor.step()
    conductor.owe("0000")
    assert conductor.until["0000"] == 1.0
    conductor.seen("0000", 1.0, 1.0)
    assert not conductor.goes_on("0000", 1.0)
    assert conductor.step() is step
    assert conductor.policy.asked <= asked + 1


def test_nobody_is_asked_again_before_something_has_happened():
    conductor = Conductor(Turnabout(trials=1))
    conductor.step()
    conductor.begin("0000", TUNING, {})
    for _ in range(3):
        assert conductor.step() is None
    assert conductor.policy.asked == 2
    conductor.seen("0000", 0.5, 1.0)
    assert conductor.step() is None
    assert conductor.policy.asked == 3


def test_with_more_to_spend_it_is_not_over_any_more():
    first, second = Conductor(Turnabout()), Conductor(Turnabout())
    first.over = True
    second.take_up(first.state())
    assert second.over
    second.follow(Turnabout(trials=9), grown=True)
    second.take_up(first.state())
    assert not second.over
    assert isinstance(second.step(), Begin)


@pytest.mark.parametrize(
    "step", [GoOn("0003", 4.0), Begin(TUNING, 1.0), Begin(("io", 2), 2.0, {"lr": 0.1, "groups": 2})]
)
def test_a_step_is_kept_as_plain_values(step):
    assert from_record(json.loads(json.dumps(as_record(step)))) == step
