"""The MLflow schema: every experiment, tag and metric name has its one home here."""

from collections.abc import Mapping
from typing import Any

PREFIX = "tune-mtl/"

SEARCH = "tune_mtl.search"
TRIAL_ID = "tune_mtl.trial_id"
KIND = "tune_mtl.kind"
OUTCOME = "tune_mtl.outcome"
CONFIG = "tune_mtl.config"
OBJECTIVE = "tune_mtl.objective"
SETTINGS = "tune_mtl.settings"
BEST_RUN = "tune_mtl.best_run"
PROBLEM = "tune_mtl.problem"
PARENT = "mlflow.parentRunId"
RUN_NAME = "mlflow.runName"
NOTE = "mlflow.note.content"

RANKED = ("completed", "stopped_early")
"""The outcomes that can win."""

BEST_WEIGHTS = "best.pt"
PER_EPOCH = ("train/", "val/", "path/total", "path/from_start", "updates", "seconds")
ONCE = ("best/", "path/best_")


def experiment_name(problem: str) -> str:
    """``tune-mtl/<problem>``; a user's ``module:attribute`` as it is."""
    return PREFIX + problem


def best_metric(metric: str) -> str:
    """The value of a validation metric at the trial's best epoch."""
    return f"best/{metric}"


def per_epoch(result: Mapping[str, Any]) -> dict[str, float]:
    """What of a result is logged at its epoch."""
    return _numbers(result, PER_EPOCH)


def once(result: Mapping[str, Any]) -> dict[str, float]:
    """What of a result is said once of the whole trial."""
    return _numbers(result, ONCE)


def _numbers(result: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in result.items()
        if name.startswith(prefixes) and isinstance(value, int | float) and value == value
    }
