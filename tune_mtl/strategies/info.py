"""What a strategy's record says."""

import re
from dataclasses import dataclass, replace

from tune_mtl.core.options import Options

PAPER = "Pascal et al., Improved optimization strategies for deep Multi-Task Networks"
"""The reference of what the paper itself proposes."""


NOT_COMPILED = "checkpoint_trunk cannot be used with compile, which plans memory itself: drop one of them."
"""Why a trunk is not both."""

FACTS = ("backwards", "memory")
"""What a :class:`Variant` can change."""


class NoOptions(Options):
    """The options of a strategy that has none of its own."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What a strategy costs where one of its options is not at its default; None is what its record says anyway.

    Attributes:
        option: The option's name.
        value: The option's value for which this holds.
        backwards, memory: As in the record.
    """

    option: str
    value: object
    backwards: str | None = None
    memory: str | None = None


@dataclass(frozen=True, kw_only=True)
class StrategyInfo:
    """What there is to know about a strategy without running it.

    Costs are per mini-batch, with N tasks in G groups: passes through the trunk, and memory besides that of SUS.

    Attributes:
        title: For people.
        rule: What one mini-batch does, in a line.
        name: In configs, flags, tables and MLflow; default: the class's name in lower case, ``inverse_loss`` of
            ``InverseLoss``.
        options: The record of its own options, ``<name>_<option>`` in a config.
        family: Which section of the documentation it belongs to: ``paper``, ``baselines``, ``later work``, ``torchjd``;
            ``own`` is what users bring.
        has_groups: Whether ``groups`` is one of its settings (default: one group per task).
        shares_trunk: Whether tasks share weights; path statistics exist only then.
        forwards, backwards: Passes through the trunk.
        updates: Steps of the optimizers; of strategies that regroup, at first.
        joined_by: The option with which there is one step instead.
        states: Optimizer states over the trunk.
        memory: What it holds besides weights, gradients and optimizer states.
        variants: Which of these facts are others under which of its options.
        waits: How often the host waits for the device in a step: to solve something on the host. What follows a comma
            says in which steps it does, as in ``1, when groups are formed anew``; in all others it does not.
        weighs_otherwise: Why a task's weight is no factor, of its loss or of its part in an update; empty where it is.
        differs_from_sus: Why a single task is not trained as SUS trains it; empty where it is.
        needs_tasks: The fewest tasks it works with.
        needs_convolutions: Whether it works on the channels of trunk convolutions only.
        fp16: Whether forward passes may run in float16: every gradient is one of ``loss_scaled`` objectives, as those
            of ``update`` and ``descend`` are.
        compiles: Whether the trunk may be compiled.
        extra: The extra of this package that installs what it needs besides.
        reference: Where it comes from.
    """

    title: str
    rule: str
    name: str = ""
    options: type[Options] = NoOptions
    family: str = "own"
    has_groups: bool = False
    shares_trunk: bool = True
    forwards: str = "1"
    backwards: str = "1"
    updates: str = "1"
    joined_by: str | None = None
    states: str = "1"
    memory: str = "-"
    variants: tuple[Variant, ...] = ()
    waits: str = "0"
    weighs_otherwise: str = ""
    differs_from_sus: str = ""
    needs_tasks: int = 1
    needs_convolutions: bool = False
    fp16: bool = False
    compiles: bool = True
    extra: str | None = None
    reference: str = "-"

    @property
    def reduces_to_sus(self) -> bool:
        """Return whether with one task it takes the same steps as SUS."""
        return not self.differs_from_sus

    def under(self, options: Options) -> "StrategyInfo":
        """Return the record as it is with these options of the strategy."""
        chosen = [variant for variant in self.variants if getattr(options, variant.option) == variant.value]
        facts = {fact: value for variant in chosen for fact in FACTS if (value := getattr(variant, fact)) is not None}
        return replace(self, **facts)


def default_name(title: str) -> str:
    """Return the name of a class as names of strategies are written: ``inverse_loss`` for ``InverseLoss``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", title).lower()


def count(formula: str, tasks: int, groups: int) -> int:
    """Return ``1``, ``N``, ``G``, ``2 N`` or ``G + 1`` as a number; what follows a comma is left out."""
    first, _, more = formula.partition(",")[0].partition(" + ")
    times, _, unit = first.rpartition(" ")
    return int(times or 1) * int({"N": tasks, "G": groups}.get(unit, unit)) + int(more or 0)
