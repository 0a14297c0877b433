"""The README tells the truth: its examples run, its tables are the registry's."""

import re
import sys
from pathlib import Path

import pytest

from tests.test_cli import tune_mtl
from tune_mtl.strategies.registry import registry

README = Path(__file__).parents[1].joinpath("README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_strategy_table_is_the_registrys():
    for info in registry.values():
        if info.family == "torchjd":
            continue
        assert f"| `{info.name}` | {info.title} | {info.rule} | {'yes' if info.has_groups else 'no'} |" in README


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    _, problem, program, loop = BLOCKS
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
