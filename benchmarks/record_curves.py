"""Record complete learning curves of a problem, for searches to be replayed on without training.

One JSON line per trial, seed by seed, so that a table cut short still holds whole seeds:

    {"key": [strategy, groups (0: none), lr, seed], "curve": [objective after each epoch], "test": value or null,
     "outcome": "completed" | "diverged", "t": seconds}

``curve`` ends where a trial diverged. ``test`` is the objective's metric on the test split at the best epoch of the
curve. Trials are trained by the engine itself, in this process or in ``--workers`` of it, without Ray or MLflow. The
same command goes on after a kill: a row reaches the disk before the next one, and a torn last one is trained again.
A row names neither problem nor epochs nor what ``--set`` gives all trials: keep one file for each.

    PYTHONPATH=. python benchmarks/record_curves.py multidigits --lr 1e-4:1e-1 --points 13 --seeds 3 --out curves.jsonl
"""

import argparse
import fcntl
import itertools
import json
import math
import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from search_spaces.default import group_counts
from search_spaces.space import LogRange
from search_spaces.texts import parse_numbers
from tune_mtl import UserError, load_problem, train
from tune_mtl.commands.values import assignment
from tune_mtl.core.objective import Objective
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import resolve

Key: TypeAlias = tuple[str, int, float, int]
"""Strategy, groups (0 for a strategy without groups), learning rate, seed."""

Row: TypeAlias = dict[str, Any]
DIGITS = 6
"""Significant digits of learning rates and values."""


@dataclass(frozen=True)
class Plan:
    """Which trials of which problem, each of how many epochs; ``fixed``: other config values that all have."""

    problem: str
    epochs: int
    keys: tuple[Key, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)


