"""TorchJD's aggregators and scalarizers as strategies: their options, and a table of their records.

A row of the table becomes a class of the name that TorchJD gives it; its strategy is ``jd_`` and that name in lower
case.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from tune_mtl.core.options import Options, ShareOfRun, Tunable, TunableCount
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.info import NoOptions, StrategyInfo, Variant
from tune_mtl.strategies.jacobian.descent import HELD, PASSES, AggregatorOptions, JacobianDescent
from tune_mtl.strategies.jacobian.representation import (
    AT_REPRESENTATION,
    RepresentationDescent,
    RepresentationOptions,
    SignDropout,
)
from tune_mtl.strategies.jacobian.rules import EqualCosines, ExcessRisks, KnownWeights, TrimmedColumns
from tune_mtl.strategies.jacobian.scalarized import ScalarizedLoss
from tune_mtl.strategies.options import Count, NonNegative, Positive, Rate


class AlignedMTLOptions(AggregatorOptions):
    """Aligned-MTL: ``scale_mode`` says which singular value the others are scaled to."""

    scale_mode: Annotated[Literal["min", "median", "rmse"], Tunable(values=("min", "median", "rmse"))] = "min"


class CAGradOptions(AggregatorOptions):
    """CAGrad: ``c`` is the reach around the mean gradient."""

    c: Annotated[float, Field(ge=0), Tunable(0.1, 0.9)] = 0.4
    norm_eps: Positive = 1e-4


class JacobianWeightsOptions(AggregatorOptions):
    """Constant weights: ``weights`` are the gradients' own; tasks not named keep 1."""

    weights: Mapping[str, NonNegative] = {}

    def arguments(self, tasks: Sequence[str], like: Tensor) -> dict[str, Any]:
        """Return one weight per row."""
        weights = torch.tensor([self.weights.get(task, 1.0) for task in tasks], dtype=like.dtype)
        return {"weights": weights.to(like.device, non_blocking=True)}

    def named_tasks(self) -> Set[str]:
        """Return the tasks that have a weight here."""
        return self.weights.keys()


class ExcessMTLOptions(AggregatorOptions):
    """ExcessMTL: the weights move by ``robust_step_size``, after ``n_warmup_steps`` mini-batches with equal ones."""

    robust_step_size: Annotated[float, Field(gt=0), Tunable(1e-3, 1.0, log=True)] = 1.0
    n_warmup_steps: Annotated[int, Field(ge=0)] = 0


class FairGradOptions(AggregatorOptions):
    """FairGrad: an ``alpha`` of 0 is utilitarian, 1 is proportional, a large one is max-min fairness."""

    alpha: Annotated[float, Field(ge=0.1), Tunable(0.5, 10.0, log=True)] = 2.0
    max_iters: Count | None = None


class GradDropOptions(RepresentationOptions):
    """GradDrop: ``leak`` is the share of every gradient that passes undropped.

    ``at`` says where signs are compared: for each weight of the ``trunk``, as TorchJD does, or as published for each
    element of its output, the ``representation``: one pass back through the trunk instead of one per task.
    """

    leak: Annotated[float, Field(ge=0, le=1), Tunable(0.0, 0.9)] = 0.0

    def arguments(self, tasks: Sequence[str], like: Tensor) -> dict[str, Any]:
        """Return the same leak for every row."""
        return {"leak": like.new_full((len(tasks),), self.leak)}


class GradVacOptions(AggregatorOptions):
    """GradVac: ``beta`` is the rate of the similarities' exponential average."""

    beta: Annotated[float, Field(ge=0, le=1), Tunable(1e-3, 0.9, log=True)] = 0.5
    eps: NonNegative = 1e-8


class IMTLGOptions(RepresentationOptions):
    """IMTL-G: ``at`` says which gradients shall have equal projections: over the ``trunk``, as TorchJD's, or at its
    output, the ``representation``, as published: one pass back through the trunk instead of one per task.
    """


