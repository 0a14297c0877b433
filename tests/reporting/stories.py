"""Searches that never ran: their records, written into a real store, with numbers that tests choose."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from tune_mtl.core.objective import Objective
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.search_data import SearchData, Trained
from tune_mtl.tracking import names
from tune_mtl.tracking.ranking import new_ranking
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.store import reachable, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient

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
        ranked_by: str | None = None,
        **facts: Any,
    ) -> None:
        self.name = name
        self.tags = {names.OBJECTIVE: objective, names.PROBLEM: "made", "tune_mtl.device": "abacus"}
        self.tags |= {} if ranked_by is None else {names.RANKED_BY: ranked_by}
        self.settings = {"problem": "made", "name": name, "algorithm": "optuna", **(settings or {})}
        self.facts = {**FACTS, **facts}
        self.runs = {kind: self._recorder(kind) for kind in names.KINDS}
        self._count = 0

    def _recorder(self, kind: str) -> Any:
        self.uri = tracking_uri()
        reachable(self.uri)
        runs = SearchRuns(self.uri, "made", self.name, kind)
        runs.open_search(self.tags, {names.SETTINGS_FILE: self.settings, names.FACTS_FILE: self.facts})
        return runs

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

    def cross(self, strategy: str, draw: int, seed: int, value: float, *, groups: int = 2, **told: Any) -> None:
        trial_id = names.factorial_id(strategy, groups, draw, seed)
        told["config"] = {"groups_seed": draw, **told.get("config", {})}
        self._tell(
            names.FACTORIAL, trial_id, strategy, value, told.pop("outcome", "completed"), seed=seed, groups=groups,
            test=True, **told,
        )  # fmt: skip

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
        replicate: int = 0,
        config: Mapping[str, Any] | None = None,
        each: Mapping[str, float] | None = None,
    ) -> None:
        runs = self.runs[kind]
        whole = {"problem": "made", "strategy": strategy, "lr": lr, "seed": seed, "threads": 1, **(config or {})}
        whole |= {} if groups is None else {"groups": groups}
        runs.open_trial(trial_id, whole, {"strategy": strategy, "lr": lr}, replicate=replicate)
        if outcome == "running":
            return
        stretch = 1 + 0.01 * seed
        for epoch in range(1, EPOCHS + 1):
            now = {"train/loss": value, "val/loss": value * (1 + 1 / epoch), "updates": updates * epoch / EPOCHS}
            now["seconds"] = 2.0 * epoch
            now |= dict(each or {})
            if path is not None:
                now |= {"path/total": stretch * path * epoch / EPOCHS, "path/from_start": path**0.5 * epoch / EPOCHS}
            runs.log(trial_id, epoch, now)
        said = {name: found for name, found in measured(value).items() if name not in without} | dict(extra or {})
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


def measured(value: float) -> dict[str, float]:
    """Return all metrics of a run that reaches ``value``."""
    return {"loss": value, "loss/left": value / 2, "loss/sum": value * 2, "left/accuracy": 1 - value, "sum/mae": value}


class _Remembered:
    """Keeps what :class:`SearchRuns` would write."""

    def __init__(self) -> None:
        self.found: dict[str, Trained] = {}

    def open_trial(self, trial: str, config: Mapping[str, Any], varied: Mapping[str, Any], replicate: int = 0) -> None:
        assert varied
        role = names.role_of(trial) if "-" in trial else ""
        self.found[trial] = Trained(f"run-{trial}", trial, role, "running", config, {}, replicate)

    def log(self, trial: str, epoch: int, values: Mapping[str, float]) -> None:
        assert epoch
        self.found[trial] = replace(self.found[trial], metrics={**self.found[trial].metrics, **values})

    def close_trial(self, trial: str, outcome: str, values: Mapping[str, float], *_: Any) -> None:
        self.log(trial, EPOCHS, values)
        self.found[trial] = replace(self.found[trial], outcome=outcome)


class Imagined(Story):
    """A story without a store: its data are at hand at once, curves aside."""

    def _recorder(self, kind: str) -> Any:
        assert kind in names.KINDS
        return _Remembered()

    def search(self, state: str = "complete") -> SearchData:
        """What reading the search would give."""
        trials, reruns, crossed = ([*self.runs[kind].found.values()] for kind in names.KINDS)
        objective = Objective.parse(self.tags[names.OBJECTIVE])
        ranking, metric = new_ranking(self.tags), names.best_metric(objective.metric)
        for run in trials:
            if run.ranked and metric in run.metrics:
                ranking.add(run.trial_id, run.run_id, run.config, run.metrics[metric])
        by_id = {run.run_id: run for run in trials}
        winners = {}
        for strategy, won in ranking.winners().items():
            run = by_id[won.run_id]
            winners[strategy] = BestTrial(
                config=dict(run.config), metrics=dict(run.metrics), run_id=run.run_id, trial_id=run.trial_id,
                outcome=run.outcome, value=won.value, seeds=won.seeds, objective=objective, tracking_uri="",
                searched=("lr",),
            )  # fmt: skip
        return SearchData(
            name=self.name, problem="made", objective=objective, settings=self.settings, facts=self.facts,
            trials=sorted(trials, key=lambda run: run.trial_id), reruns=sorted(reruns, key=lambda run: run.trial_id),
            winners=winners, state=state, tags=self.tags, run_id="", client=cast("MlflowClient", None),
            crossed=crossed,
        )  # fmt: skip


def fresh_seed(replicate: int) -> int:
    """Return the seed on which the choices of a replicate are judged."""
    return 1000 + replicate


def replicated(
    reached: Mapping[str, Sequence[float | None]],
    *,
    into: Story | None = None,
    tested: Mapping[str, Sequence[float]] | None = None,
    told: Mapping[str, Mapping[str, Any]] | None = None,
    confirmed: bool = True,
) -> Story:
    """Tell tunings of two trials each, whose choice is trained again on a fresh seed; without a store unless told so.

    Args:
        reached: By strategy and replicate, what the choice reaches; None: its tuning diverged.
        into: The story to tell; default: one without a store.
        tested: What it reaches on test, where that is something else.
        told: By strategy, what else is told of its runs.
        confirmed: Whether choices are trained again.
    """
    trials = 2 * sum(map(len, reached.values()))
    settings, ranked_by = {"strategies": list(reached)}, names.BY_TRIAL
    story = into or Imagined(settings=settings, ranked_by=ranked_by, total=trials, trials_per_tuning=2)
    for replicate in range(max(map(len, reached.values()))):
        for strategy, values in reached.items():
            value, more = values[replicate], dict((told or {}).get(strategy, {}))
            more["replicate"] = replicate
            lr = more.pop("lr", 0.01)
            for worse, rate in ((0.0, lr), (0.1, lr / 10)):
                outcome = "diverged" if value is None else "completed"
                story.trial(strategy, (value or 0.0) + worse, lr=rate, outcome=outcome, seed=replicate, **more)
            if value is None or not confirmed:
                continue
            if tested and strategy in tested:
                more["tested"] = measured(tested[strategy][replicate])
            story.rerun(strategy, fresh_seed(replicate), value, lr=lr, **more)
    return story


def repeated(reached: Mapping[str, float], replicates: int = 5, noise: float = 0.01) -> dict[str, list[float | None]]:
    """Return by strategy a value per replicate around ``reached``, the noise of each its own."""
    drawn = np.random.default_rng(0).normal(0.0, noise, (len(reached), replicates))
    drawn -= drawn.mean(axis=1, keepdims=True)
    return {name: [value + float(x) for x in row] for (name, value), row in zip(reached.items(), drawn, strict=True)}


def facts_of_tasks(tasks: Sequence[str], metric: str = "loss/{}", mode: str = "min") -> dict[str, Any]:
    """Return what a search knows of tasks that have one metric each."""
    return {"tasks": list(tasks), "metrics": {"loss": "min", **{metric.format(task): mode for task in tasks}}}


def by_task(
    reached: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    into: Story | None = None,
    metric: str = "loss/{}",
    mode: str = "min",
    confirmed: bool = True,
) -> Story:
    """Tell tunings of one trial each that reach, by strategy, task and replicate, what tests choose.

    Args:
        reached: The value of every task's metric.
        into: The story to tell, with `facts_of_tasks`; default: one without a store.
        metric: Its name, ``{}`` standing for the task.
        mode: Which way it is better.
        confirmed: Whether choices are trained again.
    """
    tasks = list(dict.fromkeys(task for found in reached.values() for task in found))
    settings, ranked_by = {"strategies": list(reached)}, names.BY_TRIAL
    facts = facts_of_tasks(tasks, metric, mode)
    told = into or Imagined(settings=settings, ranked_by=ranked_by, trials_per_tuning=1, **facts)
    for strategy, found in reached.items():
        replicates = len(next(iter(found.values())))
        for replicate in range(replicates):
            extra = {metric.format(task): values[replicate] for task, values in found.items()}
            overall = sum(extra.values()) / len(extra)
            more = {"extra": {"loss": overall, **extra}, "without": list(measured(0.0)), "replicate": replicate}
            told.trial(strategy, overall, seed=replicate, **more)
            if confirmed:
                told.rerun(strategy, fresh_seed(replicate), overall, **more)
    return told


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
