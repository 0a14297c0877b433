"""What confirms a search: which configs are trained again, on which seeds, and why."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher

from trainables.base import TRIAL
from tune_mtl.report.evidence import Evidence, shares_trunk
from tune_mtl.searching.plan import Plan, mini_batches_per_epoch
from tune_mtl.tracking import names
from tune_mtl.training.checkpoint import write_json
from tune_mtl.training.config import Config, resolve


@dataclass(frozen=True)
class Rerun:
    """A config to train in full, and why."""

    role: str
    config: Mapping[str, Any]

    @property
    def trial_id(self) -> str:
        """Says what it is, and is the same whenever it is planned."""
        return names.rerun_id(self.role, self.config["strategy"], self.config["seed"])


def fresh_seeds(evidence: Evidence, count: int) -> list[int]:
    """Seeds that no trial of the search has seen: the first ones above its largest."""
    used = [int(run.config["seed"]) for run in evidence.trials]
    return [max(used, default=-1) + 1 + index for index in range(count)]


def plan_reruns(plan: Plan, evidence: Evidence, count: int) -> list[Rerun]:
    """The winner of each strategy on fresh seeds, what it does with as many updates as the others, and its path.

    The control of equal updates is for winners that take fewer than the one that takes most; single-task networks
    share no updates, and have none. Paths are compared at one learning rate: who won at another is trained at it too,
    unless the search was a whole grid and has those runs.
    """
    winners = [best.config for best in evidence.winners.values()]
    most = max((_updates(plan, config) for config in winners if shares_trunk(config["strategy"])), default=0)
    reruns = []
    for seed in fresh_seeds(evidence, count):
        for config in winners:
            again = {**config, "seed": seed}
            reruns.append(Rerun(names.CONFIRM, again))
            if not shares_trunk(config["strategy"]):
                continue
            if plan.settings.budget == "epochs" and _updates(plan, config) < most:
                passes = math.ceil(most / mini_batches_per_epoch(plan.problem, _resolved(plan, config)))
                reruns.append(Rerun(names.EQUAL_UPDATES, {**again, "max_updates": most, "epochs": passes}))
            if not evidence.grid_has_paths and config["lr"] != evidence.common_lr:
                reruns.append(Rerun(names.COMMON_PATH, {**again, "lr": evidence.common_lr}))
    return sorted(reruns, key=lambda rerun: (names.CONFIRM, names.EQUAL_UPDATES, names.COMMON_PATH).index(rerun.role))


def _resolved(plan: Plan, config: Mapping[str, Any]) -> Config:
    return resolve(plan.problem, config, plan.settings.problem)


def _updates(plan: Plan, config: Mapping[str, Any]) -> int:
    """The optimizer steps of a whole run."""
    resolved, tasks = _resolved(plan, config), len(plan.problem.tasks)
    per_epoch = mini_batches_per_epoch(plan.problem, resolved)
    return resolved.mini_batches(per_epoch, tasks) * resolved.updates_per_batch(tasks)


class Listed(Searcher):
    """Suggests the configs of a list, once each, in its order."""

    def __init__(self, reruns: Sequence[Rerun]) -> None:
        super().__init__()
        self._waiting = [{**rerun.config, TRIAL: rerun.trial_id} for rerun in reruns]

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """The next one."""
        return self._waiting.pop(0) if self._waiting else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A list learns nothing."""

    def save(self, checkpoint_path: str) -> None:
        """What is left, for a resume."""
        write_json(Path(checkpoint_path), self._waiting)

    def restore(self, checkpoint_path: str) -> None:
        """Go on with what was left."""
        self._waiting = json.loads(Path(checkpoint_path).read_text())
