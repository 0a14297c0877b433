"""What becomes of Ray Tune's events."""

import pickle
from types import SimpleNamespace

import pytest

from trainables.keys import TRIAL
from tune_mtl.core.outcome import Outcome
from tune_mtl.ray_tune.callbacks import ProgressCallback, TrackingCallback

TEXT = "Traceback:\n  ...\ntune_mtl.core.errors.UserError: module 'mine' does not import from /there: no licence\n"
CAUSE = "module 'mine' does not import from /there: no licence"


class Noted:
    """Notes every call of a tracker, a progress or an observer."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *given: self.calls.append((name, *given))


def trial(folder):
    (folder / "error.txt").write_text(TEXT)
    config = {TRIAL: "0003", "strategy": "sus"}
    return SimpleNamespace(config=config, error_file=str(folder / "error.txt"), last_result={}, trial_id="trial_0003")


@pytest.mark.parametrize("resumed", [True, False])
@pytest.mark.parametrize("started", [True, False])
def test_a_trial_that_could_not_even_be_made_has_a_run_too(tmp_path, started, resumed):
    failed, tracker = trial(tmp_path), Noted()
    callback = TrackingCallback(None)
    if resumed:
        callback = pickle.loads(pickle.dumps(callback))
    callback.tracker = tracker
    if started:
        callback.on_trial_start(0, [], failed)
    callback.on_trial_error(0, [], failed)
    assert [name for name, *_ in tracker.calls] == ["start", "note", "end"]
    _, ordinal, recorded = tracker.calls[-1]
    assert (ordinal, recorded.outcome, recorded.reason) == ("0003", Outcome.FAILED, CAUSE)


def test_who_watches_is_told_why_a_trial_failed(tmp_path):
    observer = Noted()
    ProgressCallback(Noted(), observer).on_trial_error(0, [], trial(tmp_path))
    ((_, ended),) = observer.calls
    assert (ended.outcome, ended.cause) == (Outcome.FAILED, CAUSE)
