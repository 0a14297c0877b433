"""Commands that read searches start as quickly as they can: what they do not need is not loaded."""

import atexit
import gc
import subprocess
import sys

import pytest

from tests.reporting.conftest import use_home
from tests.reporting.stories import Story, usual
from tune_mtl.commands.short_lived import short_lived

HEAVY = {"torch", "ray", "optuna", "torchvision", "torchmetrics", "torchjd"}
WITH_ONE_SEARCH = (
    "best made", "best made --json", "best made --recompute", "list", "report made --json", "report made",
    "claims made",
)  # fmt: skip
ALL = (
    "train", "prepare", "check", "check-problem", "doctor", "problems", "strategies", "optimizers", "schedules",
    "spaces", "algorithms", "search", "resume", "extend", "confirm", "factorial", "reproduce", "report", "claims",
    "best", "export", "list", "rm", "ui",
)  # fmt: skip

_RUN = """
import sys
from tune_mtl.cli import app
for words in {commands!r}:
    app(words.split(), standalone_mode=False)
    print("loaded", words, sorted({unwanted!r} & set(sys.modules)))
"""


def loaded_by(*commands: str, unwanted: set[str]) -> dict[str, str]:
    """Run commands one after another in a fresh process; return what of ``unwanted`` it holds after each of them."""
    code = _RUN.format(commands=commands, unwanted=unwanted)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = [line.removeprefix("loaded ") for line in done.stdout.splitlines() if line.startswith("loaded ")]
    return {line.partition(" [")[0]: line[line.index("[") :] for line in told}


@pytest.fixture
def store(tmp_path, monkeypatch, empty_store):
    """A store with a search that is confirmed, and one to be removed."""
    use_home(tmp_path / "home", empty_store, monkeypatch)
    usual().end()
    unwanted = Story("old")
    unwanted.trial("sus", 0.5)
    unwanted.end()


def test_commands_that_read_searches_load_neither_torch_nor_ray(store):
    commands = (*WITH_ONE_SEARCH, "rm old")
    assert loaded_by(*commands, unwanted=HEAVY) == dict.fromkeys(commands, "[]")


def test_starting_the_ui_loads_neither_torch_nor_ray():
    code = f"import sys, tune_mtl.experiment.ui_server; print(sorted({HEAVY!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_help_of_no_command_loads_torch_ray_or_mlflow():
    commands = [f"{command} --help" for command in ALL]
    assert loaded_by(*commands, unwanted={*HEAVY, "mlflow", "pandas"}) == dict.fromkeys(commands, "[]")


def test_the_help_of_every_command_was_asked_for():
    from tune_mtl.cli import app

    assert {command.name or command.callback.__name__.replace("_", "-") for command in app.registered_commands} == set(
        ALL
    )


def test_a_short_lived_command_leaves_the_search_for_garbage_as_it_was(monkeypatch):
    at_exit, frozen, usual_thresholds = [], [], gc.get_threshold()
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("torch" in sys.modules))

    @short_lived
    def command(times: int) -> int:
        assert gc.get_threshold()[0] > 100_000
        return 1 // times

    assert command(1) == 1
    assert gc.get_threshold() == usual_thresholds
    with pytest.raises(ZeroDivisionError):
        command(times=0)
    assert gc.get_threshold() == usual_thresholds
    for loaded in (True, False):
        monkeypatch.setitem(sys.modules, "torch", gc)
        if not loaded:
            monkeypatch.delitem(sys.modules, "torch")
        at_exit[0]()
    assert frozen == [False]
