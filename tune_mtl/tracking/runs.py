"""One MLflow run per search and one per trial, for ever, whatever was killed in between."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import Metric, Param, Run, RunTag

from tune_mtl.core.objective import Objective
from tune_mtl.core.outcome import is_ranked
from tune_mtl.tracking import names
from tune_mtl.tracking.pages.descriptions import trial_note
from tune_mtl.tracking.pages.prepare import keep_answer
from tune_mtl.tracking.ranking import Ranking, new_ranking, winners_text
from tune_mtl.tracking.store import client, experiment_id

if TYPE_CHECKING:
    import pandas as pd

_BATCH = {"metrics": 1000, "params": 100, "tags": 100}
_MARKER = "train/"


class SearchRuns:
    """The runs of one search, of one kind (``names.KINDS``). Every call may be repeated."""

    def __init__(
        self,
        uri: str,
        problem: str,
        search: str,
        kind: str = "trial",
        check_file: Callable[[Path], object] = lambda _: None,
    ) -> None:
        """Connect to the store; ``check_file`` raises for a file that is not whole and must not be kept yet."""
        self._check_file = check_file
        self._client = client(uri)
        self._search, self._kind = search, kind
        self._experiment = experiment_id(self._client, names.experiment_name(problem), uri)
        self._trials: dict[str, str] = {}
        self._logged: dict[str, int] = {}
        self._best: dict[str, float | None] = {}
        self._objectives: dict[str, Objective] = {}
        self._parent: str | None = None
        self._ranking: Ranking | None = None
        self._winners = ""

    @property
    def experiment(self) -> str:
        """The id of the experiment, for addresses."""
        return self._experiment

    def open_search(
        self,
        tags: Mapping[str, str],
        files: Mapping[str, Mapping[str, Any]],
        params: Mapping[str, Any] | None = None,
    ) -> str:
        """Make or open again the parent run, with ``files`` (JSON) as they are now; returns its id.

        ``params`` say what the search was asked for; one that is there stays as it is.
        """
        parents = search_runs(self._client, [self._experiment], self._search, "search")
        found = parents[0] if parents else None
        if found is None:
            everything = {names.SEARCH: self._search, names.KIND: "search", **tags}
            found = self._client.create_run(self._experiment, run_name=self._search, tags=everything)
        for file, content in files.items():
            self._client.log_dict(found.info.run_id, dict(content), file)
        self._parent = str(found.info.run_id)
        new = {key: value for key, value in (params or {}).items() if key not in found.data.params}
        if new:
            self._client.log_batch(self._parent, params=[Param(key, _text(value)) for key, value in new.items()])
        if self._kind in names.STATES:  # the search itself stays as complete as it is
            self._client.set_tag(self._parent, names.STATES[self._kind], "running")
        else:
            self._client.update_run(self._parent, status="RUNNING")
        known = {**found.data.tags, **tags}
        if self._kind == "trial" and names.OBJECTIVE in known:
            self._ranking = new_ranking(known)
        for run in self._children():
            self._trials[run.data.tags[names.TRIAL_ID]] = run.info.run_id
            self._rank(run.data.tags, run.info.run_id, run.data.metrics)
        return self._parent

    def tell(self, step: int, values: Mapping[str, float], at: int) -> None:
        """Log a point of the search's own metrics; the same point twice is there once."""
        assert self._parent is not None
        self._client.log_batch(self._parent, metrics=[Metric(name, values[name], at, step) for name in values])

    def describe(self, answer: Sequence[str]) -> None:
        """Say in the description of the search's run what is known, instead of what was said before."""
        assert self._parent is not None
        keep_answer(self._client, self._parent, answer)

    def answers(self) -> bool:
        """Return whether the store answers."""
        try:
            self._client.get_experiment(self._experiment)
        except Exception:  # each store has its own way not to answer
            return False
        return True

    def open_trial(
        self,
        trial: str,
        config: Mapping[str, Any],
        varied: Mapping[str, Any],
        at: int | None = None,
        replicate: int = 0,
    ) -> None:
        """Make or open again the trial's run; one of another config (a lost suggestion, redone) is replaced."""
        text = json.dumps(dict(config), sort_keys=True)
        run_id = self._trials.get(trial) or self._made_before(trial)
        if run_id is not None:
            run = self._client.get_run(run_id)
            if run.data.tags.get(names.CONFIG) == text:
                self._trials[trial] = run_id
                self._take_up(trial, run)
                self._client.update_run(run_id, status="RUNNING")
                return
            self._client.delete_run(run_id)
            if self._ranking is not None:
                self._ranking.remove(trial)
        tags = {
            names.SEARCH: self._search,
            names.KIND: self._kind,
            names.TRIAL_ID: trial,
            names.CONFIG: text,
            names.REPLICATE: str(replicate),
            names.PARENT: self._parent or "",
        }
        label = f"{trial} {config['strategy']}"
        if self._kind in names.STATES:
            label, tags[names.ROLE] = trial, names.role_of(trial)
        created = self._client.create_run(self._experiment, start_time=at, run_name=label, tags=tags)
        run_id = created.info.run_id
        self._client.log_batch(run_id, params=[Param(key, _text(value)) for key, value in varied.items()])
        self._trials[trial] = run_id
        self._take_up(trial, created)

    def log(self, trial: str, epoch: int, values: Mapping[str, float], at: int | None = None) -> None:
        """Log an evaluation at the time ``at`` (milliseconds) in one batch, unless the epoch is there."""
        if trial not in self._logged:
            self._take_up(trial, self._client.get_run(self._trials[trial]))
        if epoch <= self._logged[trial]:
            return
        now = at or int(time.time() * 1000)
        last = sorted(
            values, key=lambda name: name.startswith(_MARKER)
        )  # what says that the epoch is there, at the end
        metrics = [Metric(name, value, now, epoch) for name, value in self._standing(trial, values).items()]
        metrics += [Metric(name, values[name], now, epoch) for name in last]
        for start in range(0, len(metrics), _BATCH["metrics"]):
            self._client.log_batch(self._trials[trial], metrics=metrics[start : start + _BATCH["metrics"]])
        self._logged[trial] = epoch

    def close_trial(
        self,
        trial: str,
        outcome: str,
        values: Mapping[str, float],
        tags: Mapping[str, str],
        files: Mapping[str, Path],
        at: int | None = None,
    ) -> None:
        """Record what is said once, the files and the outcome; then end the run."""
        run_id = self._trials[trial]
        now = at or int(time.time() * 1000)
        known = self._client.get_run(run_id)
        if known.data.tags.get(names.OUTCOME) != outcome:
            metrics = [Metric(name, value, now, 0) for name, value in values.items()]
            for name, path in files.items():
                if path.exists():
                    self._check_file(path)  # a copy that is being written is not whole yet: the call is repeated
                    self._client.log_artifact(run_id, str(path), None if path.name == name else name)
            note = trial_note(known, outcome, {**known.data.metrics, **values}, tags.get(names.REASON))
            said = {names.OUTCOME: outcome, names.NOTE: note, **tags}
            everything = [RunTag(key, value) for key, value in said.items()]
            self._client.log_batch(run_id, metrics=metrics, tags=everything)
        self._rank({**known.data.tags, names.OUTCOME: outcome}, run_id, {**known.data.metrics, **values})
        self._keep_winners()
        self._client.set_terminated(run_id, "FINISHED" if is_ranked(outcome) else "FAILED", now)

    def _rank(self, tags: Mapping[str, str], run_id: str, metrics: Mapping[str, float]) -> None:
        """Count a run that can win."""
        if self._ranking is not None:
            self._ranking.add_run(run_id, tags, metrics)

    def _keep_winners(self) -> None:
        """Keep the best run of each strategy in a tag of the search's run, for who does not look at all trials."""
        if self._ranking is not None and self._parent is not None:
            text = winners_text(self._ranking.winners())
            if text != self._winners:
                self._client.set_tag(self._parent, names.WINNERS, text)
                self._winners = text

    def note(self, trial: str, text: str, file: str) -> None:
        """Keep a text, such as a traceback, as an artifact of the trial."""
        self._client.log_text(self._trials[trial], text, file)

    def close_search(
        self, *, complete: bool, tags: Mapping[str, str], table: "pd.DataFrame", best: Mapping[str, Any] | None
    ) -> None:
        """End the parent, and whatever trial was left open."""
        assert self._parent is not None
        for run in self._children():
            if run.info.status == "RUNNING":
                self._client.set_terminated(run.info.run_id, "KILLED")
        self._keep_winners()
        for key, value in tags.items():
            self._client.set_tag(self._parent, key, value)
        self._client.log_text(self._parent, table.to_csv(index=False), f"{self._kind}s.csv")
        if best is not None:
            self._client.log_dict(self._parent, dict(best), "best_config.json")
        if self._kind in names.STATES:
            self._client.set_tag(self._parent, names.STATES[self._kind], "complete" if complete else "interrupted")
        else:
            self._client.set_terminated(self._parent, "FINISHED" if complete else "KILLED")

    def _made_before(self, trial: str) -> str | None:
        """Return a run whose making we did not hear of, since the answer was lost on its way; or None."""
        found = search_runs(self._client, [self._experiment], self._search, self._kind, trial)
        return None if not found else str(found[0].info.run_id)

    def _children(self) -> list[Run]:
        return search_runs(self._client, [self._experiment], self._search, self._kind)

    def _take_up(self, trial: str, run: Run) -> None:
        """Go on where the run of a trial is: its last epoch, and the best value so far."""
        config = json.loads(run.data.tags[names.CONFIG])
        self._logged[trial] = self._last_step(run)
        self._best[trial] = run.data.metrics.get(names.BEST_SO_FAR)
        if "metric" in config:
            self._objectives[trial] = Objective.parse(config["metric"])

    def _standing(self, trial: str, values: Mapping[str, float]) -> dict[str, float]:
        """Return the objective at an epoch, and the best value of it so far."""
        objective = self._objectives.get(trial)
        value = None if objective is None else values.get(objective.metric)
        if objective is None or value is None:
            return {}
        held = self._best.get(trial)
        best = value if held is None or objective.better(value, held) else held
        self._best[trial] = best
        return {names.BEST_SO_FAR: best, names.NOW: value}

    def _last_step(self, run: Run) -> int:
        logged = [name for name in run.data.metrics if name.startswith(_MARKER)]
        if not logged:
            return 0
        return max(int(metric.step) for metric in self._client.get_metric_history(run.info.run_id, logged[0]))


def search_runs(of: Any, experiments: list[str], search: str | None, kind: str, trial: str | None = None) -> list[Run]:
    """Return all runs of one kind: of one search (None: of all), of one trial if it is given."""
    wanted = {names.KIND: kind, names.SEARCH: search, names.TRIAL_ID: trial}
    given = {tag: value.replace("'", "") for tag, value in wanted.items() if value is not None}
    condition = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in given.items())
    runs: list[Run] = []
    if not experiments:
        return runs
    token = None
    while True:
        page = of.search_runs(experiments, condition, max_results=5000, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
