"""Which strategies there are: a list of names, and where each one's class is found. Loads no torch.

Those that users bring are admitted under a short name (`admission`), and are known from then on in this process.

A strategy's record stands in its own file, beside its options and its rule, and to read it is to load that file, and
torch with it. Help texts and reports must not wait for torch: the two facts that they need are therefore said here as
well, who has groups and who shares a trunk. A test holds this list against the records.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tune_mtl.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tune_mtl.strategies.base import Strategy
    from tune_mtl.strategies.info import StrategyInfo


@dataclass(frozen=True)
class Entry:
    """What is known of a strategy before it is loaded.

    Attributes:
        home: Its class, ``module:Class`` within this package; of one that was brought: where it was found.
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
    "norms": Entry("methods.norms:MeasuredNorms"),
    "rlw": Entry("methods.rlw:RandomLossWeights"),
    "igb": Entry("methods.igb:ImprovableGap"),
    "go4align": Entry("methods.go4align:GroupAlignment"),
    "crmogm": Entry("methods.crmogm:MovingWeights"),
    "db_mtl": Entry("methods.db_mtl:DualBalancing"),
    "moco": Entry("methods.moco:CorrectedGradients"),
    "modo": Entry("methods.modo:DoubleSampling"),
    "sdmgrad": Entry("methods.sdmgrad:DirectionOriented"),
    **{f"jd_{kind.lower()}": Entry(f"jacobian.family:{kind}") for kind in _TORCHJD},
}

_guests: dict[str, "type[Strategy[Any]]"] = {}
"""The strategies that were admitted, by name."""

_references: dict[str, str] = {}
"""What each of them is called as ``package.module:Class``, by name."""


class _Records(Mapping[str, "StrategyInfo"]):
    """The records of what is built in, by name: names are known at once, a record is loaded when it is asked for."""

    def __getitem__(self, name: str) -> "StrategyInfo":
        return _load(entries[name].home).info

    def __iter__(self) -> Iterator[str]:
        return iter(entries)

    def __len__(self) -> int:
        return len(entries)

    def __contains__(self, name: object) -> bool:
        return name in entries


registry: Mapping[str, "StrategyInfo"] = _Records()


def welcome(guest: "type[Strategy[Any]]", reference: str) -> None:
    """Have a strategy that was brought be known by its name; `admission` says who is welcome."""
    _guests[guest.info.name], _references[guest.info.name] = guest, reference


def reference_of(name: str) -> str | None:
    """Return the reference of a strategy that was brought; None for one that is built in."""
    return _references.get(name)


def named(name: str) -> dict[str, str]:
    """Return what a config says of strategy ``name``: what it is called, and where it is found if it was brought."""
    reference = reference_of(name)
    return {"strategy": name} if reference is None else {"strategy": name, "strategy_from": reference}


def everyone() -> dict[str, "StrategyInfo"]:
    """Return the records of all strategies that are known in this process, those that were brought too."""
    return {**registry, **{name: guest.info for name, guest in _guests.items()}}


def everyone_named() -> list[str]:
    """Return the names of all strategies that are known in this process, without loading any."""
    return [*entries, *_guests]


def known_strategy(name: str) -> Entry:
    """Return what is known of strategy ``name``; one that is built in is not loaded.

    Raises:
        UserError: if there is no such strategy.
    """
    if name in entries:
        return entries[name]
    if name not in _guests:
        known = [*entries, *_guests]
        raise UserError(f"unknown strategy '{name}'. {did_you_mean(name, known)} Your own: package.module:Class.")
    info = _guests[name].info
    return Entry(_references[name], info.has_groups, info.shares_trunk)


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
    home = known_strategy(name).home
    return _guests[name] if name in _guests else _load(home)


def with_groups() -> list[str]:
    """Return the names of the strategies that have groups."""
    known = {**entries, **{name: known_strategy(name) for name in _guests}}
    return [name for name, entry in known.items() if entry.has_groups]


@cache
def texts() -> frozenset[str]:
    """Return the options that are texts even where they look like numbers; to ask is to load every strategy."""
    from tune_mtl.core.options import Verbatim

    return frozenset(f"{info.name}_{option}" for info in registry.values() for option in info.options.marked(Verbatim))


def _load(home: str) -> "type[Strategy[Any]]":
    module, _, name = home.partition(":")
    return cast("type[Strategy[Any]]", getattr(importlib.import_module(f"tune_mtl.strategies.{module}"), name))
