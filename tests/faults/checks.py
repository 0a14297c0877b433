"""What must hold of a search that has ended, whatever happened to it: each check tells what does not."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run, ViewType

import tune_mtl
from tests.faults import slow
from tests.faults.searches import Search
from tune_mtl import TrialResult
from tune_mtl.tracking import names
from tune_mtl.tracking.store import client
from tune_mtl.training import checkpoint

OBJECTIVE = "val/loss"
_CLOCK = "seconds"
_NOT_CONFIG = ("problem", "problem_pace")


def complaints(search: Search) -> list[str]:
    """Everything that is wrong with a search; nothing, if nothing was lost, doubled or changed."""
    records = Records(search)
    return [
        *records.every_trial_has_one_run(),
        *records.every_run_is_exact_and_complete(),
        *records.best_is_the_best_ever_reported(),
        *records.confirmation_is_complete(),
        *(f"{path} is left" for path in search.folder.rglob("*") if path.suffix in (".pt", ".partial")),
    ]


class Records:
    """A search in MLflow, beside what was reported and what an undisturbed trial gives."""

    def __init__(self, search: Search) -> None:
        self._search, self._asked = search, search.asked
        self._client: MlflowClient = client(search.server.uri)
        found = self._client.get_experiment_by_name(names.experiment_name("slow:problem"))
        self._experiments = [] if found is None else [found.experiment_id]
        self.trials = self._runs("trial")
        self._values = {run.info.run_id: self._logged(run) for run in (*self.trials, *self._runs("confirm"))}

    def every_trial_has_one_run(self) -> Iterator[str]:
        """Exactly one run per trial asked for, all ended and with an outcome; one parent, ended."""
        parents = self._runs("search")
        if [parent.info.status for parent in parents] != ["FINISHED"]:
            yield f"the search's runs are {[parent.info.status for parent in parents]}, not one that is FINISHED"
        found = Counter(run.data.tags[names.TRIAL_ID] for run in self.trials)
        for trial in sorted({*found, *self._search.trials}):
            wanted = int(trial in self._search.trials)
            if found[trial] != wanted:
                yield f"trial {trial} has {found[trial]} runs, not {wanted}"
        for run in self._runs("trial", ViewType.DELETED_ONLY):
            yield f"a run of trial {run.data.tags[names.TRIAL_ID]} was deleted: another config took its place"
        for run in self.trials:
            label, outcome = self._label(run), run.data.tags.get(names.OUTCOME)
            if (run.info.status, outcome) not in (("FINISHED", "completed"), ("FINISHED", "stopped_early")):
                reason = run.data.tags.get("tune_mtl.reason", "")
                yield f"{label} is {run.info.status} with outcome {outcome} {reason}"
            if parents and run.data.tags.get(names.PARENT) != parents[0].info.run_id:
                yield f"{label} is no child of the search's run"

    def every_run_is_exact_and_complete(self) -> Iterator[str]:
        """Every metric at every epoch once, equal to an undisturbed trial of its config; so were all reports."""
        reported: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)
        for each in self._search.reported():
            before = reported[each.trial].setdefault(each.epoch, each.values)
            if timeless(before) != timeless(each.values):
                yield f"trial {each.trial} reported two different results of epoch {each.epoch}"
        for run in self.trials:
            trial, values = run.data.tags[names.TRIAL_ID], self._values[run.info.run_id]
            completed = run.data.tags.get(names.OUTCOME) == "completed"
            length = self._asked.epochs if completed else max(reported[trial], default=0)
            exact = undisturbed(run).history[:length]
            yield from _compare(self._label(run), exact, values)
            for epoch, told in sorted(reported[trial].items()):
                wanted = timeless(names.per_epoch(undisturbed(run).history[epoch - 1]))
                if timeless(told) != wanted:
                    yield f"trial {trial} reported another epoch {epoch} than an undisturbed one"
            yield from self._check_best(run, exact, completed=completed)

    def best_is_the_best_ever_reported(self) -> Iterator[str]:
        """`best`, from the search's run and from all trials, is the best result that ever reached the driver.

        Of each strategy, that is; and of all, or where choices were judged on fresh seeds, of who is best there.
        """
        told = [(each.values[OBJECTIVE], each.trial) for each in self._search.reported() if OBJECTIVE in each.values]
        strategies = {run.data.tags[names.TRIAL_ID]: str(config_of(run)["strategy"]) for run in self.trials}
        told += [(r[OBJECTIVE], trial) for trial, r in self._search.results() if OBJECTIVE in r and trial in strategies]
        reached = [(value, trial, strategies[trial]) for value, trial in told if trial in strategies]
        if not reached:
            yield "nothing was ever reported"
            return
        winner = self._best_on_fresh_seeds() or min(reached)[2]
        for strategy in (None, *sorted(set(strategies.values()))):
            value, trial, _ = min(each for each in reached if each[2] == (strategy or winner))
            for recompute in (False, True):
                asked = {"strategy": strategy, "recompute": recompute, "tracking_uri": self._search.server.uri}
                best = tune_mtl.best(self._asked.name, **asked)
                if (best.value, best.trial_id) != (value, trial):
                    how = f"best{f' --strategy {strategy}' if strategy else ''}{' --recompute' if recompute else ''}"
                    yield f"{how} is trial {best.trial_id} at {best.value}; reported was trial {trial} at {value}"

    def _best_on_fresh_seeds(self) -> str | None:
        """The strategy with the best mean on validation; None where nothing was confirmed."""
        found: dict[str, list[float]] = defaultdict(list)
        for run in self._runs("confirm"):
            if run.data.tags[names.TRIAL_ID].startswith(f"{names.CONFIRM}-"):
                found[config_of(run)["strategy"]].append(run.data.metrics[names.best_metric(OBJECTIVE)])
        return min(found, key=lambda strategy: math.fsum(found[strategy]) / len(found[strategy]), default=None)

    def confirmation_is_complete(self) -> Iterator[str]:
        """The winner of each strategy on each fresh seed, once, in full, exact, tested."""
        runs = self._runs("confirm")
        found = Counter(run.data.tags[names.TRIAL_ID] for run in runs)
        seeds = self._asked.fresh_seeds
        for wanted in (names.rerun_id(names.CONFIRM, s, seed) for s in self._asked.strategies for seed in seeds):
            if not found[wanted]:
                yield f"{wanted} is missing"
        for run in runs:
            if found[run.data.tags[names.TRIAL_ID]] != 1 or run.data.tags.get(names.OUTCOME) != "completed":
                yield f"{self._label(run)} has outcome {run.data.tags.get(names.OUTCOME)}, or not one run"
            exact = undisturbed(run)
            yield from _compare(self._label(run), exact.history, self._values[run.info.run_id])
            if run.data.metrics.get("test/loss") != exact.metrics["test/loss"]:
                yield f"{self._label(run)} was tested otherwise than an undisturbed one"

    def _check_best(self, run: Run, exact: list[Mapping[str, float]], *, completed: bool) -> Iterator[str]:
        """The best epoch's value and weights."""
        wanted = min((record[OBJECTIVE] for record in exact), default=math.nan)
        if run.data.metrics.get(names.best_metric(OBJECTIVE)) != wanted:
            yield f"{self._label(run)} says best/val/loss={run.data.metrics.get('best/val/loss')}, not {wanted}"
        place = Path(self._search.world.folder) / "fetched" / run.info.run_id
        place.mkdir(parents=True, exist_ok=True)
        try:
            weights = checkpoint.load(Path(self._client.download_artifacts(run.info.run_id, "best.pt", str(place))))
        except Exception as error:
            yield f"{self._label(run)} has no weights that can be loaded: {error}"
            return
        if completed:
            undisturbed_weights = undisturbed(run).weights or {}
            if checkpoint.digest(weights["weights"]) != checkpoint.digest(undisturbed_weights):
                yield f"{self._label(run)} has other weights than an undisturbed trial"

    def _runs(self, kind: str, view: int = ViewType.ACTIVE_ONLY) -> list[Run]:
        if not self._experiments:
            return []
        condition = f"tags.`{names.SEARCH}` = '{self._asked.name}' and tags.`{names.KIND}` = '{kind}'"
        return list(self._client.search_runs(self._experiments, condition, run_view_type=view))

    def _logged(self, run: Run) -> dict[str, list[tuple[int, float]]]:
        """Each metric's points."""
        return {
            key: [(point.step, point.value) for point in self._client.get_metric_history(run.info.run_id, key)]
            for key in run.data.metrics
        }

    def _label(self, run: Run) -> str:
        return f"trial {run.data.tags[names.TRIAL_ID]} (run {run.info.run_id})"


