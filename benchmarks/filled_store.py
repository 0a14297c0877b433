"""A tracking store as full as the records of a search would make it, in seconds: by SQL instead of call by call."""

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag

from tune_mtl.tracking import names

_ROWS_AT_ONCE = 100_000


class FilledStore:
    """Takes what a ``SearchRuns`` would be told of trials.

    Args:
        uri: The store, where the search's run ``parent`` is already.
        search: Its name.
    """

    def __init__(self, uri: str, search: str, parent: str) -> None:
        self._search, self._parent = search, parent
        self._engine = sqlalchemy.create_engine(uri)
        with self._engine.begin() as connection:
            asked = sqlalchemy.select(SqlRun.experiment_id, SqlRun.artifact_uri).where(SqlRun.run_uuid == parent)
            self._experiment, self._artifacts = connection.execute(asked).one()
        self._rows: dict[Any, list[dict[str, Any]]] = {
            table: [] for table in (SqlRun, SqlTag, SqlParam, SqlMetric, SqlLatestMetric)
        }
        self._open: dict[str, dict[str, Any]] = {}
        self._latest: dict[str, dict[str, dict[str, Any]]] = {}

    def take(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Everything that ``records`` tell of trials that have ended."""
        calls = {"open": self._start, "log": self._log, "end": self._end}
        for record in records:
            calls[record["call"]](**record["arguments"])
            if len(self._rows[SqlMetric]) >= _ROWS_AT_ONCE:
                self._write()
        self._write()
        self._engine.dispose()

    def _write(self) -> None:
        with self._engine.begin() as connection:
            for table, rows in self._rows.items():
                if rows:
                    connection.execute(sqlalchemy.insert(table), rows)
                    rows.clear()

    def _start(self, trial: str, config: Mapping[str, Any], varied: Mapping[str, Any], at: int) -> None:
        run, label = uuid.uuid4().hex, f"{trial} {config['strategy']}"
        self._open[trial] = {
            "run_uuid": run,
            "name": label,
            "user_id": "somebody",
            "start_time": at,
            "lifecycle_stage": "active",
            "experiment_id": self._experiment,
            "artifact_uri": self._artifacts.replace(self._parent, run),
        }
        self._latest[trial] = {}
        tags = {
            names.SEARCH: self._search,
            names.KIND: "trial",
            names.TRIAL_ID: trial,
            names.CONFIG: json.dumps(dict(config), sort_keys=True),
            names.PARENT: self._parent,
            names.RUN_NAME: label,
        }
        self._tag(run, tags)
        self._rows[SqlParam] += [{"key": key, "value": str(value), "run_uuid": run} for key, value in varied.items()]

    def _tag(self, run: str, tags: Mapping[str, str]) -> None:
        self._rows[SqlTag] += [{"key": key, "value": value, "run_uuid": run} for key, value in tags.items()]

    def _log(self, trial: str, epoch: int, values: Mapping[str, float], at: int, **_: Any) -> None:
        run = self._open[trial]["run_uuid"]
        rows = {
            key: {"key": key, "value": value, "timestamp": at, "step": epoch, "is_nan": False, "run_uuid": run}
            for key, value in values.items()
        }
        self._rows[SqlMetric] += rows.values()
        self._latest[trial] |= rows

    def _end(
        self, trial: str, outcome: str, values: Mapping[str, float], tags: Mapping[str, str], at: int, **_: Any
    ) -> None:
        self._log(trial, 0, values, at)
        run = self._open.pop(trial)
        self._tag(run["run_uuid"], {**tags, names.OUTCOME: outcome})
        self._rows[SqlRun].append({**run, "status": "FINISHED", "end_time": at})
        self._rows[SqlLatestMetric] += self._latest.pop(trial).values()
