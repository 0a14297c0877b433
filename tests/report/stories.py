"""Searches that never ran: their records, written into a real store, with numbers that tests choose."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tune_mtl.tracking import names
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.store import reachable, tracking_uri

EPOCHS = 4
TASKS = ("left", "sum")
FACTS = {
    "name": "made",
    "tasks": list(TASKS),
    "homogeneous": False,
    "metrics": {"loss": "min", "loss/left": "min", "loss/sum": "min", "left/accuracy": "max", "sum/mae": "min"},
    "samples": {"train": 100, "val": 20, "test": 20},
    "mini_batches_per_epoch": 10,
    "budget": {"counts": "epoch", "length": EPOCHS},
    "total": 6,
}


class Story:
    """A search whose trials and confirming runs are told, not run."""

    def __init__(
        self,
        name: str = "made",
        *,
        settings: Mapping[str, Any] | None = None,
        objective: str = "val/loss:min",
        **facts: Any,
    ) -> None:
        self.uri = tracking_uri()
        reachable(self.uri)
        self.name = name
        self.runs = {kind: SearchRuns(self.uri, "made", name, kind) for kind in names.KINDS}
        files = {
            names.SETTINGS_FILE: {"problem": "made", "name": name, "algorithm": "optuna", **(settings or {})},
            names.FACTS_FILE: {**FACTS, **facts},
        }
        for runs in self.runs.values():
            runs.open_search({names.OBJECTIVE: objective, names.PROBLEM: "made", "tune_mtl.device": "abacus"}, files)
        self._count = 0

    def trial(self, strategy: str, value: float, *, outcome: str = "completed", **told: Any) -> None:
        self._count += 1
        self._tell("trial", f"{self._count - 1:04d}", strategy, value, outcome, **told)

    def confirm(self, strategy: str, values: Sequence[float], *, role: str = names.CONFIRM, **told: Any) -> None:
        for index, value in enumerate(values):
            self.rerun(strategy, index + 1, value, role=role, **told)

    def rerun(
        self,
        strategy: str,
        seed: int,
        value: float,
        *,
        role: str = names.CONFIRM,
        outcome: str = "completed",
        **told: Any,
    ) -> None:
        trial_id = names.rerun_id(role, strategy, seed)
        self._tell("confirm", trial_id, strategy, value, outcome, seed=seed, test=True, **told)

    def _tell(
        self,
        kind: str,
        trial_id: str,
        strategy: str,
        value: float,
        outcome: str,
        *,
        lr: float = 0.01,
        groups: int | list[list[str]] | None = None,
        seed: int = 0,
        test: bool = False,
        path: float | None = 10.0,
        without: Iterable[str] = (),
        extra: Mapping[str, float] | None = None,
        tested: Mapping[str, float] | None = None,
        updates: int = 40,
    ) -> None:
        runs = self.runs[kind]
        config = {"problem": "made", "strategy": strategy, "lr": lr, "seed": seed, "threads": 1}
        config |= {} if groups is None else {"groups": groups}
        runs.open_trial(trial_id, config, {"strategy": strategy, "lr": lr})
        if outcome == "running":
            return
        stretch = 1 + 0.01 * seed
        for epoch in range(1, EPOCHS + 1):
            now = {"train/loss": value, "val/loss": value * (1 + 1 / epoch), "updates": updates * epoch / EPOCHS}
            now["seconds"] = 2.0 * epoch
            if path is not None:
                now |= {"path/total": stretch * path * epoch / EPOCHS, "path/from_start": path**0.5 * epoch / EPOCHS}
            runs.log(trial_id, epoch, now)
        said = {
            "loss": value,
            "loss/left": value / 2,
            "loss/sum": value * 2,
            "left/accuracy": 1 - value,
            "sum/mae": value,
        }
        said = {name: found for name, found in said.items() if name not in without} | dict(extra or {})
        once = {f"best/val/{name}": found for name, found in said.items()} | {
            "best/epoch": EPOCHS,
            "memory/optimizer_mib": 1.5,
        }
        if path is not None:
            shortest = path**0.5
            once |= {"path/best_total": stretch * path, "path/best_shortest": shortest * stretch**0.4}
            once["path/best_ratio"] = once["path/best_total"] / once["path/best_shortest"]
        if test:
            once |= {f"test/{name}": found for name, found in (said | dict(tested or {})).items()}
        runs.close_trial(trial_id, outcome, {} if outcome in ("diverged", "failed") else once, {}, {})

    def end(self) -> str:
        """The search is complete; returns its name."""
        for runs in self.runs.values():
            runs.close_search(complete=True, tags={}, table=pd.DataFrame(), best=None)
        return self.name


def usual(name: str = "made", **settings: Any) -> Story:
    """Three strategies, searched and confirmed: io clearly best, sus as good with as many updates."""
    story = Story(name, settings={"strategies": ["sus", "ius", "io"], **settings})
    for lr in (0.001, 0.01):
        story.trial("sus", 0.5 - lr, lr=lr, path=10.0)
        story.trial("ius", 0.45 - lr, lr=lr, groups=2, path=30.0, updates=80)
        story.trial("io", 0.3 - lr, lr=lr, groups=2, path=40.0, updates=80)
    story.confirm("sus", [0.50, 0.51, 0.49], path=10.0)
    story.confirm("ius", [0.45, 0.46, 0.44], groups=2, path=30.0, updates=80)
    story.confirm("io", [0.30, 0.31, 0.29], groups=2, path=40.0, updates=80)
    story.confirm("sus", [0.301, 0.312, 0.291], role=names.EQUAL_UPDATES, path=15.0, updates=80)
    return story


def text_of(page: Path) -> str:
    """What a page says, without its markup."""
    told = re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", told))
