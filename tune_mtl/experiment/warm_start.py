"""A warm start: what an earlier search has found out, for the searcher of a new one."""

import json

from tune_mtl.core.errors import UserError
from tune_mtl.core.outcome import Outcome, is_ranked
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.results.searches import find_search
from tune_mtl.terminal.console import console
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import check_name


def learn_from(earlier: str, plan: Plan, searcher: FairSearcher) -> int:
    """Have ``searcher`` take in the ended trials of search ``earlier`` that are in its space; returns how many.

    A trial counts as complete only if it was trained for as long as those of the new search are to be; else as stopped
    where it was.

    Raises:
        UserError: if there is no such search, it is of another problem, or none of its trials can be used.
    """
    _, store, parent = find_search(check_name(earlier), plan.settings.tracking_uri)
    problem = parent.data.tags.get(names.PROBLEM, "")
    if problem != plan.settings.problem:
        raise UserError(f"--warm-start {earlier} is a search on '{problem}', not on '{plan.settings.problem}'.")
    metric, taken, ended = names.best_metric(plan.objective.metric), 0, 0
    for run in search_runs(store, [parent.info.experiment_id], earlier, "trial"):
        outcome, metrics = run.data.tags.get(names.OUTCOME), run.data.metrics
        if not is_ranked(outcome) and outcome != Outcome.DIVERGED:
            continue
        ended += 1
        reached = metrics.get(plan.budget.counts, 0.0)
        if plan.budget.counts == "epoch" and plan.objective.metric in metrics:
            reached = max(point.step for point in store.get_metric_history(run.info.run_id, plan.objective.metric))
        taken += searcher.learn(
            json.loads(run.data.tags[names.CONFIG]),
            value=None if outcome == Outcome.DIVERGED else metrics.get(metric),
            reached=reached,
            whole=reached >= plan.budget.length,
        )
    if not taken:
        raise UserError(
            f"--warm-start {earlier}: none of its {ended} ended trials is of this search's space and settings"
            f" ({plan.space.name}, {plan.objective}). Leave it out, or search as it did."
        )
    console().print(f"warm start: {taken} of {ended} trials of search '{earlier}' are taken in", soft_wrap=True)
    return taken
