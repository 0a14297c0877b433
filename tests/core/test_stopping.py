"""SIGTERM does what Ctrl-C does, once, and only where it is heeded; the command line says how to go on."""

import os
import signal

import pytest

import tune_mtl.search
from tune_mtl.cli import main
from tune_mtl.core.stopping import Interrupted, exit_code, heeding_sigterm


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

    monkeypatch.setattr(tune_mtl.search, "resume", stopped)
    monkeypatch.setattr("sys.argv", ["tune-mtl", "resume", "one"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err == "interrupted. To go on: tune-mtl resume one\n"
