"""How a search grows: by replicates until it can tell its strategies apart, or by trials that somebody asks for."""

from tune_mtl.core.errors import UserError
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.replication import looks
from tune_mtl.experiment.problem_facts import trials_per_tuning
from tune_mtl.reporting.results import Results
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.settings import Growth, Settings


def next_round(plan: Plan) -> Plan | None:
    """Return the plan with the replicates that are still needed; None where all is decided, or no more are allowed.

    A strategy that is told apart from a better one is not tuned again.
    """
    planned = [size for size in looks(plan.settings) if size > plan.replicates]
    if not planned:
        return None
    results = Results.of(SearchData.read(plan.settings.name, plan.tracking_uri))
    open_ = undecided(results)
    if len(open_) < 2:
        return None
    added = tuple(range(plan.replicates, planned[0]))
    strategies = tuple(name for name in plan.space.strategies if name in open_)
    trials = (trials_per_tuning(plan) or 0) * len(strategies) * len(added)
    growth = Growth(replicates=added, strategies=strategies, trials=trials)
    grown = plan.settings.model_copy(update={"grown": (*plan.settings.grown, growth)})
    return Plan.make(plan.problem, grown)


def undecided(results: Results) -> list[str]:
    """Return the strategies that are not told to be worse than another."""
    sign = results.search.sign
    worse = {one.b if sign * one.difference > 0 else one.a for one in results.comparisons() if one.told_apart}
    return [name for name in results.runs if name not in worse]


def extended(plan: Plan, samples: int) -> Settings:
    """Return the settings of ``plan`` with so many trials more, the same for all tunings.

    Raises:
        UserError: if they cannot be shared out equally, or a grid has no more configs.
    """
    settings, strategies = plan.settings, plan.space.strategies
    if settings.algorithm == "grid":
        grown = settings.model_copy(update={"samples": plan.total + samples, "time_budget": None})
        if Plan.make(plan.problem, grown).total == plan.total:
            raise UserError(
                f"search '{settings.name}' has tried all {plan.total} configs of its grid: there is nothing to add."
            )
        return grown
    if plan.replicates == 1:
        more = [Growth(replicates=(0,), strategies=strategies, trials=samples)]
    else:
        more = _shared_out(plan, samples)
    return settings.model_copy(update={"grown": (*settings.grown, *more), "time_budget": None})


def _shared_out(plan: Plan, samples: int) -> list[Growth]:
    """Return so many trials more, as many for each tuning that there is: who was told to be worse has fewer of them.

    Raises:
        UserError: if they cannot be shared out equally.
    """
    tuned: dict[int, set[str | None]] = {}
    for turn in plan.turns:
        tuned.setdefault(turn.replicate, set()).add(turn.strategy)
    tunings = sum(map(len, tuned.values()))
    if samples % tunings:
        raise UserError(
            f"samples={samples} must be a multiple of {tunings}: one trial more in each of the {tunings} tunings, of"
            f" {len(plan.space.strategies)} strategies in {plan.replicates} replicates."
        )
    found: dict[tuple[str, ...], list[int]] = {}
    for replicate, names in tuned.items():
        found.setdefault(tuple(name for name in plan.space.strategies if name in names), []).append(replicate)
    each = samples // tunings
    return [
        Growth(replicates=tuple(its), strategies=strategies, trials=each * len(its) * len(strategies))
        for strategies, its in found.items()
    ]
