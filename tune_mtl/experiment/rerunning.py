"""Configs of a finished search, trained again on a Ray that runs: what is there already is not run again."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainables.keys import CONTINUES
from tune_mtl.core.outcome import Outcome
from tune_mtl.core.process.signals import postponed
from tune_mtl.experiment.formats import check_format
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.reruns import Rerun
from tune_mtl.experiment.running import followers, tracker, workload
from tune_mtl.experiment.scheduling import make_whole_loop
from tune_mtl.ray_tune.listed import Listed
from tune_mtl.ray_tune.trials import Ending, Trials, trial_folder
from tune_mtl.results.search_data import Trained
from tune_mtl.results.searches import trials
from tune_mtl.tracking.tracker import Tracker


@dataclass(frozen=True)
class Again:
    """Which configs are trained again, as runs of which kind.

    Attributes:
        kind: One of ``names.KINDS``, but no trial of the search.
        title: Is shown while they run.
        strategies: Whose configs they are.
        reruns: All of them, those that are there already too.
        known: The runs of this kind that are there.
        tags: What the search's run says once all have ended.
        kept: The runs whose checkpoints stay, for longer ones that follow; nothing is complete before those.
    """

    kind: str
    title: str
    strategies: Sequence[str]
    reruns: Sequence[Rerun]
    known: Sequence[Trained]
    tags: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] | None = None


def train_again(plan: Plan, again: Again) -> bool:
    """Train what is not there yet, in full, and test it; an interrupted one goes on. Returns whether all have ended."""
    final = (Outcome.COMPLETED, Outcome.DIVERGED)
    ended = {run.trial_id: dict(run.config) for run in again.known if run.outcome in final}
    due = [rerun for rerun in again.reruns if ended.get(rerun.trial_id) != dict(rerun.config)]
    planned = json.dumps([(rerun.trial_id, dict(rerun.config)) for rerun in again.reruns], sort_keys=True)
    folder = plan.folder / f"{again.kind}-{hashlib.sha256(planned.encode()).hexdigest()[:8]}"
    if not due:
        return _record(plan, tracker(plan, again.kind), again, lambda: Ending(complete=True))
    begun = Trials.exist(folder)
    if begun:
        check_format(plan.settings.name, plan.settings.public())
    follow = followers(plan, again.kind, again.title, list(again.strategies), len(due))
    follow.tracker.kept = again.kept or frozenset()
    work = workload(plan, test=True)
    if begun:
        running = Trials.restore(folder, work, follow, retry=True)
    else:
        loop = make_whole_loop(plan)
        suggestions = [rerun.suggestion | _begun(plan, again.kind, rerun.continues) for rerun in due]
        running = Trials.make(folder, work, Listed(suggestions), loop, follow)
    done = _record(plan, running.tracker, again, running.run)
    if done:
        running.tidy()
    return done


def _record(plan: Plan, records: Tracker, again: Again, run: Callable[[], Ending]) -> bool:
    """Have ``run`` tracked; returns whether all runs have ended."""
    records.open({}, {})
    ending = run()
    with postponed():
        records.flush()
        table = trials(plan.settings.name, tracking_uri=plan.tracking_uri, kind=again.kind)
        records.close(complete=ending.complete and again.kept is None, tags=again.tags, table=table)
    ending.raise_failure()
    return ending.complete


def _begun(plan: Plan, kind: str, run: str | None) -> dict[str, Any]:
    """Return what tells a longer run where the checkpoints of the shorter ``run`` are; empty where there are none."""
    found = [] if run is None else sorted(plan.folder.glob(f"{kind}-*/{trial_folder(run)}/checkpoint_*"), key=_written)
    return {CONTINUES: {"run": run, "folder": str(found[-1].parent)}} if found else {}


def _written(folder: Path) -> float:
    return folder.stat().st_mtime


def forget_checkpoints(plan: Plan, kind: str) -> None:
    """Remove the checkpoints that stayed for longer runs, when no such run follows."""
    for folder in plan.folder.glob(f"{kind}-*/trial_*/checkpoint_*"):
        shutil.rmtree(folder, ignore_errors=True)
