"""A search with very many trials, put into a store by SQL: as ``SearchRuns`` would record them one by one."""

import json
import random
import uuid
from typing import Any

import sqlalchemy
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag

from tune_mtl.core.outcome import RANKED
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import SearchRuns

PROBLEM, OBJECTIVE = "toy", "val/loss:min"
STRATEGIES = ("sus", "ius", "io")
_METRICS = ("train/loss", "val/loss", "path/total", "path/from_start", "updates", "seconds")
_ONCE = ("best/epoch", "best/val/loss", "path/best_total", "path/best_shortest", "path/best_ratio")
_TAGS = {f"tune_mtl.{name}": "1.2.3" for name in ("torch", "ray", "python", "device", "data", "version")}


def fill(uri: str, search: str, trials: int, *, epochs: int = 2, seed: int = 0) -> None:
    """Make search ``search`` with ``trials`` finished trials.

    The last one is recorded by ``SearchRuns`` itself, which looks at all the others and keeps who is best.
    """
    parent = SearchRuns(uri, PROBLEM, search).open_search({names.OBJECTIVE: OBJECTIVE, names.PROBLEM: PROBLEM}, {})
    draw = random.Random(seed)
    rows: dict[Any, list[dict[str, Any]]] = {SqlRun: [], SqlTag: [], SqlParam: [], SqlMetric: [], SqlLatestMetric: []}
    engine = sqlalchemy.create_engine(uri)
    with engine.begin() as connection:
        experiment, artifacts = connection.execute(
            sqlalchemy.select(SqlRun.experiment_id, SqlRun.artifact_uri).where(SqlRun.run_uuid == parent)
        ).one()
        for ordinal in range(trials - 1):
            _add(rows, f"{ordinal:05d}", search, parent, experiment, artifacts, epochs, draw)
        for table, values in rows.items():
            if values:
                connection.execute(sqlalchemy.insert(table), values)
    engine.dispose()
    runs = SearchRuns(uri, PROBLEM, search)
    runs.open_search({names.OBJECTIVE: OBJECTIVE}, {})
    last, config = f"{trials - 1:05d}", _config(trials - 1, draw)
    runs.open_trial(last, config, {"lr": config["lr"]})
    runs.log(last, 1, {"train/loss": 1.0, "val/loss": 1.0})
    runs.close_trial(last, "completed", {names.best_metric("val/loss"): 0.5 + draw.random()}, {}, {})


def _config(ordinal: int, draw: random.Random) -> dict[str, Any]:
    config = {"problem": PROBLEM, "strategy": STRATEGIES[ordinal % 3], "lr": 10 ** draw.uniform(-5, -1), "seed": 0}
    return config | {"epochs": 12, "batch_size": 64, "optimizer": "adam", "threads": 1}


def _add(
    rows: dict[Any, list[dict[str, Any]]],
    trial: str,
    search: str,
    parent: str,
    experiment: int,
    artifacts: str,
    epochs: int,
    draw: random.Random,
) -> None:
    run, at, config = uuid.uuid4().hex, 1_700_000_000_000 + int(trial), _config(int(trial), draw)
    outcome = draw.choices(("completed", "stopped_early", "diverged", "failed"), (4, 4, 1, 1))[0]
    rows[SqlRun].append(
        {
            "run_uuid": run,
            "name": f"{trial} {config['strategy']}",
            "user_id": "somebody",
            "status": "FAILED" if outcome == "failed" else "FINISHED",
            "start_time": at,
            "end_time": at + 1,
            "lifecycle_stage": "active",
            "experiment_id": experiment,
            "artifact_uri": artifacts.replace(parent, run),
        }
    )
    tags = {
        names.SEARCH: search,
        names.KIND: "trial",
        names.TRIAL_ID: trial,
        names.CONFIG: json.dumps(config, sort_keys=True),
        names.PARENT: parent,
        names.RUN_NAME: f"{trial} {config['strategy']}",
        names.OUTCOME: outcome,
        **_TAGS,
    }
    rows[SqlTag] += [{"key": key, "value": value, "run_uuid": run} for key, value in tags.items()]
    varied = ("strategy", "lr", "seed")
    rows[SqlParam] += [{"key": key, "value": str(config[key]), "run_uuid": run} for key in varied]
    for step in range(1, epochs + 1):
        values = [_metric(name, draw.random(), step, at, run) for name in _METRICS]
        rows[SqlMetric] += values
    rows[SqlLatestMetric] += values
    if outcome in RANKED:
        once = [_metric(name, 0.5 + draw.random(), 0, at, run) for name in _ONCE]
        rows[SqlMetric] += once
        rows[SqlLatestMetric] += once


def _metric(name: str, value: float, step: int, at: int, run: str) -> dict[str, Any]:
    return {"key": name, "value": value, "timestamp": at, "step": step, "is_nan": False, "run_uuid": run}
