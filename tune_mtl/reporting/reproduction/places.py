"""The places of the paper: which of its data sets each table and figure is about, and the search that fills it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tune_mtl.reporting.claims import Findings

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "sus": "MTL-SUS",
        "ius": "MTL-IUS",
        "io": "MTL-IO",
        "gradnorm": "GradNorm",
        "pcgrad": "PCGrad",
        "mgda_ub": "MGDA-UB",
        "mr": "MR",
    }
)
"""The paper's names of strategies, in its order."""


@dataclass(frozen=True)
class Place:
    """One data set of the paper, and what stands there.

    Attributes:
        number: The number of its table and of its figure.
        dataset: The data set of the paper.
        problem: The problem that was searched; the data set itself, or what stands in for it.
        found: The search.
        tasks: The tasks that are shown; empty: all of them.
    """

    number: int
    dataset: str
    problem: str
    found: Findings
    tasks: Sequence[str] = ()

    @property
    def stands_in(self) -> bool:
        """Return whether the problem is another than the paper's data set."""
        return self.problem != self.dataset.lower()

    @property
    def shown(self) -> list[str]:
        """The tasks that are shown."""
        return list(self.tasks) or self.found.search.tasks

    @property
    def title(self) -> str:
        """The data set, and what stands in for it."""
        if not self.stands_in:
            return self.dataset
        part = f", {' and '.join(self.tasks)} alone," if self.tasks else ""
        return f"{self.problem}{part} in the place of {self.dataset}"

    @property
    def methods(self) -> list[str]:
        """The strategies that have results, in the order of the paper."""
        return in_order(self.found.results.runs)


def in_order(strategies: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Return strategies in the order of the paper, then those that it does not have."""
    return [*(name for name in METHODS if name in strategies), *(name for name in strategies if name not in METHODS)]


def method(strategy: str) -> str:
    """Return the paper's name of a strategy; its own where the paper has none."""
    return METHODS.get(strategy, strategy)


def searched(places: Sequence[Place]) -> list[Findings]:
    """Return the searches of all places, each once."""
    return list({place.found.search.name: place.found for place in places}.values())
