"""SIGTERM does what Ctrl-C does, once, and only where it is heeded."""

import os
import signal

import pytest

from tune_mtl.core.stopping import exit_code, heeding_sigterm


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
