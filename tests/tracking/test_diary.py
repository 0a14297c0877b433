"""What has happened is read back as it was told, whatever was told twice."""

from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, tuples

from tune_mtl.tracking.journal import Spool
from tune_mtl.tracking.replay import Diary


def told(folder, *records):
    spool = Spool(folder)
    for call, arguments in records:
        spool.append({"call": call, "arguments": arguments})
    spool.close()
    return Diary.read(folder)


def opened(trial, **config):
    return "open", {"trial": trial, "config": config, "varied": {}, "at": 0}


def logged(trial, epoch, *, last=False):
    return "log", {"trial": trial, "epoch": epoch, "values": {}, "last": last, "at": 0}


def test_a_trial_keeps_its_config_and_what_was_decided(tmp_path):
    diary = told(tmp_path, opened("0000", lr=1), logged("0000", 1), opened("0001", lr=2), logged("0000", 2, last=True))
    assert diary.started == {"0000": {"lr": 1}, "0001": {"lr": 2}}
    assert [diary.verdict("0000", epoch) for epoch in (1, 2, 3)] == [False, True, None]
    assert diary.verdict("0001", 1) is None


def test_another_config_is_another_trial(tmp_path):
    diary = told(tmp_path, opened("a", lr=1), logged("a", 4, last=True), opened("a", lr=2), logged("a", 1))
    assert diary.started == {"a": {"lr": 2}}
    assert [diary.verdict("a", epoch) for epoch in (1, 4)] == [False, None]


@given(epochs=lists(tuples(integers(1, 5), booleans()), max_size=6))
def test_reporting_again_changes_nothing(epochs):
    diary = Diary()
    for epoch in range(1, 6):
        diary.reach("a", epoch, last=epoch == 5)
    for epoch, last in epochs:
        diary.reach("a", epoch, last=last and epoch == 5)
    assert [diary.verdict("a", epoch) for epoch in range(1, 7)] == [False] * 4 + [True, None]


def test_there_may_be_no_diary(tmp_path):
    assert Diary.read(tmp_path / "nothing") == Diary()
