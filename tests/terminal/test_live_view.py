"""The live view shows what has happened by the time it is drawn."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from trainables.keys import OUTCOME, TRIAL
from tune_mtl import Objective
from tune_mtl.ray_tune.callbacks import ProgressCallback
from tune_mtl.terminal import live_view as shown
from tune_mtl.terminal.live_view import LiveView
from tune_mtl.tracking.progress import Progress


def view(monkeypatch, *, terminal: bool):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    monkeypatch.setattr(shown, "console", lambda: console)
    progress = Progress(Objective("val/loss"), total=3)
    made = LiveView("mine", progress, ("sus", "io"))
    made.open()
    return made, ProgressCallback(progress, made), console


@pytest.fixture
def on_terminal(monkeypatch):
    """On a terminal that somebody looks at."""
    made, events, _ = view(monkeypatch, terminal=True)
    yield made, events
    made.close()


def drawn(made: LiveView) -> str:
    page = Console(file=io.StringIO(), width=120)
    page.print(made._live.get_renderable())
    return page.file.getvalue()


def trial(name, strategy, **last):
    return SimpleNamespace(
        error_file=None,
        trial_id=name,
        config={TRIAL: name, "strategy": strategy, "lr": 0.01},
        last_result={"epoch": 1, **last},
    )


def play(events, after_start=lambda: None, after_result=lambda: None):
    good, bad = trial("0000", "sus", best=0.125, **{OUTCOME: "completed"}), trial("0001", "io")
    for started in (good, bad):
        events.on_trial_start(0, [], started)
    after_start()
    events.on_trial_result(0, [], good, {"best": 0.125})
    after_result()
    events.on_trial_complete(0, [], good)
    events.on_trial_error(0, [], bad)


def test_every_event_is_seen_at_the_next_drawing(on_terminal):
    made, events = on_terminal
    seen = []
    assert "mine: 0 of 3 trials (0 running), 0 epochs" in drawn(made)
    play(events, lambda: seen.append(drawn(made)), lambda: seen.append(drawn(made)))
    assert "(2 running)" in seen[0]
    assert "0.125" in seen[1]
    assert "mine: 2 of 3 trials (0 running, 1 completed, 1 failed), 1 epochs" in drawn(made)


def test_without_a_terminal_every_end_is_a_line(monkeypatch):
    _, events, console = view(monkeypatch, terminal=False)
    play(events)
    first, second = console.file.getvalue().splitlines()
    assert first.startswith("1/3  trial 0000  sus lr=0.01  completed at epoch 1  val/loss 0.125")
    assert second.startswith("2/3  trial 0001  io lr=0.01  failed at epoch 1")


def test_counts_go_on_after_a_resume(on_terminal):
    _, events = on_terminal
    play(events)
    again = ProgressCallback(Progress(Objective("val/loss"), total=2), on_terminal[0])
    again.set_state(events.get_state())
    assert (again.progress.ended, again.progress.total, again.progress.epochs) == (2, 3, 1)
    assert again.progress.best["sus"][0] == 0.125
    assert not again.progress.complete


@pytest.mark.parametrize("last", [{}, {OUTCOME: "running"}, {OUTCOME: "stopped_early"}])
def test_an_end_that_nobody_explains_counts_as_stopped_early(on_terminal, last):
    _, events = on_terminal
    ended = trial("0000", "sus", **last)
    events.on_trial_start(0, [], ended)
    events.on_trial_complete(0, [], ended)
    assert dict(events.progress.outcomes) == {"stopped_early": 1}


def test_paused_trials_are_counted_and_told_of_where_nobody_knows_how_many_trials_there_will_be(monkeypatch):
    made, events, console = view(monkeypatch, terminal=False)
    events.progress.total, events.progress.evaluations = None, 20
    one = trial("0000", "sus", best=0.125)
    events.on_trial_start(0, [], one)
    for _ in range(2):
        events.on_trial_result(0, [], one, {"best": 0.125, OUTCOME: "paused"})
    assert "0 trials ended (0 running, 1 paused), 2 epochs" in drawn(made)
    first, second = console.file.getvalue().splitlines()
    assert first.startswith("5% of the budget: 0 trials ended (0 running, 1 paused), 1 epochs; best sus 0.125")
    assert second.startswith("10% of the budget")
    events.on_trial_start(0, [], one)
    assert "(1 running)" in drawn(made)