def _compare(
    label: str, exact: list[Mapping[str, float]], values: Mapping[str, list[tuple[int, float]]]
) -> Iterator[str]:
    wanted: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for record in exact:
        for key, value in names.per_epoch(record).items():
            wanted[key].append((int(record["epoch"]), value))
    for key, points in wanted.items():
        found = values.get(key, [])
        steps, due = [step for step, _ in found], [step for step, _ in points]
        if steps != due:
            yield f"{label} has {key} at epochs {steps}, not {due}"
        elif key != _CLOCK and found != points:
            yield f"{label} has another {key} than an undisturbed trial: {found}, not {points}"


def timeless(values: Mapping[str, float]) -> dict[str, float]:
    """Without what the clock says."""
    return {key: value for key, value in values.items() if key != _CLOCK}


def undisturbed(run: Run) -> TrialResult:
    """The same config, trained here from beginning to end."""
    return _trained(json.dumps(config_of(run), sort_keys=True))


def config_of(run: Run) -> dict[str, Any]:
    """All that decides its numbers."""
    config = json.loads(run.data.tags[names.CONFIG])
    return {key: value for key, value in config.items() if key not in _NOT_CONFIG}


@cache
def _trained(config: str) -> TrialResult:
    return tune_mtl.train(slow.problem(), json.loads(config))


def story(search: Search) -> dict[str, Any]:
    """What an exact resume must give again: configs, outcomes and numbers of all trials, and the best."""
    records = Records(search)
    best = tune_mtl.best(search.asked.name, tracking_uri=search.server.uri)
    return {
        "best": (best.trial_id, best.value),
        "trials": {
            run.data.tags[names.TRIAL_ID]: {
                "config": config_of(run),
                "replicate": run.data.tags[names.REPLICATE],
                "outcome": run.data.tags.get(names.OUTCOME),
                "metrics": {
                    key: points
                    for key, points in sorted(records._values[run.info.run_id].items())
                    if key != _CLOCK and not key.startswith("memory/")
                },
            }
            for run in sorted(records.trials, key=lambda run: str(run.data.tags[names.TRIAL_ID]))
        },
    }
