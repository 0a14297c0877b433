"""Trials that end at a number of updates or seconds, in the middle of an epoch too."""

import copy
from contextlib import suppress

import pytest

from tests.toys import equal, toy_problem
from tests.training.trainers import Stop, make_trainer, timeless
from tune_mtl import UserError
from tune_mtl.training.config import resolve


@pytest.mark.parametrize(("strategy", "groups"), [("sus", None), ("io", 3), ("ius", 2)])
def test_a_trial_ends_at_the_mini_batch_that_reaches_its_updates(strategy, groups):
    problem = toy_problem(dropout=False)
    whole = make_trainer(problem, strategy=strategy, groups=groups, epochs=4)
    per_batch = whole.config.updates_per_batch(3)
    limit = 11 * per_batch
    trainer = make_trainer(problem, strategy=strategy, groups=groups, epochs=4, max_updates=limit)
    while not trainer.finished:
        trainer.run_period()
    assert trainer.updates == limit
    assert [record["epoch"] for record in trainer.history] == [1, 2]
    assert trainer.history[-1]["updates"] == limit
    whole.run_period()
    assert timeless(whole.history) == timeless(trainer.history[:1])
    assert trainer.progress == 1.0
    assert whole.progress == 0.25


def test_a_limit_between_two_mini_batches_is_reached_by_the_next():
    trainer = make_trainer(strategy="io", groups=3, epochs=4, max_updates=10)
    trainer.run_period()
    assert trainer.finished
    assert trainer.updates == 12


def test_the_clock_ends_a_trial_and_resumes_with_what_was_spent():
    trainer = make_trainer(strategy="sus", epochs=10**6, max_seconds=0.3)
    while not trainer.finished:
        trainer.run_period()
    assert 0.3 <= trainer.seconds < 3
    again = make_trainer(strategy="sus", epochs=10**6, max_seconds=0.3)
    again.load_state_dict(trainer.state_dict())
    assert again.finished


def test_a_limited_trial_stopped_anywhere_continues_exactly():
    whole = make_trainer(strategy="ius", max_updates=40)
    while not whole.finished:
        whole.run_period()
    stopped = make_trainer(strategy="ius", max_updates=40)
    calls = 0

    def stop():
        nonlocal calls
        calls += 1
        if calls == 9:
            raise Stop

    with suppress(Stop):
        while not stopped.finished:
            stopped.run_period(stop)
    state = copy.deepcopy(stopped.state_dict())
    continued = make_trainer(strategy="ius", max_updates=40)
    continued.load_state_dict(state)
    while not continued.finished:
        continued.run_period()
    assert timeless(continued.history) == timeless(whole.history)
    assert equal(list(continued.strategy.model.state_dict().values()), list(whole.strategy.model.state_dict().values()))


def test_schedules_and_shares_of_a_run_go_by_the_length_that_updates_allow():
    config = resolve(toy_problem(conv=True), {"strategy": "mr", "lr": 0.1, "epochs": 100, "max_updates": 90})
    assert config.mini_batches(7, 3) == 30
    assert config.strategy_options_for(30)["mr_updates_end"] == 10
    joined = resolve(toy_problem(conv=True), {**config.as_dict(), "mr_accumulate": True})
    assert joined.mini_batches(7, 3) == 90


def test_what_needs_a_known_length_is_refused_under_a_clock():
    given = {"lr": 0.1, "max_seconds": 5.0}
    with pytest.raises(UserError, match="cosine_steps' is a share of a run's length"):
        resolve(toy_problem(), {**given, "strategy": "sus", "schedule": "cosine"})
    resolve(toy_problem(), {**given, "strategy": "sus", "schedule": "cosine", "cosine_steps": 100})
    resolve(toy_problem(), {**given, "strategy": "sus", "schedule": "step", "step_every": 100})
    with pytest.raises(UserError, match="mr_updates_end' is a share of a run's length"):
        resolve(toy_problem(conv=True), {**given, "strategy": "mr"})
    with pytest.raises(UserError, match="mr_updates_end' is a share of a run's length"):
        resolve(toy_problem(conv=True), {**given, "strategy": "mr", "mr_updates_end": 0.5})
    resolve(toy_problem(conv=True), {**given, "strategy": "mr", "mr_updates_end": 30})
