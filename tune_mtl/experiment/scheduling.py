"""Who decides how long trials train: a plan's scheduler."""

from trainables.keys import judged
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.thawing import make_policy, pauses
from tune_mtl.ray_tune.halving import FairHalving
from tune_mtl.ray_tune.loop import TrialLoop
from tune_mtl.ray_tune.slots import Slots
from tune_mtl.ray_tune.thaw.conductor import Conductor
from tune_mtl.ray_tune.thawing import Thawing, ThawLoop


def make_loop(plan: Plan) -> TrialLoop:
    """Return the loop of a plan's trials, with who decides about them."""
    settings, budget = plan.settings, plan.budget
    by = judged(settings.judge or "last", plan.objective.metric)
    if pauses(plan):
        judge = Thawing(Conductor(make_policy(plan)), plan.objective, counts=budget.counts, judged=by)
        return ThawLoop(judge, _slots(plan), settings.time_budget)
    halving = FairHalving(
        plan.space.strategies if settings.scheduler == "asha" else None,
        plan.objective,
        counts=budget.counts,
        judged=by,
        length=budget.length,
        grace=budget.grace,
        balanced=settings.balance == "strategy",
    )
    return TrialLoop(halving, settings.time_budget, slots=_slots(plan))


def make_whole_loop(plan: Plan) -> TrialLoop:
    """Return a loop in which nobody is stopped early, and no time is up."""
    return TrialLoop(FairHalving.nobody(plan.objective), slots=_slots(plan))


def _slots(plan: Plan) -> Slots:
    settings = plan.settings
    return Slots(settings.concurrency, settings.cpus_per_trial, settings.gpus_per_trial)
