"""`tune-mtl check-problem`: what it prints, and its exit codes."""

import sys

import pytest

from tune_mtl.cli import main

MINE = """
import torch
from torch import nn
from tune_mtl import MultiTaskModel, Problem, Task, TensorData
from tests.examination import faults

sound = faults.sound()
frozen = faults.frozen()

def model(width=4):
    return MultiTaskModel(nn.Linear(5, width), {name: nn.Linear(4, 1) for name in faults.NAMES})

def several():
    tasks = [Task("a", lambda p, t: nn.functional.mse_loss(p.detach(), t)), Task("b", lambda p, t: None)]
    return faults.sound(tasks=tasks, data=lambda split: faults.tensor_data(split) if split == "train" else None)

of_width = faults.sound(model=model)
no_problem = 3
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    (tmp_path / "planted_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsys.readouterr()
        return exited.value.code, printed.out, printed.err

    yield command
    sys.modules.pop("planted_mine", None)


def test_a_sound_problem_is_ready_in_a_line(run):
    code, out, _ = run("check-problem", "planted_mine:sound")
    assert code == 0
    assert out == (
        "ready: planted with 2 tasks (a, b); samples: train 24, val 24, test 24; weights that train: trunk 24,"
        " heads 10; judged by val/relative_loss:min.\n"
    )


def test_every_finding_is_a_line(run):
    code, out, _ = run("check-problem", "planted_mine:several")
    assert code == 1
    lines = out.splitlines()
    assert len(lines) == 3
    assert "has no 'val' data" in lines[0]
    assert lines[1].startswith("task 'b': its loss returned None. It must return a scalar tensor")
    assert lines[2].startswith("task 'a': its loss has no gradient")


def test_a_warning_is_no_failure(run):
    code, out, _ = run("check-problem", "planted_mine:frozen")
    assert code == 0
    warning, ready = out.splitlines()
    assert warning.startswith("warning: the trunk is frozen")
    assert ready.startswith("ready: ")


def test_options_reach_the_problem(run):
    assert run("check-problem", "planted_mine:of_width")[0] == 0
    code, out, _ = run("check-problem", "planted_mine:of_width", "--set", "model_width=5")
    assert code == 1
    assert out.startswith("the network fails on a batch of 'train': RuntimeError")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["multidigit"], "unknown problem 'multidigit'"),
        (["planted_mine:nothing"], "has no 'nothing'"),
        (["planted_mine:no_problem"], "is no Problem"),
        (["planted_mine:sound", "--set", "batch_siz=3"], "unknown option 'batch_siz'"),
        (["planted_mine:of_width", "--set", "model_widht=3"], "unknown option 'model_widht'"),
    ],
)
def test_what_cannot_be_loaded_is_a_mistake(run, words, expected):
    code, out, err = run("check-problem", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err


@pytest.mark.parametrize(
    "words", [["train", "--strategy", "io", "--lr", "1e-2"], ["search", "--name", "never"], ["search", "--dry-run"]]
)
def test_train_and_search_refuse_what_has_findings(run, words, tmp_path):
    command, *more = words
    code, _, err = run(command, "planted_mine:several", *more)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: problem 'planted' has no 'val' data.")
    assert "(2 more: tune-mtl check-problem planted_mine:several shows all.)" in err
    assert not (tmp_path / "home").exists()