def make_plan(
    problem: str,
    strategies: Sequence[str],
    rates: Sequence[float],
    *,
    groups: Sequence[int] | None = None,
    seeds: int = 1,
    epochs: int | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Plan:
    """All combinations, every config of them checked. ``groups`` default to powers of two and one group per task.

    Raises:
        UserError: for a problem, strategy or value that cannot be, before anything is trained.
    """
    fixed = dict(fixed or {})
    decided = sorted(fixed.keys() & config_of(("", 1, 1.0, 0), None).keys())
    if decided:
        raise UserError(
            f"--set {decided[0]}={fixed[decided[0]]} cannot be: it has a flag of its own, or is the same for all."
        )
    loaded = load_problem(problem, fixed)
    counts = {
        name: (groups or group_counts(len(loaded.tasks))) if strategy_info(name).has_groups else (0,)
        for name in strategies
    }
    arms = [(name, count) for name in strategies for count in counts[name]]
    product = itertools.product(range(seeds), (rounded(rate) for rate in rates), arms)
    keys = tuple(dict.fromkeys((name, count, rate, seed) for seed, rate, (name, count) in product))
    if not keys:
        raise UserError("there is nothing to record: give one or more strategies, learning rates, groups and seeds.")
    checked = [resolve(loaded, config_of(key, epochs, fixed), problem) for key in keys]
    return Plan(problem, checked[0].epochs, keys, fixed)


def config_of(key: Key, epochs: int | None, fixed: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The config of a trial; one thread, since their number changes the last bits."""
    strategy, groups, rate, seed = key
    config = {"strategy": strategy, "lr": rate, "seed": seed, "epochs": epochs, "evaluate_every": 1, "threads": 1}
    return {**(fixed or {}), **config} | ({"groups": groups} if groups else {})


def record_trial(problem: str, key: Key, epochs: int, fixed: Mapping[str, Any] | None = None) -> Row:
    """Train one config to its end."""
    result = train(problem, config_of(key, epochs, fixed))
    metric = Objective.parse(result.config["metric"]).metric
    split, _, name = metric.partition("/")
    test = result.metrics.get(f"test/{name}", math.nan) if split == "val" else math.nan
    return {
        "key": list(key),
        "curve": [finite(record[metric]) for record in result.history],
        "test": finite(test),
        "outcome": result.outcome,
        "t": round(result.metrics["seconds"], 3),
    }


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def finite(value: float) -> float | None:
    """``value`` rounded, or None where JSON has no number for it."""
    return rounded(value) if math.isfinite(value) else None


class Table:
    """Rows in a file, held by this process alone; at every moment each line but the last is whole.

    Raises:
        UserError: if the file cannot be used, another process records into it, or a line of it is no row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UserError(f"{path} is in use: another process is recording into it.") from None
        except OSError as error:
            raise UserError(f"--out {path} cannot be used: {error.strerror}.") from None
        try:
            self._cut_torn_end()
            self.rows = {tuple(row["key"]): row for row in self._read()}
        except BaseException:
            self.close()
            raise

    def add(self, row: Row) -> None:
        """Bring ``row`` to the disk."""
        self._write(json.dumps(row, allow_nan=False).encode() + b"\n")
        self.rows[tuple(row["key"])] = row

    def close(self) -> None:
        """Let others have the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        while line:
            line = line[self._file.write(line) :]
        os.fsync(self._file.fileno())

    def _content(self) -> bytes:
        return self.path.read_bytes()

    def _cut_torn_end(self) -> None:
        """A last line without its end is completed if only the end is missing, else removed."""
        content = self._content()
        whole = content.rfind(b"\n") + 1
        if whole == len(content):
            return
        if is_row(content[whole:]):
            self._write(b"\n")
        else:
            self._file.truncate(whole)

    def _read(self) -> Iterator[Row]:
        seen = set()
        for number, line in enumerate(self._content().splitlines(), 1):
            if not is_row(line):
                raise UserError(
                    f"{self.path}, line {number} is no row of a table: {line[:60]!r}. Choose another --out."
                )
            row = json.loads(line)
            if tuple(row["key"]) in seen:
                raise UserError(f"{self.path}, line {number} has the key of an earlier one: {row['key']}.")
            seen.add(tuple(row["key"]))
            yield row


def is_row(line: bytes) -> bool:
    try:
        row = json.loads(line)
        return len(row["key"]) == 4 and isinstance(row["curve"], list) and "outcome" in row
    except (ValueError, TypeError, KeyError):
        return False


def check_same_length(plan: Plan, table: Table) -> None:
    """Refuse to go on with a table of trials of another length: keys do not tell them apart."""
    for key, row in table.rows.items():
        length = len(row["curve"])
        if length > plan.epochs or (row["outcome"] == "completed" and length != plan.epochs):
            raise UserError(
                f"{table.path} holds curves of {length} epochs ({key}), but {plan.epochs} are to be recorded:"
                " give the same --epochs, or another --out."
            )


def record(plan: Plan, path: Path, *, workers: int = 1) -> None:
    """Train what ``path`` lacks of ``plan``, row by row."""
    table = Table(path)
    try:
        check_same_length(plan, table)
        missing = [key for key in plan.keys if key not in table.rows]
        done = len(plan.keys) - len(missing)
        for number, row in enumerate(trained(plan, missing, workers), done + 1):
            table.add(row)
            print(
                f"{number} of {len(plan.keys)}: {row['key']} {row['outcome']}, test {row['test']}, {row['t']} s",
                flush=True,
            )
    finally:
        table.close()


def trained(plan: Plan, keys: Sequence[Key], workers: int) -> Iterator[Row]:
    """A row for each of ``keys``: in their order with one worker, else as they come."""
    if workers == 1:
        yield from (record_trial(plan.problem, key, plan.epochs, plan.fixed) for key in keys)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=end_with_parent) as pool:
        futures = [pool.submit(record_trial, plan.problem, key, plan.epochs, plan.fixed) for key in keys]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def end_with_parent() -> None:
    """End this process when the one that started it does, even by SIGKILL: nobody would read what it trains."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def learning_rates(text: str, points: int | None) -> list[float]:
    """``LOW:HIGH`` in ``points`` equal steps of the logarithm (None: the 1-2-5 steps within), or the list ``A,B,C``."""
    numbers = parse_numbers(text, log=True)
    if isinstance(numbers, LogRange) and points is not None:
        if points < 2:
            raise UserError(f"--points {points} must be >= 2: both ends of --lr {text} are among them.")
        return list(np.geomspace(numbers.low, numbers.high, points))
    if points is not None:
        raise UserError(f"--points {points} needs a range of learning rates, --lr LOW:HIGH, not {text}.")
    return [float(value) for value in numbers.points()]


def whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be >= 1")
    return number


def listed(text: str) -> list[str]:
    return text.split(",")


def counts(text: str) -> list[int]:
    return [whole(part) for part in listed(text)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", help="a built-in name, or package.module:attribute")
    parser.add_argument("--strategies", type=listed, default=["sus", "ius", "io"], help="A,B,C")
    parser.add_argument("--lr", default="1e-4:1e-1", help="LOW:HIGH, or A,B,C")
    parser.add_argument("--points", type=whole, help="of LOW:HIGH, log-spaced; without it the 1-2-5 steps within")
    parser.add_argument("--groups", type=counts, help="counts A,B,C, for strategies that have groups")
    parser.add_argument("--seeds", type=whole, default=1, help="how many, from 0")
    parser.add_argument("--epochs", type=whole, help="the problem's, if not given")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of all trials; repeatable")
    parser.add_argument("--out", type=Path, required=True, help="FILE; a table that is there already is completed")
    parser.add_argument("--workers", type=whole, default=1, help="processes")
    given = parser.parse_args(arguments)
    try:
        rates = learning_rates(given.lr, given.points)
        plan = make_plan(
            given.problem, given.strategies, rates, groups=given.groups, seeds=given.seeds, epochs=given.epochs,
            fixed=dict(map(assignment, given.set)),
        )  # fmt: skip
        record(plan, given.out, workers=given.workers)
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
