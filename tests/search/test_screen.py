"""The live view shows what has happened by the time it is drawn."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from trainables.keys import OUTCOME, TRIAL
from tune_mtl import Objective
from tune_mtl.terminal import live_view as shown
from tune_mtl.terminal.live_view import Screen


@pytest.fixture
def screen(monkeypatch):
    """On a terminal that somebody looks at."""
    monkeypatch.setattr(shown, "console", lambda: Console(file=io.StringIO(), force_terminal=True, width=120))
    screen = Screen("mine", Objective("val/loss"), ("sus", "io"), total=3)
    screen.open()
    yield screen
    screen.close()


def drawn(screen: Screen) -> str:
    page = Console(file=io.StringIO(), width=120)
    page.print(screen._live.get_renderable())
    return page.file.getvalue()


def trial(name, strategy, **last):
    return SimpleNamespace(
        trial_id=name, config={TRIAL: name, "strategy": strategy, "lr": 0.01}, last_result={"epoch": 1, **last}
    )


def test_every_event_is_seen_at_the_next_drawing(screen):
    assert "mine: 0 of 3 trials (0 running), 0 epochs" in drawn(screen)
    good, bad = trial("0000", "sus", **{OUTCOME: "completed"}), trial("0001", "io")
    for started in (good, bad):
        screen.on_trial_start(0, [], started)
    assert "(2 running)" in drawn(screen)
    screen.on_trial_result(0, [], good, {"best": 0.125})
    assert "0.125" in drawn(screen)
    screen.on_trial_complete(0, [], good)
    screen.on_trial_error(0, [], bad)
    assert "mine: 2 of 3 trials (0 running, 1 completed, 1 failed), 1 epochs" in drawn(screen)
