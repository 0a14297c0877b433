"""One MLflow run per search and one per trial, for ever, whatever was killed in between."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import Metric, Param, Run, RunTag

from tune_mtl.tracking import names
from tune_mtl.tracking.store import client, experiment_id

if TYPE_CHECKING:
    import pandas as pd

_BATCH = {"metrics": 1000, "params": 100, "tags": 100}


class SearchRuns:
    """The runs of one search, of one kind (``trial``, ``confirm``). Every call may be repeated."""

    def __init__(self, uri: str, problem: str, search: str, kind: str = "trial") -> None:
        self._client = client(uri)
        self._search, self._kind = search, kind
        self._experiment = experiment_id(self._client, names.experiment_name(problem), uri)
        self._trials: dict[str, str] = {}
        self._logged: dict[str, int] = {}
        self._parent: str | None = None

    @property
    def experiment(self) -> str:
        """The id of the experiment, for addresses."""
        return self._experiment

    def open_search(self, tags: Mapping[str, str], files: Mapping[str, Mapping[str, Any]]) -> str:
        """The parent run, made (with ``files``) or opened again; returns its id."""
        parents = search_runs(self._client, [self._experiment], self._search, "search")
        found = parents[0] if parents else None
        if found is None:
            everything = {names.SEARCH: self._search, names.KIND: "search", **tags}
            found = self._client.create_run(self._experiment, run_name=self._search, tags=everything)
            for file, content in files.items():
                self._client.log_dict(found.info.run_id, dict(content), file)
        self._parent = str(found.info.run_id)
        if self._kind == "confirm":  # the search itself stays as complete as it is
            self._client.set_tag(self._parent, names.CONFIRMATION, "running")
        else:
            self._client.update_run(self._parent, status="RUNNING")
        for run in self._children():
            self._trials[run.data.tags[names.TRIAL_ID]] = run.info.run_id
        return self._parent

    def open_trial(self, trial: str, config: Mapping[str, Any], varied: Mapping[str, Any]) -> None:
        """The trial's run, made or opened again; one of another config (a lost suggestion, redone) is replaced."""
        text = json.dumps(dict(config), sort_keys=True)
        run_id = self._trials.get(trial)
        if run_id is not None:
            run = self._client.get_run(run_id)
            if run.data.tags.get(names.CONFIG) == text:
                self._logged[trial] = self._last_step(run)
                self._client.update_run(run_id, status="RUNNING")
                return
            self._client.delete_run(run_id)
        tags = {
            names.SEARCH: self._search,
            names.KIND: self._kind,
            names.TRIAL_ID: trial,
            names.CONFIG: text,
            names.PARENT: self._parent or "",
        }
        label = f"{trial} {config['strategy']}"
        if self._kind == "confirm":
            label, tags[names.ROLE] = trial, names.role_of(trial)
        run_id = self._client.create_run(self._experiment, run_name=label, tags=tags).info.run_id
        self._client.log_batch(run_id, params=[Param(key, _text(value)) for key, value in varied.items()])
        self._trials[trial] = run_id
        self._logged[trial] = 0

    def log(self, trial: str, epoch: int, values: Mapping[str, float]) -> None:
        """One batch for one evaluation; an epoch that is already there is not logged again."""
        if epoch <= self._logged.get(trial, 0):
            return
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, epoch) for name, value in values.items()]
        for start in range(0, len(metrics), _BATCH["metrics"]):
            self._client.log_batch(self._trials[trial], metrics=metrics[start : start + _BATCH["metrics"]])
        self._logged[trial] = epoch

    def close_trial(
        self, trial: str, outcome: str, values: Mapping[str, float], tags: Mapping[str, str], files: Mapping[str, Path]
    ) -> None:
        """What is said once, the files, the outcome; then the run is ended."""
        run_id = self._trials[trial]
        now = int(time.time() * 1000)
        known = self._client.get_run(run_id)
        if known.data.tags.get(names.OUTCOME) != outcome:
            metrics = [Metric(name, value, now, 0) for name, value in values.items()]
            for name, path in files.items():
                if path.exists():
                    self._client.log_artifact(run_id, str(path), None if path.name == name else name)
            everything = [RunTag(key, value) for key, value in {names.OUTCOME: outcome, **tags}.items()]
            self._client.log_batch(run_id, metrics=metrics, tags=everything)
        self._client.set_terminated(run_id, "FAILED" if outcome == "failed" else "FINISHED")

    def note(self, trial: str, text: str, file: str) -> None:
        """A text as an artifact of the trial: a traceback."""
        self._client.log_text(self._trials[trial], text, file)

    def close_search(
        self, *, complete: bool, tags: Mapping[str, str], table: "pd.DataFrame", best: Mapping[str, Any] | None
    ) -> None:
        """End the parent, and whatever trial was left open."""
        assert self._parent is not None
        for run in self._children():
            if run.info.status == "RUNNING":
                self._client.set_terminated(run.info.run_id, "KILLED")
        for key, value in tags.items():
            self._client.set_tag(self._parent, key, value)
        self._client.log_text(self._parent, table.to_csv(index=False), f"{self._kind}s.csv")
        if best is not None:
            self._client.log_dict(self._parent, dict(best), "best_config.json")
        if self._kind == "confirm":
            self._client.set_tag(self._parent, names.CONFIRMATION, "complete" if complete else "interrupted")
        else:
            self._client.set_terminated(self._parent, "FINISHED" if complete else "KILLED")

    def _children(self) -> list[Run]:
        return search_runs(self._client, [self._experiment], self._search, self._kind)

    def _last_step(self, run: Run) -> int:
        logged = [name for name in run.data.metrics if name.startswith("train/")]
        if not logged:
            return 0
        return max(int(metric.step) for metric in self._client.get_metric_history(run.info.run_id, logged[0]))


def search_runs(of: Any, experiments: list[str], search: str, kind: str) -> list[Run]:
    """All runs of one kind of a search."""
    quoted = search.replace("'", "")
    condition = f"tags.`{names.SEARCH}` = '{quoted}' and tags.`{names.KIND}` = '{kind}'"
    runs: list[Run] = []
    token = None
    while True:
        page = of.search_runs(experiments, condition, max_results=5000, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
