"""Which strategies there are: a list of names, and where each one's class is found. Loads no torch.

A strategy's record stands in its own file, beside its options and its rule, and to read it is to load that file, and
torch with it. Help texts and reports must not wait for torch: the two facts that they need are therefore said here as
well, who has groups and who shares a trunk. A test holds this list against the records.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tune_mtl.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tune_mtl.strategies.base import Strategy
    from tune_mtl.strategies.info import StrategyInfo


@dataclass(frozen=True)
class Entry:
    """What is known of a strategy before it is loaded.

    Attributes:
        home: Its class, ``module:Class`` within this package.
        has_groups: As in its record.
        shares_trunk: As in its record.
    """

    home: str
    has_groups: bool = False
    shares_trunk: bool = True


_TORCHJD = (
    # aggregators of gradients
    "AlignedMTL", "CAGrad", "ConFIG", "Constant", "DualProj", "ExcessMTL", "FairGrad", "GradDrop", "GradVac", "IMTLG",
    "Krum", "Mean", "MGDA", "NashMTL", "PCD", "PCGrad", "Random", "Sum", "TrimmedMean", "UPGrad",
    # scalarizers of losses
    "DWA", "FAMO", "GeometricMean", "IMTLL", "STCH", "UW",
)  # fmt: skip
"""TorchJD's classes that are strategies here, named ``jd_`` and the class's name in lower case."""

entries: dict[str, Entry] = {
    "sus": Entry("methods.sus:SharedUpdateSteps"),
    "ius": Entry("methods.ius:IndividualUpdateSteps", has_groups=True),
    "io": Entry("methods.io:IndividualOptimizers", has_groups=True),
    "scalar": Entry("methods.scalar:ScalarWeights"),
    "stl": Entry("methods.stl:SingleTask", shares_trunk=False),
    "gradnorm": Entry("methods.gradnorm:GradNorm"),
    "pcgrad": Entry("methods.pcgrad:PCGrad"),
    "mgda_ub": Entry("methods.mgda_ub:UpperBoundDescent"),
    "mr": Entry("methods.mr:MaximumRoaming"),
    "adatask": Entry("methods.adatask:AdaTask", has_groups=True),
    "selective": Entry("methods.selective:SelectiveGroups"),
    **{f"jd_{kind.lower()}": Entry(f"jacobian.family:{kind}") for kind in _TORCHJD},
}


class _Records(Mapping[str, "StrategyInfo"]):
    """The records by name: the names are known at once, a record is loaded when it is asked for."""

    def __getitem__(self, name: str) -> "StrategyInfo":
        return _load(entries[name].home).info

    def __iter__(self) -> Iterator[str]:
        return iter(entries)

    def __len__(self) -> int:
        return len(entries)

    def __contains__(self, name: object) -> bool:
        return name in entries


registry: Mapping[str, "StrategyInfo"] = _Records()


def known_strategy(name: str) -> Entry:
    """Return what is known of strategy ``name`` without loading it.

    Raises:
        UserError: if there is no such strategy.
    """
    if name not in entries:
        raise UserError(f"unknown strategy '{name}'. {did_you_mean(name, entries)}")
    return entries[name]


def strategy_info(name: str) -> "StrategyInfo":
    """Return the record of strategy ``name``; it loads the strategy, and torch with it.

    Raises:
        UserError: if there is no such strategy.
    """
    return strategy_class(name).info


def strategy_class(name: str) -> "type[Strategy[Any]]":
    """Return the class of strategy ``name``.

    Raises:
        UserError: if there is no such strategy.
    """
    return _load(known_strategy(name).home)


def with_groups() -> list[str]:
    """Return the names of the strategies that have groups."""
    return [name for name, entry in entries.items() if entry.has_groups]


def _load(home: str) -> "type[Strategy[Any]]":
    module, _, name = home.partition(":")
    return cast("type[Strategy[Any]]", getattr(importlib.import_module(f"tune_mtl.strategies.{module}"), name))
