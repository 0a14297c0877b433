"""How trials that Ray Tune runs are stopped."""

import os
import signal
from collections import Counter
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from tune_mtl import Objective
from tune_mtl.ray_tune import trials as running
from tune_mtl.ray_tune.halving import FairHalving
from tune_mtl.ray_tune.loop import TrialLoop
from tune_mtl.ray_tune.retries import Retries
from tune_mtl.ray_tune.trials import Followers, Trials
from tune_mtl.tracking.progress import Progress


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
    progress = Progress(Objective("val/loss"), total=2, outcomes=Counter(completed=done))
    loop = TrialLoop(FairHalving.nobody(progress.objective))
    followers = Followers(MagicMock(), progress, MagicMock())
    ending = Trials(tmp_path, tuner, loop, followers, Retries()).run()
    assert ending.complete is (done == 2)
    assert isinstance(ending.failure, KeyboardInterrupt) is (stopped and done == 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