class KrumOptions(AggregatorOptions):
    """Krum: ``n_byzantine`` gradients are distrusted, ``n_selected`` are averaged."""

    n_byzantine: Annotated[int, Field(ge=0), TunableCount(0, spare=3, divisor=2)] = 0
    n_selected: Annotated[int, Field(ge=1), TunableCount(1)] = 1

    def fewest_rows(self) -> int:
        """Return how many gradients leave a neighbour when some are distrusted, and how many are averaged."""
        return max(3 + self.n_byzantine, self.n_selected)


class MGDAOptions(AggregatorOptions):
    """MGDA: Frank-Wolfe stops at a step below ``epsilon``, and after ``max_iters`` steps."""

    epsilon: Positive = 1e-5
    max_iters: Count = 250


class NashMTLOptions(AggregatorOptions):
    """Nash-MTL: no step is longer than ``max_norm``; the other two say how often and how long it bargains."""

    max_norm: NonNegative = 1.0
    update_weights_every: Annotated[int, Field(ge=1), Tunable(values=(1, 10, 50))] = 1
    optim_niter: Count = 20

    def arguments(self, tasks: Sequence[str], like: Tensor) -> dict[str, Any]:
        """Return the options with the number of rows."""
        return {**super().arguments(tasks, like), "n_tasks": len(tasks)}


class PCDOptions(AggregatorOptions):
    """PCD: ``tau`` is the progress guaranteed to all but the first task, ``beta`` the rate of the norms' average."""

    tau: Annotated[float, Field(ge=0, le=1), Tunable(1e-3, 0.5, log=True)] = 0.02
    beta: Rate = 0.999
    eps: Positive = 1e-8


class TrimmedMeanOptions(AggregatorOptions):
    """Trimmed mean: ``trim_number`` values are dropped at each end."""

    trim_number: Annotated[int, Field(ge=0), TunableCount(0, spare=1, divisor=2)] = 0

    def fewest_rows(self) -> int:
        """Return how many values leave one when both ends are dropped."""
        return 2 * self.trim_number + 1


class DWAOptions(Options):
    """DWA: a high ``temperature`` evens out the weights; rates are looked at every ``every`` mini-batches."""

    temperature: Annotated[float, Field(gt=0), Tunable(0.5, 8.0, log=True)] = 2.0
    every: Annotated[int, Field(ge=1), ShareOfRun(0.05), Tunable(0.01, 0.2, log=True)] = 500


class FAMOOptions(Options):
    """FAMO: ``lr`` is the step of the weights, ``weight_decay`` their decay."""

    lr: Annotated[float, Field(ge=0), Tunable(1e-3, 1e-1, log=True)] = 0.025
    weight_decay: NonNegative = 1e-3


class STCHOptions(Options):
    """Smooth Tchebycheff: with a small ``mu`` it is near the maximum."""

    mu: Annotated[float, Field(gt=0), Tunable(1e-2, 1.0, log=True)] = 0.1


_Rule = TypeVar("_Rule", bound=Strategy[Any])


def _aggregator(
    kind: str,
    title: str,
    rule: str,
    reference: str,
    options: type[AggregatorOptions] = AggregatorOptions,
    base: type[JacobianDescent] = JacobianDescent,
    **more: Any,
) -> type[JacobianDescent]:
    """Return a strategy that costs a row per task, and a wait: most solve something on the rows' Gramian."""
    more = {"backwards": PASSES, "memory": HELD, "waits": "1", **more}
    return _strategy(base, kind, title=title, rule=rule, reference=reference, options=options, **more)


def _known(kind: str, title: str, rule: str, reference: str, **more: Any) -> type[JacobianDescent]:
    """Return a strategy whose weights of gradients are known before any is seen: one pass, of what the heads give."""
    return _aggregator(kind, title, rule, reference, base=KnownWeights, backwards="1", memory="-", waits="0", **more)


