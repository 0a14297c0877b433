"""The MLflow schema: every experiment, tag and metric name has its one home here."""

from collections.abc import Mapping
from typing import Any

PREFIX = "tune-mtl/"

SEARCH = "tune_mtl.search"
TRIAL_ID = "tune_mtl.trial_id"
KIND = "tune_mtl.kind"
REPLICATE = "tune_mtl.replicate"
OUTCOME = "tune_mtl.outcome"
CONFIG = "tune_mtl.config"
OBJECTIVE = "tune_mtl.objective"
RANKED_BY = "tune_mtl.ranked_by"
SETTINGS = "tune_mtl.settings"
BEST_RUN = "tune_mtl.best_run"
WINNERS = "tune_mtl.winners"
PROBLEM = "tune_mtl.problem"
ROLE = "tune_mtl.role"
COMMON_LR = "tune_mtl.common_lr"
CONFIRMATION = "tune_mtl.confirmation"
CROSSING = "tune_mtl.factorial"
STATES = {"confirm": CONFIRMATION, "factorial": CROSSING}
"""By kind of runs that follow a search, the tag of the search's run that says whether all of them have ended."""
WINNER = "tune_mtl.winner"
CONTINUES = "tune_mtl.continues"
"""The run whose epochs a longer one of the same config has taken over; it has them among its own."""
PARENT = "mlflow.parentRunId"
RUN_NAME = "mlflow.runName"
NOTE = "mlflow.note.content"
REASON = "tune_mtl.reason"

JOURNALS = "tracking"
"""The folder of journals, beside a search: one for each kind of runs."""

SETTINGS_FILE = "search.json"
"""A search's settings: in its folder, and an artifact of its run."""

SPACE_FILE = "space.yaml"
"""The space of a search that was a file or an object, in its folder: the command that repeats it reads it there."""

SNAPSHOT = "snapshot.zip"
"""The saved state of a search, in its folder: what a resume goes on from."""

DIAGNOSIS_FILE = "diagnosis.json"
"""The cosines between the tasks' gradients by epoch, an artifact of a trial that was diagnosed."""

FACTS_FILE = "problem.json"
"""What a report has to know of the problem, an artifact of the search's run."""

REFERENCES_FILE = "references.json"
"""The reference losses that a search's trials are judged with, in its folder."""

CONFIRM, EQUAL_UPDATES, COMMON_PATH = "confirm", "equal_updates", "path"
"""Why a config is trained again: on fresh seeds; with as many updates as the one that takes most; for its path at the
learning rate that all share."""

FACTORIAL = "factorial"
"""Why a config is trained on every pair of a draw of groups and a seed: to tell the luck of one from that of the other.
Such runs are of a kind of their own, and never ranked."""

KINDS = ("trial", "confirm", FACTORIAL)
"""The kinds of runs under a search's run."""

BY_MEAN, BY_TRIAL = "mean over seeds", "single trials"
"""What ``tune_mtl.ranked_by`` says of a search: of a grid, and of one that chooses its configs."""

NOW, BEST_SO_FAR = "Objective/now", "Objective/best so far"
"""The objective of a trial at each epoch, under names that come first on the page of its charts."""
PER_EPOCH = (
    "train/", "val/", "path/total", "path/from_start", "path/layer/", "updates", "seconds", "diagnosis/",
)  # fmt: skip
ONCE = ("best/", "path/best_", "memory/", "groups/", "test/")


def experiment_name(problem: str) -> str:
    """``tune-mtl/<problem>``; a user's ``module:attribute`` as it is."""
    return PREFIX + problem


def best_metric(metric: str) -> str:
    """Return the name of a validation metric's value at the trial's best epoch."""
    return f"best/{metric}"


def per_epoch(result: Mapping[str, Any]) -> dict[str, float]:
    """Return what of a result is logged at its epoch."""
    return _numbers(result, PER_EPOCH)


def once(result: Mapping[str, Any]) -> dict[str, float]:
    """Return what of a result is said once of the whole trial."""
    return _numbers(result, ONCE)


def rerun_id(role: str, strategy: str, seed: int) -> str:
    """Return the trial id of a run that confirms; it begins with its role."""
    return f"{role}-{strategy}-{seed}"


def factorial_id(strategy: str, groups: int, groups_seed: int, seed: int) -> str:
    """Return the trial id of a run of a draw of groups, crossed with a seed; it begins with its role."""
    return f"{FACTORIAL}-{strategy}-{groups}-{groups_seed}x{seed}"


def role_of(trial_id: str) -> str:
    """Return the role of a run that confirms, from its trial id."""
    return trial_id.partition("-")[0]


def _numbers(result: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in result.items()
        if name.startswith(prefixes) and isinstance(value, int | float) and value == value
    }
