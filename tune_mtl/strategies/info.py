"""What a strategy's record says."""

from dataclasses import dataclass

from tune_mtl.core.options import Options

PAPER = "Pascal et al., Improved optimization strategies for deep Multi-Task Networks"


class NoOptions(Options):
    """The options of a strategy that has none of its own."""


@dataclass(frozen=True, kw_only=True)
class StrategyInfo:
    """What there is to know about a strategy without running it.

    Costs are per mini-batch, with N tasks in G groups: passes through the trunk, and memory besides that of SUS.

    Attributes:
        name: In configs, flags and MLflow.
        title: For people.
        rule: What one mini-batch does, in a line.
        options: The record of its own options, ``<name>_<option>`` in a config.
        family: Which section of the documentation it belongs to.
        has_groups: Whether ``groups`` is one of its settings (default: one group per task).
        shares_trunk: Whether tasks share weights; path statistics exist only then.
        forwards, backwards: Passes through the trunk.
        updates: Steps of the optimizers; of strategies that regroup, at first.
        joined_by: The option with which there is one step instead.
        states: Optimizer states over the trunk.
        memory: What it holds besides weights, gradients and optimizer states.
        differs_from_sus: Why a single task is not trained as SUS trains it; empty where it is.
        needs_tasks: The fewest tasks it works with.
        needs_convolutions: Whether it works on the channels of trunk convolutions only.
        compiles: Whether the trunk may be compiled.
        extra: The extra of this package that installs what it needs besides.
        reference: Where it comes from.
    """

    name: str
    title: str
    rule: str
    options: type[Options] = NoOptions
    family: str = "paper"
    has_groups: bool = False
    shares_trunk: bool = True
    forwards: str = "1"
    backwards: str = "1"
    updates: str = "1"
    joined_by: str | None = None
    states: str = "1"
    memory: str = "-"
    differs_from_sus: str = ""
    needs_tasks: int = 1
    needs_convolutions: bool = False
    compiles: bool = True
    extra: str | None = None
    reference: str = PAPER

    @property
    def reduces_to_sus(self) -> bool:
        """Return whether with one task it takes the same steps as SUS."""
        return not self.differs_from_sus


def count(formula: str, tasks: int, groups: int) -> int:
    """Return ``1``, ``N``, ``G`` or ``G + 1`` as a number; what follows a comma is left out."""
    first, _, more = formula.partition(",")[0].partition(" + ")
    return int({"N": tasks, "G": groups}.get(first, first)) + int(more or 0)
