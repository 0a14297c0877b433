"""SIGTERM does what Ctrl-C does, once, and only where it is heeded; the command line says how to go on."""

import os
import signal

import pytest

from tune_mtl.cli import main
from tune_mtl.core.process.signals import Interrupted, Lent, exit_code, heeding_sigterm, postponed, told_how_to_go_on


def test_sigterm_is_ctrl_c_with_another_exit_code():
    before = signal.getsignal(signal.SIGTERM)
    with heeding_sigterm():
        assert exit_code() == 130
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert exit_code() == 143
        os.kill(os.getpid(), signal.SIGTERM)  # a second one changes nothing
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigterm_goes_to_whoever_has_ctrl_c_at_the_moment():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with heeding_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_whenever_a_command_is_stopped_it_says_how_to_go_on(monkeypatch, capsys, number, code):
    def stopped(name, **_):
        with heeding_sigterm():
            try:
                os.kill(os.getpid(), number)
            except KeyboardInterrupt:
                raise Interrupted(f"tune-mtl resume {name}") from None

    monkeypatch.setattr("tune_mtl.experiment.search.resume", stopped)
    monkeypatch.setattr("sys.argv", ["tune-mtl", "resume", "one"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err == "interrupted. To go on: tune-mtl resume one\n"


def stopped_while_writing(done, *numbers):
    with postponed():
        for number in numbers:
            os.kill(os.getpid(), number)
        done.append("written")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_happened_is_written_down_before_a_stop_and_a_second_one_is_in_a_hurry(number):
    once, twice, never = [], [], []
    with heeding_sigterm():
        with pytest.raises(KeyboardInterrupt):
            stopped_while_writing(once, number)
        with pytest.raises(KeyboardInterrupt):
            stopped_while_writing(twice, signal.SIGINT, signal.SIGINT)
        stopped_while_writing(never)
    assert (once, twice, never) == (["written"], [], ["written"])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_library_that_keeps_ctrl_c_has_it_taken_away():
    lent = Lent()
    signal.signal(signal.SIGINT, lambda *_: None)
    assert not lent.take_back()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    lent, owner = Lent(), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, owner))
    os.kill(os.getpid(), signal.SIGINT)
    assert lent.take_back()


def test_the_innermost_way_on_is_told():
    outer, inner = (told_how_to_go_on(lambda way_on=way_on: way_on) for way_on in ("the outer", "the inner"))
    with pytest.raises(Interrupted) as told, outer, inner:
        raise KeyboardInterrupt
    assert told.value.way_on == "the inner"
