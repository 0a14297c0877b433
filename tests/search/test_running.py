"""How trials that Ray Tune runs are stopped."""

import os
import signal
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from tune_mtl.ray_tune import trials as running
from tune_mtl.ray_tune.retries import Retries
from tune_mtl.ray_tune.trials import Trials


def fit(*, stopped: bool) -> None:
    """Do with Ctrl-C what Ray Tune does: keep it, until it comes."""
    owner = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, owner))
    if stopped:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("done", [1, 2])
def test_who_stops_the_last_trials_when_they_have_ended_stops_what_would_follow(tmp_path, monkeypatch, stopped, done):
    monkeypatch.setattr(running, "Snapshots", MagicMock())
    tuner = SimpleNamespace(fit=lambda: fit(stopped=stopped))
    screen, halving = MagicMock(done=done, total=2), MagicMock(time_is_up=False)
    ending = Trials(tmp_path, tuner, halving, MagicMock(), screen, Retries()).run()
    assert ending.complete is (done == 2)
    assert isinstance(ending.failure, KeyboardInterrupt) is (stopped and done == 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
