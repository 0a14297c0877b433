"""What a search says of itself in MLflow, until a report says more."""

from collections.abc import Mapping
from typing import Any

from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.thawing import pauses
from tune_mtl.results.best_trial import BestTrial


def asked_params(plan: Plan) -> dict[str, Any]:
    """Return what a search was asked for, as parameters of its run; what may grow later is not among them."""
    settings = plan.settings
    given = {
        "problem": settings.problem,
        "strategies": ", ".join(plan.space.strategies),
        "objective": str(plan.objective),
        "space": plan.space.name,
        "algorithm": settings.algorithm,
        "scheduler": settings.scheduler,
        "judge": settings.judge,
        "balance": settings.balance,
        "budget": str(plan.budget),
        "first_seed": settings.seed,
        "fresh_seeds": settings.confirm,
        "warm_start": settings.warm_start,
    }
    return {key: value for key, value in given.items() if value is not None}


def at_start(plan: Plan) -> list[str]:
    """Return what is said while the trials run."""
    tunings = "" if plan.replicates == 1 else f" in {plan.replicates} tunings of every strategy"
    most = "at most " if pauses(plan) else ""
    return ["The search is running: there is no answer yet.", f"It tries {most}{plan.total} trials{tunings}."]


def at_end(plan: Plan, winners: Mapping[str, BestTrial], *, complete: bool) -> list[str]:
    """Return what is said when the trials have ended, or were interrupted."""
    name = plan.settings.name
    listed = ", ".join(f"{strategy} {trial.value:.4g}" for strategy, trial in winners.items())
    found = f"Best {plan.objective.metric} of a trial: {listed}." if listed else "No trial has ended well."
    if not complete:
        return ["The search was interrupted.", found, f"`tune-mtl resume {name}` goes on where it stopped."]
    return ["All trials have ended.", found, f"`tune-mtl report {name}` says what that means."]
