"""How long a reproduction takes, before it starts: from a few mini-batches of every strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

from tune_mtl.experiment.planning.cost import measure
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.planning.summary import duration
from tune_mtl.results.accepted import controlled_tunings


@dataclass(frozen=True)
class Estimate:
    """What one search takes at most.

    Attributes:
        name: The name of the search.
        trials: The number of its trials.
        reruns: The number of runs that confirm, without controls.
        seconds: Seconds by the clock of this machine, if nothing else runs on it; 0 of a search that is finished.
        state: What is known of it: not begun, interrupted, ...
    """

    name: str
    trials: int
    reruns: int
    seconds: float
    state: str

    @property
    def row(self) -> tuple[str, ...]:
        """The search in words, for a table."""
        return self.name, self.state, str(self.trials), str(self.reruns), duration(self.seconds)


def estimate(plan: Plan, state: str, *, finished: bool) -> Estimate:
    """Return what the search of ``plan`` takes at most; the slowest group count is assumed wherever one is chosen."""
    reruns = plan.settings.confirm * len(plan.space.strategies) * plan.replicates
    if finished:
        return Estimate(plan.settings.name, plan.total, reruns, 0.0, state)
    measured = measure(plan, timed=True)
    at_once = min(plan.settings.concurrency or plan.slots, plan.total)
    slowest = measured.seconds_per_trial
    confirming = plan.settings.confirm * plan.replicates * sum(measured.seconds.values())
    # a control has at most as many updates as the slowest choice, so it takes about as long where a pass costs the same
    controls = controlled_tunings(plan.settings.controls, plan.replicates) * (len(plan.space.strategies) - 1) * slowest
    seconds = max(measured.spent / at_once, slowest) + max((confirming + controls) / at_once, slowest)
    return Estimate(plan.settings.name, plan.total, reruns, seconds, state)


def total_text(found: Sequence[Estimate]) -> str:
    """Return the whole in a sentence."""
    seconds = sum(one.seconds for one in found)
    return (
        f"About {duration(seconds)} in all on this machine if nothing else runs on it, extrapolated from a few small"
        " mini-batches: take it as an order of magnitude."
    )