def _scalarizer(
    kind: str, title: str, rule: str, reference: str, options: type[Options] = NoOptions, **more: Any
) -> type[ScalarizedLoss]:
    more = {"fp16": True, **more}
    return _strategy(ScalarizedLoss, kind, title=title, rule=rule, reference=reference, options=options, **more)


def _strategy(base: type[_Rule], kind: str, **facts: Any) -> type[_Rule]:
    """Return the subclass of ``base`` that stands for TorchJD's class ``kind``."""
    info = StrategyInfo(name=f"jd_{kind.lower()}", family="torchjd", **facts)
    said = {"__doc__": f"{info.title}: {info.rule}.", "__module__": __name__}
    return type(kind, (base,), {**said, "kind": kind, "info": info})


AGGREGATORS = (
    _aggregator(
        "AlignedMTL",
        "Aligned-MTL",
        "one step on the sum of gradients whose Gram matrix is made a multiple of the identity",
        "Senushkin et al. 2023, Independent Component Alignment for Multi-Task Learning",
        options=AlignedMTLOptions,
    ),
    _aggregator(
        "CAGrad",
        "CAGrad",
        "one step on the direction near the mean gradient that helps the worst task most",
        "Liu et al. 2021, Conflict-Averse Gradient Descent for Multi-task Learning",
        options=CAGradOptions,
        extra="solvers",
        differs_from_sus="it adds the gradient to itself, scaled by c: the step is 1 + c times as long",
    ),
    _aggregator(
        "ConFIG",
        "ConFIG",
        "one step on the direction with equal cosine to all gradients",
        "Liu et al. 2024, ConFIG: Towards Conflict-free Training of Physics Informed Neural Networks",
        base=EqualCosines,
    ),
    _known(
        "Constant",
        "Constant weights",
        "one step on a weighted sum of gradients on the trunk; heads unweighted",
        "TorchJD",
        options=JacobianWeightsOptions,
    ),
    _aggregator(
        "DualProj",
        "DualProj",
        "one step on the mean gradient, projected onto the cone of non-conflicting directions",
        "Lopez-Paz and Ranzato 2017, Gradient Episodic Memory for Continual Learning",
    ),
    _aggregator(
        "ExcessMTL",
        "ExcessMTL",
        "one step on gradients weighted by each task's estimated excess risk",
        "He et al. 2024, Robust Multi-Task Learning with Excess Risks",
        options=ExcessMTLOptions,
        memory="the sums of squared gradients, one row per task (N x trunk)",
        waits="0",
        base=ExcessRisks,
    ),
    _aggregator(
        "FairGrad",
        "FairGrad",
        "one step on the alpha-fair combination of the gradients",
        "Ban and Ji 2024, Fair Resource Allocation in Multi-Task Learning",
        options=FairGradOptions,
        differs_from_sus="its weight of a lone gradient g is |g|^(-2 alpha / (alpha + 1)), not 1",
    ),
    _aggregator(
        "GradDrop",
        "GradDrop",
        "one step on gradients of which, per weight, only one sign is kept at random",
        "Chen et al. 2020, Just Pick a Sign",
        options=GradDropOptions,
        base=SignDropout,
        variants=(AT_REPRESENTATION,),
        backwards="N",
        memory="the sums of the positive and of the negative gradients (2 x trunk)",
        waits="0",
    ),
    _aggregator(
        "GradVac",
        "GradVac",
        "one step on gradients turned towards each other up to their usual similarity",
        "Wang et al. 2021, Gradient Vaccine",
        options=GradVacOptions,
    ),
    _aggregator(
        "IMTLG",
        "IMTL-G",
        "one step on the combination with equal projections onto all gradients",
        "Liu et al. 2021, Towards Impartial Multi-task Learning",
        options=IMTLGOptions,
        base=RepresentationDescent,
        variants=(AT_REPRESENTATION,),
    ),
    _aggregator(
        "Krum",
        "Krum",
        "one step on the gradient nearest to the others",
        "Blanchard et al. 2017, Machine Learning with Adversaries",
        options=KrumOptions,
        needs_tasks=3,
        differs_from_sus="it compares gradients with their neighbours and needs three of them",
    ),
    _known("Mean", "Mean", "one step on the mean gradient on the trunk; heads unweighted", "TorchJD"),
    _aggregator(
        "MGDA",
        "MGDA",
        "one step on the shortest vector of the gradients' convex hull",
        "Desideri 2012, Multiple-gradient descent algorithm",
        options=MGDAOptions,
    ),
    _aggregator(
        "NashMTL",
        "Nash-MTL",
        "one step on the Nash bargaining solution between the gradients",
        "Navon et al. 2022, Multi-Task Learning as a Bargaining Game",
        options=NashMTLOptions,
        extra="solvers",
        needs_tasks=2,
        differs_from_sus="it needs two parties to bargain",
    ),
    _aggregator(
        "PCD",
        "PCD",
        "one step near the first task's gradient that guarantees progress to the others",
        "TorchJD",
        options=PCDOptions,
    ),
    _aggregator(
        "PCGrad",
        "PCGrad",
        "the same as `pcgrad`",
        "Yu et al. 2020, Gradient Surgery for Multi-Task Learning",
    ),
    _known(
        "Random",
        "Random weights",
        "RGW: one step on gradients with random weights that sum to 1; heads unweighted",
        "Lin et al. 2022, Reasonable Effectiveness of Random Weighting",
    ),
    _known("Sum", "Sum", "SUS by the sum of the gradients at the trunk's output", "TorchJD"),
    _aggregator(
        "TrimmedMean",
        "Trimmed mean",
        "one step on the mean gradient, per weight without its extreme values",
        "Yin et al. 2018, Byzantine-Robust Distributed Learning",
        options=TrimmedMeanOptions,
        backwards="N",
        variants=(Variant(option="trim_number", value=0, backwards="1", memory="-"),),
        waits="0",
        base=TrimmedColumns,
    ),
    _aggregator(
        "UPGrad",
        "UPGrad",
        "one step on the mean of the gradients, each projected onto the cone of non-conflicting directions",
        "Quinton and Rey 2024, Jacobian Descent for Multi-Objective Optimization",
    ),
)

