"""What has happened is read back as it was told, whatever was told twice."""

from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, tuples

from tune_mtl.tracking.journal import Journal
from tune_mtl.tracking.replay import Replay


def told(folder, *records):
    journal = Journal(folder)
    for call, arguments in records:
        journal.append({"call": call, "arguments": arguments})
    journal.close()
    return Replay.read(folder)


def opened(trial, **config):
    return "open", {"trial": trial, "config": config, "varied": {}, "at": 0}


def logged(trial, epoch, *, last=False):
    return "log", {"trial": trial, "epoch": epoch, "values": {}, "last": last, "at": 0}


def test_a_trial_keeps_its_config_and_what_was_decided(tmp_path):
    replay = told(tmp_path, opened("0000", lr=1), logged("0000", 1), opened("0001", lr=2), logged("0000", 2, last=True))
    assert replay.started == {"0000": {"lr": 1}, "0001": {"lr": 2}}
    assert [replay.stopped("0000", epoch) for epoch in (1, 2, 3)] == [False, True, None]
    assert replay.stopped("0001", 1) is None


def test_another_config_is_another_trial(tmp_path):
    replay = told(tmp_path, opened("a", lr=1), logged("a", 4, last=True), opened("a", lr=2), logged("a", 1))
    assert replay.started == {"a": {"lr": 2}}
    assert [replay.stopped("a", epoch) for epoch in (1, 4)] == [False, None]


def test_decisions_are_read_by_their_numbers(tmp_path):
    steps = [{"tuning": ["sus", 0], "until": 1, "values": None}, {"trial": "0000", "until": 2.0}]
    replay = told(tmp_path, *(("decide", {"number": number, "step": step}) for number, step in enumerate(steps)))
    assert replay.decisions == dict(enumerate(steps))


@given(epochs=lists(tuples(integers(1, 5), booleans()), max_size=6))
def test_reporting_again_changes_nothing(epochs):
    replay = Replay()
    for epoch in range(1, 6):
        replay.reach("a", epoch, last=epoch == 5)
    for epoch, last in epochs:
        replay.reach("a", epoch, last=last and epoch == 5)
    assert [replay.stopped("a", epoch) for epoch in range(1, 7)] == [False] * 4 + [True, None]


def test_there_may_be_no_journal(tmp_path):
    assert Replay.read(tmp_path / "nothing") == Replay()
