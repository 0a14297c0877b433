"""Trials that are paused and thawed, as a plan has them: who decides, and what that may cost."""

import math
from collections import Counter

from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.ray_tune.thaw.conductor import KEPT
from tune_mtl.ray_tune.thaw.policy import Tuning
from tune_mtl.ray_tune.thaw.thaw import Thaw
from tune_mtl.ray_tune.turns import ANY


def pauses(plan: Plan) -> bool:
    """Return whether trials are paused and thawed."""
    return plan.settings.scheduler == "thaw"


def make_policy(plan: Plan) -> Thaw:
    """Return who decides which trial gets the next epochs.

    A sampler that somebody asked for by name suggests all configs; else most are proposed by the policy's own model.
    """
    return Thaw(
        plan.space,
        plan.objective,
        length=plan.budget.length,
        step=plan.budget.grace,
        seed=plan.settings.seed,
        trials=_trials_of(plan),
        proposes=plan.settings.algorithm == "optuna",
    )


def share(plan: Plan) -> float:
    """Return which part of training all trials in full may be spent."""
    if not pauses(plan):
        return 1.0
    policy = make_policy(plan)
    spent = math.fsum(policy.budget(tuning) for tuning in _trials_of(plan))
    return min(1.0, spent / (plan.total * plan.budget.length))


def evaluations(plan: Plan) -> int | None:
    """Return about how many evaluations a search of trials that pause takes; None for others."""
    if not pauses(plan):
        return None
    config = plan.first_config(plan.space.strategies[0])
    return math.ceil(share(plan) * plan.total * config.epochs / config.evaluate_every)


def kept_paused(plan: Plan) -> int:
    """Return of how many paused trials checkpoints are kept at most: replicates come one after the other."""
    if not pauses(plan):
        return 0
    trials = _trials_of(plan)
    per_replicate = len({strategy for strategy, _ in trials})
    at_once = plan.settings.concurrency or plan.slots
    under_way = min(plan.replicates, 1 + math.ceil(at_once / per_replicate))
    return per_replicate * under_way * min(KEPT, max(trials.values()))


def _trials_of(plan: Plan) -> Counter[Tuning]:
    """Return how many trials of each tuning begin at most."""
    balanced = plan.settings.balance == "strategy"
    return Counter((turn.strategy if balanced and turn.strategy else ANY, turn.replicate) for turn in plan.turns)
