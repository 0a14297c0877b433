"""The strategies as plain records: what help texts, validation and search spaces know of them. Imports no torch."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tune_mtl.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tune_mtl.core.options import Options


def options_record(name: str) -> "type[Options]":
    """A record of `strategies.options`, loaded when it is asked for: listing strategies need not know it."""
    return cast("type[Options]", getattr(importlib.import_module("tune_mtl.strategies.options"), name))


@dataclass(frozen=True, kw_only=True)
class StrategyInfo:
    """What there is to know about a strategy without running it.

    Attributes:
        name: In configs, flags and MLflow.
        title: For people.
        rule: What one mini-batch does, in a line.
        implementation: ``module:class``, loaded when the strategy is made.
        has_groups: Whether ``groups`` is one of its settings (default: one group per task).
        shares_trunk: Whether tasks share weights; path statistics exist only then.
        options_record: The name of the record of its own options, in `strategies.options`.
        reference: Where it comes from.
    """

    name: str
    title: str
    rule: str
    implementation: str
    has_groups: bool = False
    shares_trunk: bool = True
    options_record: str = "NoOptions"
    reference: str = "Pascal et al., Improved optimization strategies for deep Multi-Task Networks"

    @property
    def options(self) -> "type[Options]":
        """The record of its own options, ``<name>_<option>`` in a config."""
        return options_record(self.options_record)


_INFOS = (
    StrategyInfo(
        name="sus",
        title="Shared update steps",
        rule="one step on the sum of all task losses",
        implementation="tune_mtl.strategies.sus:SharedUpdateSteps",
    ),
    StrategyInfo(
        name="ius",
        title="Individual update steps",
        rule="one step per group on the same mini-batch, all through one optimizer",
        implementation="tune_mtl.strategies.ius:IndividualUpdateSteps",
        has_groups=True,
    ),
    StrategyInfo(
        name="io",
        title="Individual optimizers",
        rule="one step per group on the same mini-batch, each with its own optimizer state",
        implementation="tune_mtl.strategies.io:IndividualOptimizers",
        has_groups=True,
    ),
    StrategyInfo(
        name="scalar",
        title="Fixed task weights",
        rule="one step on a weighted sum of all task losses",
        implementation="tune_mtl.strategies.scalar:ScalarWeights",
        options_record="ScalarOptions",
        reference="Xin et al. 2022, Do Current Multi-Task Optimization Methods Even Help?",
    ),
    StrategyInfo(
        name="stl",
        title="Single-task reference",
        rule="one network per task, each trained on its own loss",
        implementation="tune_mtl.strategies.stl:SingleTask",
        shares_trunk=False,
        reference="the reference of Delta-m",
    ),
)

registry: dict[str, StrategyInfo] = {info.name: info for info in _INFOS}


def strategy_info(name: str) -> StrategyInfo:
    """The record of strategy ``name``.

    Raises:
        UserError: if there is no such strategy.
    """
    if name not in registry:
        raise UserError(f"unknown strategy '{name}'. {did_you_mean(name, registry)}")
    return registry[name]


def with_groups() -> list[str]:
    """The names of the strategies that have groups."""
    return [info.name for info in registry.values() if info.has_groups]
