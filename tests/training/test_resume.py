"""Runs on disk: refused, resumed, killed."""

import fcntl
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.toys import toy_problem
from tests.training.trainers import Stop, timeless
from tune_mtl import Batch, Task, UserError, train
from tune_mtl.training import checkpoint
from tune_mtl.training.trial import RunFolder

CONFIG = {"strategy": "io", "lr": 0.01}


def listing(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def interrupt(folder: Path, after_epochs: int) -> None:
    """Leave a run as an interruption in the middle leaves it."""

    def stop(record, _):
        if record["epoch"] == after_epochs:
            raise Stop

    with pytest.raises(Stop):
        train(toy_problem(), CONFIG, out=folder, on_evaluation=stop)


def test_a_run_writes_its_files_and_can_be_read_back(tmp_path):
    result = train(toy_problem(), CONFIG, out=tmp_path / "run")
    assert {file.name for file in (tmp_path / "run").iterdir()} == {
        "config.json", "result.json", "best.pt", "checkpoint.pt"
    }  # fmt: skip
    content = json.loads((tmp_path / "run" / "result.json").read_text())
    assert content["config"] == result.config
    assert content["outcome"] == "completed"
    assert content["metrics"] == result.metrics
    assert content["history"] == result.history
    again = train(toy_problem(), CONFIG, out=tmp_path / "run", resume=True)
    assert (again.history, again.metrics, again.outcome) == (result.history, result.metrics, result.outcome)
    batch = torch.randn(3, 5)
    first, second = result.load_model()(batch), again.load_model()(batch)
    assert all(torch.equal(first[task], second[task]) for task in first)


def test_interrupted_and_resumed_equals_never_interrupted(tmp_path):
    whole = train(toy_problem(), CONFIG, out=tmp_path / "whole")
    interrupt(tmp_path / "run", 2)
    assert not (tmp_path / "run" / "result.json").exists()
    resumed = train(toy_problem(), CONFIG, out=tmp_path / "run", resume=True)
    assert timeless(resumed.history) == timeless(whole.history)
    assert timeless([resumed.metrics]) == timeless([whole.metrics])


def test_a_folder_with_a_run_is_refused_and_left_alone(tmp_path):
    interrupt(tmp_path, 2)
    before = listing(tmp_path)
    with pytest.raises(UserError, match=r"already holds a run .*--resume"):
        train(toy_problem(), CONFIG, out=tmp_path)
    with pytest.raises(UserError, match=r"another config: lr=0.01 there, 0.02 now"):
        train(toy_problem(), {**CONFIG, "lr": 0.02}, out=tmp_path, resume=True)
    assert listing(tmp_path) == before


def flipped(raw: bytes) -> bytes:
    """A bit of a weight turned over."""
    at = len(raw) // 2
    return raw[:at] + bytes([raw[at] ^ 64]) + raw[at + 1 :]


@pytest.mark.parametrize("damage", [lambda raw: raw[:-200], lambda raw: raw[:0], flipped])
def test_a_damaged_checkpoint_is_refused_and_left_alone(tmp_path, damage):
    interrupt(tmp_path, 2)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(damage(path.read_bytes()))
    before = listing(tmp_path)
    with pytest.raises(UserError, match=r"checkpoint .*checkpoint.pt is unusable"):
        train(toy_problem(), CONFIG, out=tmp_path, resume=True)
    assert listing(tmp_path) == before


def test_a_checkpoint_of_another_config_is_refused(tmp_path):
    interrupt(tmp_path / "a", 2)
    content = checkpoint.load(tmp_path / "a" / "checkpoint.pt")
    content["config"]["lr"] = 0.5
    checkpoint.save(tmp_path / "a" / "checkpoint.pt", content)
    with pytest.raises(UserError, match=r"lr=0.5 there"):
        train(toy_problem(), CONFIG, out=tmp_path / "a", resume=True)


def test_a_mistake_leaves_no_folder_behind(tmp_path):
    with pytest.raises(UserError, match="lr"):
        train(toy_problem(), {"strategy": "io", "lr": -1}, out=tmp_path / "run")
    problem = toy_problem(1)
    problem.tasks = [problem.tasks[0].__class__("t0", lambda prediction, target: prediction - target)]
    with pytest.raises(UserError, match="scalar"):
        train(problem, CONFIG, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_out_that_cannot_be_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be used"):
        train(toy_problem(), CONFIG, out=tmp_path / "file" / "run")


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    config = {**CONFIG, "epochs": 2}

    def same(record, _):
        if record["epoch"] == 1:
            with pytest.raises(UserError, match="another process is training there"):
                train(toy_problem(), config, out=tmp_path / "y", resume=True)

    assert train(toy_problem(), config, out=tmp_path / "y", on_evaluation=same).outcome == "completed"


def test_checkpoints_cost_a_small_share_of_the_time(tmp_path, monkeypatch):
    saves = []
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    save = checkpoint.save

    def slow(path, content):
        if path.name == "checkpoint.pt":
            saves.append(clock[0])
        clock[0] += 0.5
        save(path, content)

    monkeypatch.setattr(checkpoint, "save", slow)
    problem = toy_problem(to_device=lambda batch, _: clock.__setitem__(0, clock[0] + 1.0) or batch)
    train(problem, {**CONFIG, "epochs": 40}, out=tmp_path)
    gaps = [later - earlier for earlier, later in pairwise(saves[:-1])]
    assert len(gaps) > 3
    assert min(gaps) >= 0.5 / 0.03
    assert max(gaps) < 80


def test_a_refused_second_process_leaves_the_first_ones_folder(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(UserError, match="in use"):
        train(toy_problem(), CONFIG, out=path)
    os.close(descriptor)
    assert path.exists()


def test_a_folder_that_was_there_stays_there(tmp_path):
    problem = toy_problem(1)
    problem.tasks = [Task("t0", lambda prediction, target: prediction - target)]
    for out in (tmp_path / "real", tmp_path / "link"):
        (tmp_path / "real").mkdir(exist_ok=True)
        if out.name == "link":
            out.symlink_to(tmp_path / "real")
        with pytest.raises(UserError, match="scalar"):
            train(problem, CONFIG, out=out)
        assert out.is_dir()


@pytest.mark.parametrize(
    "values", [{"adam_betas": (0.9, 0.99)}, {"clip_norm": np.float32(1.0)}, {"lr": np.float32(0.1)}]
)
def test_options_from_programs_can_be_resumed(tmp_path, values):
    def stop(*_):
        raise Stop

    with pytest.raises(Stop):
        train(toy_problem(), {**CONFIG, **values}, out=tmp_path, on_evaluation=stop)
    assert train(toy_problem(), {**CONFIG, **values}, out=tmp_path, resume=True).outcome == "completed"


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_diverged_run_killed_before_its_end_is_still_diverged(tmp_path, monkeypatch, epochs):
    def poisoned():
        calls = []

        def to_device(batch, _):
            calls.append(1)
            return Batch(batch.inputs * math.nan, batch.targets) if len(calls) > 7 else batch

        return toy_problem(to_device=to_device)

    def killed(*_):
        raise KeyboardInterrupt

    config = {**CONFIG, "epochs": epochs}
    whole = train(poisoned(), config, out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            train(poisoned(), config, out=tmp_path / "run")
    resumed = train(toy_problem(), config, out=tmp_path / "run", resume=True)
    assert (resumed.outcome, resumed.metrics["updates"]) == (whole.outcome, whole.metrics["updates"])
    assert resumed.outcome == "diverged"


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"config": {}}'])
def test_a_damaged_result_is_named(tmp_path, content):
    train(toy_problem(), {**CONFIG, "epochs": 1}, out=tmp_path)
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(UserError, match=r"result.json"):
        train(toy_problem(), {**CONFIG, "epochs": 1}, out=tmp_path, resume=True)


@pytest.mark.parametrize("left", ["result.json", "best.pt"])
def test_the_config_is_compared_whatever_file_is_left(tmp_path, left):
    train(toy_problem(), {**CONFIG, "epochs": 1}, out=tmp_path)
    for file in tmp_path.iterdir():
        if file.name != left:
            file.unlink()
    with pytest.raises(UserError, match="another config: lr"):
        train(toy_problem(), {**CONFIG, "epochs": 1, "lr": 0.5}, out=tmp_path, resume=True)


def test_a_full_disk_is_one_line_and_keeps_what_was_there(tmp_path, monkeypatch):
    def full(*_):
        (tmp_path / ".checkpoint.pt.partial").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    interrupt(tmp_path, 2)
    before = listing(tmp_path)
    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match="No space left on device"):
        train(toy_problem(), CONFIG, out=tmp_path, resume=True)
    after = listing(tmp_path)
    assert after.keys() == before.keys()
    assert after["checkpoint.pt"] == before["checkpoint.pt"]


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("strategy", ["io", "ius"])
def test_killed_at_any_moment_and_resumed_equals_never_killed(tmp_path, strategy):
    command = [sys.executable, "-m", "tune_mtl.cli", "train", "multidigits", "--strategy", strategy, "--lr", "3e-3"]
    command += ["--epochs", "6", "--groups", "2", "--seed", "5"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    moments = random.Random(strategy)
    run = tmp_path / "run"
    kills = 0
    for delay in (0.0, 0.2 + moments.random() / 2, 0.3 + moments.random() / 2):
        seen = (run / "checkpoint.pt").stat().st_mtime_ns if (run / "checkpoint.pt").exists() else None
        process = subprocess.Popen(
            [*command, "--out", str(run), "--resume"], env=environment, stdout=subprocess.DEVNULL
        )
        while process.poll() is None:
            path = run / "checkpoint.pt"
            if path.exists() and path.stat().st_mtime_ns != seen:
                time.sleep(delay)
                break
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 3
    assert not (run / "result.json").exists()
    subprocess.run([*command, "--out", str(run), "--resume"], env=environment, check=True, stdout=subprocess.DEVNULL)
    whole = train(
        "multidigits", {"strategy": strategy, "lr": 3e-3, "epochs": 6, "groups": 2, "seed": 5}, out=tmp_path / "w"
    )

    content = json.loads((run / "result.json").read_text())
    assert content["config"] == whole.config
    assert timeless(content["history"]) == timeless(whole.history)
    assert timeless([content["metrics"]]) == timeless([whole.metrics])
    for name in ("checkpoint.pt", "best.pt"):
        killed, never = (checkpoint.load(folder / name) for folder in (run, tmp_path / "w"))
        for content in (killed, never):
            for part in ("seconds", "history", "best"):
                content.pop(part, None)
        assert checkpoint.digest(killed) == checkpoint.digest(never)