SCALARIZERS = (
    _scalarizer(
        "DWA",
        "DWA",
        "one step on a weighted sum: tasks whose loss falls more slowly weigh more",
        "Liu et al. 2019, End-to-End Multi-Task Learning with Attention",
        options=DWAOptions,
    ),
    _scalarizer(
        "FAMO",
        "FAMO",
        "one step on a weighted sum of log losses whose weights even out the rates at which they fall",
        "Liu et al. 2023, FAMO: Fast Adaptive Multitask Optimization",
        options=FAMOOptions,
        forwards="2",
    ),
    _scalarizer(
        "GeometricMean",
        "Geometric loss strategy",
        "one step on the geometric mean of all losses, which must not be negative",
        "Chennupati et al. 2019, MultiNet++",
        waits="1",
    ),
    _scalarizer(
        "IMTLL",
        "IMTL-L",
        "one step on the sum of exp(s_k) L_k - s_k, with learned s_k",
        "Liu et al. 2021, Towards Impartial Multi-task Learning",
        differs_from_sus="its scale s is learned for a lone task too",
    ),
    _scalarizer(
        "STCH",
        "Smooth Tchebycheff",
        "one step on a smooth maximum of all losses",
        "Lin et al. 2024, Smooth Tchebycheff Scalarization for Multi-Objective Optimization",
        options=STCHOptions,
    ),
    _scalarizer(
        "UW",
        "Uncertainty weighting",
        "one step on the sum of exp(-s_k) L_k / 2 + s_k / 2, with learned s_k",
        "Kendall et al. 2018, Multi-Task Learning Using Uncertainty to Weigh Losses",
        differs_from_sus="it halves a lone loss, and learns its scale s",
    ),
)

globals().update({strategy.kind: strategy for strategy in (*AGGREGATORS, *SCALARIZERS)})
