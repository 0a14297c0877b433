"""The strategies as plain records: what help texts, validation and search spaces know of them. Imports no torch."""

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.strategies.info import StrategyInfo, options_record
from tune_mtl.strategies.torchjd_family import AGGREGATORS, SCALARIZERS

__all__ = ["StrategyInfo", "options_record", "registry", "strategy_info", "with_groups"]

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
        forwards="G",
        backwards="G",
        updates="G",
    ),
    StrategyInfo(
        name="io",
        title="Individual optimizers",
        rule="one step per group on the same mini-batch, each with its own optimizer state",
        implementation="tune_mtl.strategies.io:IndividualOptimizers",
        has_groups=True,
        forwards="G",
        backwards="G",
        updates="G",
        states="G",
    ),
    StrategyInfo(
        name="scalar",
        title="Fixed task weights",
        rule="one step on a weighted sum of all task losses",
        implementation="tune_mtl.strategies.scalar:ScalarWeights",
        family="baselines",
        options_record="ScalarOptions",
        reference="Xin et al. 2022, Do Current Multi-Task Optimization Methods Even Help?",
    ),
    StrategyInfo(
        name="stl",
        title="Single-task reference",
        rule="one network per task, each trained on its own loss",
        implementation="tune_mtl.strategies.stl:SingleTask",
        family="baselines",
        shares_trunk=False,
        forwards="N",
        backwards="N",
        updates="N",
        states="N",
        memory="a network per task",
        reference="the reference of Delta-m",
    ),
    StrategyInfo(
        name="gradnorm",
        title="GradNorm",
        rule="one step on a weighted sum whose weights balance the tasks' gradient norms and training rates",
        implementation="tune_mtl.strategies.gradnorm:GradNorm",
        family="baselines",
        options_record="GradNormOptions",
        backwards="1, and N down to one layer",
        memory="one gradient of that layer",
        reference="Chen et al. 2018, GradNorm: Gradient Normalization for Adaptive Loss Balancing",
    ),
    StrategyInfo(
        name="pcgrad",
        title="PCGrad",
        rule="one step on the sum of gradients, each projected off those it conflicts with",
        implementation="tune_mtl.strategies.jacobian:JacobianDescent",
        family="baselines",
        backwards="N",
        memory="one Jacobian row per task (N x trunk)",
        reference="Yu et al. 2020, Gradient Surgery for Multi-Task Learning",
    ),
    StrategyInfo(
        name="mgda_ub",
        title="MGDA-UB",
        rule="one step on the weighted sum with the shortest gradient at the trunk's output",
        implementation="tune_mtl.strategies.mgda_ub:UpperBoundDescent",
        family="baselines",
        options_record="UpperBoundOptions",
        memory="one gradient of the trunk's output per task",
        reference="Sener and Koltun 2018, Multi-Task Learning as Multi-Objective Optimization",
    ),
    StrategyInfo(
        name="mr",
        title="Maximum Roaming",
        rule="one step per task through its own share of each convolution's channels, which roams over all of them",
        implementation="tune_mtl.strategies.mr:MaximumRoaming",
        family="baselines",
        options_record="MaximumRoamingOptions",
        forwards="N",
        backwards="N",
        updates="N",
        joined_by="accumulate",
        memory="one bit per task and channel",
        needs_convolutions=True,
        compiles=False,
        reference="Pascal et al. 2021, Maximum Roaming Multi-Task Learning",
    ),
    StrategyInfo(
        name="adatask",
        title="AdaTask",
        rule="all groups' gradients at the same weights, each applied through its own optimizer state",
        implementation="tune_mtl.strategies.adatask:AdaTask",
        family="later work",
        has_groups=True,
        backwards="G",
        updates="G",
        states="G",
        memory="one gradient per group (G x trunk)",
        reference="Yang et al. 2023, AdaTask: A Task-aware Adaptive Learning Rate Approach",
    ),
    StrategyInfo(
        name="selective",
        title="Selective task group updates",
        rule="one step per group in random order through one optimizer, tasks regrouped by how they help each other",
        implementation="tune_mtl.strategies.selective:SelectiveGroups",
        family="later work",
        options_record="SelectiveOptions",
        forwards="G + 1",
        backwards="G",
        updates="N",
        memory="N x N affinities",
        reference="Jeong and Yoon 2025, Selective Task Group Updates for Multi-Task Optimization",
    ),
    *AGGREGATORS,
    *SCALARIZERS,
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
