"""The README tells the truth: its examples and commands run."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from search_spaces import find_space
from tests.test_cli import tune_mtl
from tune_mtl.cli import app
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.problems.multidigits import MultiDigits

README = Path(__file__).parents[1].joinpath("README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    _, problem, program, loop, _, _ = BLOCKS
    assert len(problem.splitlines()) <= 40
    (tmp_path / "mine.py").write_text(problem)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    exec(program, {})
    outcome, loss, ratio = capsys.readouterr().out.split()
    assert outcome == "completed"
    assert float(loss) < 0.3
    assert float(ratio) >= 1
    exec(loop, {})
    total, distance = map(float, capsys.readouterr().out.split())
    assert total >= distance > 0
    sys.modules.pop("mine")


def test_the_command_of_the_example_runs(tmp_path):
    (tmp_path / "mine.py").write_text(BLOCKS[1])
    (command,) = re.findall(r"^tune-mtl (train mine:curves .*)$", README, flags=re.MULTILINE)
    done = tune_mtl(*command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "completed after 20 epochs" in done.stdout


def test_the_commands_of_the_own_strategy_run(tmp_path):
    strategy = BLOCKS[-2]
    assert len(strategy.splitlines()) <= 25, "it is to be seen at a glance"
    (tmp_path / "rules.py").write_text(strategy)
    for command in re.findall(r"^tune-mtl ((?:check|train) .*rules:InverseLoss.*)$", README, flags=re.MULTILINE):
        done = tune_mtl(*command.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_of_the_own_optimizer_and_schedule_runs(tmp_path):
    (tmp_path / "steps.py").write_text(BLOCKS[-1])
    (command,) = re.findall(r"^tune-mtl (train .*steps:.*)$", README, flags=re.MULTILINE)
    done = tune_mtl(*command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_of_the_own_space_run(tmp_path, monkeypatch, capsys):
    [section] = re.findall(r"## Your own search space\n.*?```sh\n(.*?)```", README, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path))
    said = {}
    for command in section.splitlines():
        app(shlex.split(command)[1:], standalone_mode=False)
        said[command] = capsys.readouterr().out
    printed = said["tune-mtl spaces multidigits --strategies sus,io"]
    (tmp_path / "my.yaml").write_text(printed)
    assert plan_search("multidigits", space="my.yaml").space.of("io") == find_space(MultiDigits(), "wide").of("io")
    assert not list(tmp_path.glob("ray/*"))


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_searches_of_the_readme_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(BLOCKS[1])
    (command,) = re.findall(r"^tune-mtl (search mine:curves .*)$", README, flags=re.MULTILINE)
    done = tune_mtl(*command.split(), cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "complete: " in done.stdout
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[0], {})
    strategy, value = capsys.readouterr().out.split()[-2:]
    assert strategy in ("sus", "io")
    assert float(value) < 2.0
