"""Tables of learning curves: complete, and the same however often their recording was interrupted."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.problems import tabular
from benchmarks.record_curves import Table, learning_rates, main, make_plan, record
from tests.toys import toy_problem
from tune_mtl import Problem, UserError, train

ROOT = Path(__file__).parent.parent
TOY = "tests.toys:toy_problem"
COMMAND = [
    TOY, "--strategies", "sus,io", "--groups", "2,3", "--lr", "1e-3:1e-1", "--points", "3", "--seeds", "2",
    "--epochs", "3",
]  # fmt: skip
TRIALS = 3 * 3 * 2


def rows(path: Path) -> list[dict]:
    """All rows but for the time they took; strict JSON, without NaN."""

    def refuse(constant: str):
        raise AssertionError(f"{constant} in {path}")

    lines = path.read_bytes().decode().split("\n")
    assert lines[-1] == ""
    found = [json.loads(line, parse_constant=refuse) for line in lines[:-1]]
    return [{key: value for key, value in row.items() if key != "t"} for row in found]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("curves") / "whole.jsonl"
    main([*COMMAND, "--out", str(path)])
    return path


def test_every_combination_is_one_row_seed_by_seed(uninterrupted):
    recorded = [tuple(row["key"]) for row in rows(uninterrupted)]
    arms = [("sus", 0), ("io", 2), ("io", 3)]
    expected = [(*arm, rate, seed) for seed in (0, 1) for rate in (0.001, 0.01, 0.1) for arm in arms]
    assert recorded == expected


def test_a_row_is_what_the_engine_says(uninterrupted):
    row = rows(uninterrupted)[1]
    strategy, groups, rate, seed = row["key"]
    config = {"strategy": strategy, "groups": groups, "lr": rate, "seed": seed, "epochs": 3}
    result = train(toy_problem(), config)
    assert row["curve"] == pytest.approx([record["val/loss"] for record in result.history], rel=1e-5)
    assert row["test"] == pytest.approx(result.metrics["test/loss"], rel=1e-5)
    assert row["outcome"] == "completed"


def test_every_trial_has_what_is_set(tmp_path):
    path = tmp_path / "cosine.jsonl"
    command = [TOY, "--strategies", "sus", "--lr", "0.1", "--epochs", "3", "--out", str(path)]
    main([*command, "--set", "schedule=cosine", "--set", "batch_size=6"])
    (row,) = rows(path)
    config = {"strategy": "sus", "lr": 0.1, "epochs": 3, "schedule": "cosine", "batch_size": 6}
    expected = [record["val/loss"] for record in train(toy_problem(), config).history]
    assert row["curve"] == pytest.approx(expected, rel=1e-5)
    with pytest.raises(SystemExit, match="--set lr=1 cannot be"):
        main([*command, "--set", "lr=1"])


@pytest.mark.parametrize("seed", range(4))
def test_a_table_cut_at_any_byte_is_completed_to_the_same_rows(uninterrupted, tmp_path, seed):
    content = uninterrupted.read_bytes()
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(content[: random.Random(seed).randrange(len(content))])
    main([*COMMAND, "--out", str(cut)])
    assert rows(cut) == rows(uninterrupted)


def test_every_cut_of_a_table_keeps_the_rows_before_it(uninterrupted, tmp_path):
    lines = uninterrupted.read_bytes().splitlines(keepends=True)[:2]
    content, path = b"".join(lines), tmp_path / "cut.jsonl"
    for end in range(len(content) + 1):
        path.write_bytes(content[:end])
        table = Table(path)
        table.close()
        whole = sum(
            end >= sum(map(len, lines[:count])) - 1 for count in (1, 2)
        )  # a row lacking its line end only is whole
        assert len(table.rows) == whole
        assert path.read_bytes() == b"".join(lines[:whole])


@pytest.mark.slow
def test_a_killed_recording_goes_on(uninterrupted, tmp_path):
    path = tmp_path / "killed.jsonl"
    command = [sys.executable, "benchmarks/record_curves.py", *COMMAND, "--out", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(rows(path)) < TRIALS
    main([*COMMAND, "--out", str(path)])
    assert rows(path) == rows(uninterrupted)


@pytest.mark.slow
def test_workers_record_the_same_rows_in_any_order(uninterrupted, tmp_path):
    path = tmp_path / "workers.jsonl"
    main([*COMMAND, "--out", str(path), "--workers", "2"])

    def by_key(row: dict) -> list:
        return row["key"]

    assert sorted(rows(path), key=by_key) == sorted(rows(uninterrupted), key=by_key)


def test_a_complete_table_is_left_as_it_is(uninterrupted):
    before = uninterrupted.read_bytes()
    main([*COMMAND, "--out", str(uninterrupted)])
    assert uninterrupted.read_bytes() == before


def without_test() -> Problem:
    whole = toy_problem()
    return Problem(
        "untested",
        whole.tasks,
        whole.model,
        lambda split: None if split == "test" else whole.data(split),
        defaults=whole.defaults,
    )


def test_without_a_test_split_there_is_no_test_value(tmp_path):
    path = tmp_path / "untested.jsonl"
    plan = make_plan(f"{__name__}:without_test", ["sus"], [1e-3])
    record(plan, path)
    assert [row["test"] for row in rows(path)] == [None]


def test_a_diverged_trial_is_a_row_too(tmp_path):
    path = tmp_path / "diverged.jsonl"
    record(make_plan(TOY, ["sus"], [1e30]), path)
    assert rows(path) == [{"key": ["sus", 0, 1e30, 0], "curve": [], "test": None, "outcome": "diverged"}]
    before = path.read_bytes()
    record(make_plan(TOY, ["sus"], [1e30]), path)
    assert path.read_bytes() == before


def test_learning_rates_are_a_range_in_equal_ratios_or_a_list():
    assert learning_rates("1e-4:1e-1", 4) == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert learning_rates("1e-3,2e-3", None) == [1e-3, 2e-3]
    assert learning_rates("1e-3:1e-2", None) == [1e-3, 2e-3, 5e-3, 1e-2]
    for text, points in (("1e-3,2e-3", 4), ("1e-4:1e-1", 1), ("0:1", 4), ("fast", None)):
        with pytest.raises(UserError):
            learning_rates(text, points)


def test_groups_default_to_the_counts_that_a_search_tries():
    assert [key[:2] for key in make_plan(TOY, ["sus", "io"], [1e-3]).keys] == [("sus", 0), ("io", 2), ("io", 3)]


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "none.jsonl"
    for wrong in (["--groups", "9"], ["--strategies", "sus,nobody"], ["--lr", "-1"], ["--epochs", "99999999999"]):
        with pytest.raises(SystemExit):
            main([*COMMAND, *wrong, "--out", str(path)])
    assert not path.exists()


def test_curves_of_another_length_are_not_mixed(uninterrupted):
    before = uninterrupted.read_bytes()
    with pytest.raises(SystemExit, match="3 epochs"):
        main([*COMMAND, "--epochs", "2", "--out", str(uninterrupted)])
    assert uninterrupted.read_bytes() == before


@pytest.mark.parametrize("damage", ["no json\n", "[]\n", '{"key": 3}\n', "same again"])
def test_what_is_no_table_is_refused_and_kept(uninterrupted, tmp_path, damage):
    first = uninterrupted.read_text().splitlines(keepends=True)[0]
    path = tmp_path / "other.jsonl"
    path.write_text(first + (first if damage == "same again" else damage) + first)
    before = path.read_bytes()
    with pytest.raises(UserError, match="line 2"):
        Table(path)
    assert path.read_bytes() == before


def test_two_recordings_cannot_share_a_table(tmp_path):
    path = tmp_path / "shared.jsonl"
    held = Table(path)
    with pytest.raises(UserError, match="in use"):
        Table(path)
    held.close()
    Table(path).close()


def test_tabular_has_twelve_tasks_whose_best_constant_prediction_scores_one():
    problem = tabular()
    assert len(problem.tasks) == 12
    sizes = {split: len(problem.data(split)) for split in ("train", "val", "test")}
    assert sizes == {"train": 341, "val": 114, "test": 114}
    assert all(task.reference_loss == pytest.approx(1, rel=0.4) for task in problem.tasks)
    result = train(problem, {"strategy": "sus", "lr": 3e-3})
    curve = [record["val/relative_loss"] for record in result.history]
    assert curve[-1] < 0.3 < curve[0]


@pytest.mark.parametrize("name", ["tabular", "multidigits"])
def test_kept_tables_hold_rows_alone(name):
    kept = rows(ROOT / "benchmarks" / "curves" / f"{name}.jsonl")
    epochs = {"tabular": 15, "multidigits": 12}[name]
    keys = [tuple(row["key"]) for row in kept]
    assert len(set(keys)) == len(keys) > 100
    assert all(len(row["curve"]) == epochs for row in kept if row["outcome"] == "completed")
    assert {"key", "curve", "outcome"} <= kept[0].keys()
