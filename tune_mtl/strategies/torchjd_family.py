"""TorchJD's aggregators and scalarizers as records: ``jd_`` and the class's name in lower case. Imports no torch."""

from functools import partial
from typing import Any

from tune_mtl.strategies.info import StrategyInfo


def _record(name: str, title: str, rule: str, reference: str, **more: Any) -> StrategyInfo:
    return StrategyInfo(name=f"jd_{name}", title=title, rule=rule, reference=reference, family="torchjd", **more)


_aggregator = partial(
    _record,
    implementation="tune_mtl.strategies.jacobian:JacobianDescent",
    backwards="N",
    memory="one Jacobian row per task (N x trunk)",
)
_scalarizer = partial(_record, implementation="tune_mtl.strategies.scalarized:ScalarizedLoss")

AGGREGATORS = (
    _aggregator(
        "alignedmtl",
        "Aligned-MTL",
        "one step on the sum of gradients whose Gram matrix is made a multiple of the identity",
        "Senushkin et al. 2023, Independent Component Alignment for Multi-Task Learning",
        options_record="AlignedMTLOptions",
    ),
    _aggregator(
        "cagrad",
        "CAGrad",
        "one step on the direction near the mean gradient that helps the worst task most",
        "Liu et al. 2021, Conflict-Averse Gradient Descent for Multi-task Learning",
        options_record="CAGradOptions",
        extra="solvers",
        differs_from_sus="it adds the gradient to itself, scaled by c: the step is 1 + c times as long",
    ),
    _aggregator(
        "config",
        "ConFIG",
        "one step on the direction with equal cosine to all gradients",
        "Liu et al. 2024, ConFIG: Towards Conflict-free Training of Physics Informed Neural Networks",
    ),
    _aggregator(
        "constant",
        "Constant weights",
        "one step on a weighted sum of gradients on the trunk; heads unweighted",
        "TorchJD",
        options_record="JacobianWeightsOptions",
    ),
    _aggregator(
        "dualproj",
        "DualProj",
        "one step on the mean gradient, projected onto the cone of non-conflicting directions",
        "Lopez-Paz and Ranzato 2017, Gradient Episodic Memory for Continual Learning",
    ),
    _aggregator(
        "excessmtl",
        "ExcessMTL",
        "one step on gradients weighted by each task's estimated excess risk",
        "He et al. 2024, Robust Multi-Task Learning with Excess Risks",
        options_record="ExcessMTLOptions",
        memory="two Jacobian rows per task (2 N x trunk)",
    ),
    _aggregator(
        "fairgrad",
        "FairGrad",
        "one step on the alpha-fair combination of the gradients",
        "Ban and Ji 2024, Fair Resource Allocation in Multi-Task Learning",
        options_record="FairGradOptions",
        differs_from_sus="its weight of a lone gradient g is |g|^(-2 alpha / (alpha + 1)), not 1",
    ),
    _aggregator(
        "graddrop",
        "GradDrop",
        "one step on gradients of which, per weight, only one sign is kept at random",
        "Chen et al. 2020, Just Pick a Sign",
        options_record="GradDropOptions",
    ),
    _aggregator(
        "gradvac",
        "GradVac",
        "one step on gradients turned towards each other up to their usual similarity",
        "Wang et al. 2021, Gradient Vaccine",
        options_record="GradVacOptions",
    ),
    _aggregator(
        "imtlg",
        "IMTL-G",
        "one step on the combination with equal projections onto all gradients",
        "Liu et al. 2021, Towards Impartial Multi-task Learning",
    ),
    _aggregator(
        "krum",
        "Krum",
        "one step on the gradient nearest to the others",
        "Blanchard et al. 2017, Machine Learning with Adversaries",
        options_record="KrumOptions",
        needs_tasks=3,
        differs_from_sus="it compares gradients with their neighbours and needs three of them",
    ),
    _aggregator("mean", "Mean", "one step on the mean gradient on the trunk; heads unweighted", "TorchJD"),
    _aggregator(
        "mgda",
        "MGDA",
        "one step on the shortest vector of the gradients' convex hull",
        "Desideri 2012, Multiple-gradient descent algorithm",
        options_record="MGDAOptions",
    ),
    _aggregator(
        "nashmtl",
        "Nash-MTL",
        "one step on the Nash bargaining solution between the gradients",
        "Navon et al. 2022, Multi-Task Learning as a Bargaining Game",
        options_record="NashMTLOptions",
        extra="solvers",
        needs_tasks=2,
        differs_from_sus="it needs two parties to bargain",
    ),
    _aggregator(
        "pcd",
        "PCD",
        "one step near the first task's gradient that guarantees progress to the others",
        "TorchJD",
        options_record="PCDOptions",
    ),
    _aggregator(
        "pcgrad",
        "PCGrad",
        "the same as `pcgrad`",
        "Yu et al. 2020, Gradient Surgery for Multi-Task Learning",
    ),
    _aggregator(
        "random",
        "Random weights",
        "one step on gradients with random weights that sum to 1",
        "Lin et al. 2022, Reasonable Effectiveness of Random Weighting",
    ),
    _aggregator("sum", "Sum", "SUS through Jacobian rows: what the family costs without doing anything", "TorchJD"),
    _aggregator(
        "trimmedmean",
        "Trimmed mean",
        "one step on the mean gradient, per weight without its extreme values",
        "Yin et al. 2018, Byzantine-Robust Distributed Learning",
        options_record="TrimmedMeanOptions",
    ),
    _aggregator(
        "upgrad",
        "UPGrad",
        "one step on the mean of the gradients, each projected onto the cone of non-conflicting directions",
        "Quinton and Rey 2024, Jacobian Descent for Multi-Objective Optimization",
    ),
)


SCALARIZERS = (
    _scalarizer(
        "dwa",
        "DWA",
        "one step on a weighted sum: tasks whose loss falls more slowly weigh more",
        "Liu et al. 2019, End-to-End Multi-Task Learning with Attention",
        options_record="DWAOptions",
    ),
    _scalarizer(
        "famo",
        "FAMO",
        "one step on a weighted sum of log losses whose weights even out the rates at which they fall",
        "Liu et al. 2023, FAMO: Fast Adaptive Multitask Optimization",
        options_record="FAMOOptions",
        forwards="2",
    ),
    _scalarizer(
        "geometricmean",
        "Geometric loss strategy",
        "one step on the geometric mean of all losses, which must not be negative",
        "Chennupati et al. 2019, MultiNet++",
    ),
    _scalarizer(
        "imtll",
        "IMTL-L",
        "one step on the sum of exp(s_k) L_k - s_k, with learned s_k",
        "Liu et al. 2021, Towards Impartial Multi-task Learning",
        differs_from_sus="its scale s is learned for a lone task too",
    ),
    _scalarizer(
        "stch",
        "Smooth Tchebycheff",
        "one step on a smooth maximum of all losses",
        "Lin et al. 2024, Smooth Tchebycheff Scalarization for Multi-Objective Optimization",
        options_record="STCHOptions",
    ),
    _scalarizer(
        "uw",
        "Uncertainty weighting",
        "one step on the sum of exp(-s_k) L_k / 2 + s_k / 2, with learned s_k",
        "Kendall et al. 2018, Multi-Task Learning Using Uncertainty to Weigh Losses",
        differs_from_sus="it halves a lone loss, and learns its scale s",
    ),
)
