"""A plan in words: what a search would run, how long that takes and what it keeps on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Dimension, IntRange
from search_spaces.conditions import owner_of
from tune_mtl.experiment.planning.cost import measure
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.thawing import pauses, share


@dataclass(frozen=True)
class PlanSummary:
    """What a person reads of a plan.

    Attributes:
        title: The title of the table.
        header: The header of the table.
        rows: One per strategy.
        text: What follows the table.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    text: str


def summarise(plan: Plan) -> PlanSummary:
    """Return what a search would run, with its cost extrapolated from a few mini-batches."""
    settings, measured = plan.settings, measure(plan, timed=True)
    grid = settings.algorithm == "grid"
    rows = []
    for strategy in plan.space.strategies:
        tried = plan.space.of(strategy)
        dimensions = "; ".join(
            f"{name}{_condition(name, tried)}: {_dimension(dimension, grid=grid)}" for name, dimension in tried.items()
        )
        rows.append((strategy, dimensions, duration(measured.seconds[strategy])))
    at_once = settings.concurrency or plan.slots
    seconds = max(measured.spent / min(at_once, plan.total), measured.seconds_per_trial)
    stopped = "; early stopping saves on it" if settings.scheduler == "asha" else ""
    paused = f", together {share(plan):.0%} of their length" if pauses(plan) else ""
    left_out = "".join(f"left out: {reason}\n" for reason in plan.left_out.values())
    text = (
        f"{left_out}{plan.total} trials{_tunings(plan)} of at most {plan.budget}{paused} by {plan.objective},"
        f" algorithm {settings.algorithm}, scheduler {settings.scheduler}, balance {settings.balance}.\n"
        f"{_protocol(plan)}"
        f"At most about {duration(seconds)} with {at_once} at once on machines like this one"
        f" ({duration(measured.seconds_per_trial)} for the slowest trial{stopped}),"
        f" {measured.disk / 2**20:.0f} MiB on disk in {plan.storage}.\n"
        f"{measured.how}\n"
        f"{_after(plan)}Nothing was started."
    )
    title = f"search '{settings.name}' on {settings.problem}, space {plan.space.name}"
    return PlanSummary(title, ("strategy", "tried" if grid else "searched", "longest trial"), rows, text)


def _protocol(plan: Plan) -> str:
    """Return the seeds, the batch sizes, and which data decide."""
    seeds = ", ".join(str(seed) for seed in plan.seeds.values())
    sizes = []
    for key in ("batch_size", "eval_batch_size"):
        tried = plan.space.dimensions.get(key)
        grid = plan.settings.algorithm == "grid"
        sizes.append(str(plan.constant.get(key)) if tried is None else _dimension(tried, grid=grid))
    said = f"Seed{'s' if len(plan.seeds) > 1 else ''} {seeds}; batch size {sizes[0]}, {sizes[1]} in evaluation.\n"
    protocol = plan.problem.protocol_text
    return said if protocol is None else f"{said}Protocol {protocol}.\n"


def _tunings(plan: Plan) -> str:
    """Return how the trials are shared out."""
    return "" if plan.replicates == 1 else f" ({plan.replicates} tunings of every strategy)"


def _after(plan: Plan) -> str:
    """Return what follows the trials."""
    seeds = plan.settings.confirm
    if not seeds:
        return ""
    at_least = seeds * len(plan.space.strategies) * plan.replicates
    each = "" if plan.replicates == 1 else " of each of its tunings"
    grows = " More replicates follow until the strategies are told apart." if plan.settings.replicates == "auto" else ""
    return (
        f"Then the choice of each strategy{each} on {seeds} fresh seed{'s' if seeds > 1 else ''}: {at_least} whole"
        f" runs, and controls.{grows}\n"
    )


def _condition(name: str, dimensions: Mapping[str, Dimension]) -> str:
    """Return which trials have an option, where not all have."""
    owned = owner_of(name)
    if owned is None or owned[0] not in dimensions or len(dimensions[owned[0]].points()) == 1:
        return ""
    return f" (with {owned[1]})"


def _dimension(dimension: Dimension, *, grid: bool) -> str:
    """Return every value that a grid tries, or what a guided search may choose from."""
    values = dimension.points() if grid else getattr(dimension, "values", None)
    if values is not None:
        return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    log = isinstance(dimension, IntRange) and dimension.log
    return f"{dimension.low:g} to {dimension.high:g}{', log scale' if log else ''}"  # type: ignore[union-attr]


def duration(seconds: float) -> str:
    """Return a length of time in the unit that people would choose."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:.0f} days" if days < 730 else f"{days / 365:.0f} years"
