"""The options of strategies and named optimizers: one typed record per owner. Imports no torch."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tune_mtl.core.options import Options, ShareOfRun, Tunable, TunableCount, Verbatim

_Rate = Annotated[float, Field(ge=0, lt=1)]
_NonNegative = Annotated[float, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=1)]


def _as_text(value: object) -> object:
    """Layers of a ``Sequential`` are named by numbers; of 1.1 nobody knows whether it was 1.10."""
    if isinstance(value, float):
        raise ValueError("must be a text: put it in quotes")
    return str(value) if isinstance(value, int) else value


class NoOptions(Options):
    """For strategies without options of their own."""


class ScalarOptions(Options):
    """Fixed task weights, multiplied with each task's own ``weight``; tasks not named keep 1."""

    weights: Mapping[str, _NonNegative] = {}


class GradNormOptions(Options):
    """GradNorm.

    ``alpha``: how strongly slow tasks are pulled up. ``layer``: the trunk's module at whose weights gradients are
    compared; default: its last convolution, else its last layer with weights.
    """

    alpha: Annotated[float, Field(ge=0), Tunable(0.1, 3.0, log=True)] = 1.5
    layer: Annotated[Annotated[str, BeforeValidator(_as_text)] | None, Verbatim()] = None


class UpperBoundOptions(Options):
    """MGDA-UB: what gradients are divided by before their weights are sought.

    ``none`` as the paper does; ``l2`` their norms, ``loss`` their losses, ``loss+`` both, as Sener and Koltun also do.
    """

    normalize: Annotated[Literal["none", "l2", "loss", "loss+"], Tunable(values=("none", "l2", "loss", "loss+"))] = (
        "none"
    )


class MaximumRoamingOptions(Options):
    """Maximum Roaming.

    ``sigma``: the share of channels that each task uses. ``updates_end``: the mini-batch by which every task has used
    every channel. ``update_size``: channels swapped at once. ``accumulate``: one step on all tasks' gradients instead
    of one step per task.
    """

    sigma: Annotated[float, Field(gt=0, le=1), Tunable(0.3, 0.95)] = 0.8
    updates_end: Annotated[int, Field(ge=1), ShareOfRun(1 / 3), Tunable(0.1, 0.9)] = 10_000
    update_size: _Count = 1
    accumulate: bool = False


class SelectiveOptions(Options):
    """Selective task group updates.

    ``rate``: of the affinities' exponential average. ``warmup``: mini-batches before the first regrouping. ``every``:
    mini-batches between regroupings.
    """

    rate: Annotated[float, Field(gt=0, le=1), Tunable(1e-4, 1e-1, log=True)] = 1e-3
    warmup: Annotated[int, Field(ge=1), ShareOfRun(0.1), Tunable(0.02, 0.5, log=True)] = 1000
    every: Annotated[int, Field(ge=1), Tunable(values=(10, 50, 200))] = 50


class AlignedMTLOptions(Options):
    """Aligned-MTL: which singular value the others are scaled to."""

    scale_mode: Annotated[Literal["min", "median", "rmse"], Tunable(values=("min", "median", "rmse"))] = "min"


class CAGradOptions(Options):
    """CAGrad: ``c`` is the reach around the mean gradient."""

    c: Annotated[float, Field(ge=0), Tunable(0.1, 0.9)] = 0.4
    norm_eps: _Positive = 1e-4


class JacobianWeightsOptions(Options):
    """Weights of the gradients; tasks not named keep 1."""

    weights: Mapping[str, _NonNegative] = {}


class ExcessMTLOptions(Options):
    """ExcessMTL: the step of the weights' update, and mini-batches of equal weights before it."""

    robust_step_size: Annotated[float, Field(gt=0), Tunable(1e-3, 1.0, log=True)] = 1.0
    n_warmup_steps: Annotated[int, Field(ge=0)] = 0


class FairGradOptions(Options):
    """FairGrad: 0 is utilitarian, 1 proportional, large is max-min fairness."""

    alpha: Annotated[float, Field(ge=0.1), Tunable(0.5, 10.0, log=True)] = 2.0
    max_iters: _Count | None = None


class GradDropOptions(Options):
    """GradDrop: the share of every gradient that passes undropped."""

    leak: Annotated[float, Field(ge=0, le=1), Tunable(0.0, 0.9)] = 0.0


class GradVacOptions(Options):
    """GradVac: the rate of the similarities' exponential average."""

    beta: Annotated[float, Field(ge=0, le=1), Tunable(1e-3, 0.9, log=True)] = 0.5
    eps: _NonNegative = 1e-8


class KrumOptions(Options):
    """Krum: gradients distrusted, and gradients averaged."""

    n_byzantine: Annotated[int, Field(ge=0), TunableCount(0, spare=3, divisor=2)] = 0
    n_selected: Annotated[int, Field(ge=1), TunableCount(1)] = 1


class MGDAOptions(Options):
    """MGDA: when Frank-Wolfe stops."""

    epsilon: _Positive = 1e-5
    max_iters: _Count = 250


class NashMTLOptions(Options):
    """Nash-MTL: the longest step, and how often and how long it bargains."""

    max_norm: _NonNegative = 1.0
    update_weights_every: Annotated[int, Field(ge=1), Tunable(values=(1, 10, 50))] = 1
    optim_niter: _Count = 20


class PCDOptions(Options):
    """PCD: the share of progress guaranteed to all but the first task; the rate of the norms' exponential average."""

    tau: Annotated[float, Field(ge=0, le=1), Tunable(1e-3, 0.5, log=True)] = 0.02
    beta: _Rate = 0.999
    eps: _Positive = 1e-8


class TrimmedMeanOptions(Options):
    """Trimmed mean: values dropped at each end."""

    trim_number: Annotated[int, Field(ge=0), TunableCount(0, spare=1, divisor=2)] = 0


class DWAOptions(Options):
    """DWA: a high temperature evens out the weights; ``every``: mini-batches between looks at the rates."""

    temperature: Annotated[float, Field(gt=0), Tunable(0.5, 8.0, log=True)] = 2.0
    every: Annotated[int, Field(ge=1), ShareOfRun(0.05), Tunable(0.01, 0.2, log=True)] = 500


class FAMOOptions(Options):
    """FAMO: the step of the weights and their decay."""

    lr: Annotated[float, Field(ge=0), Tunable(1e-3, 1e-1, log=True)] = 0.025
    weight_decay: _NonNegative = 1e-3


class STCHOptions(Options):
    """Smooth Tchebycheff: small is near the maximum."""

    mu: Annotated[float, Field(gt=0), Tunable(1e-2, 1.0, log=True)] = 0.1


class AdamOptions(Options):
    """Adam: torch's names and defaults."""

    betas: tuple[_Rate, _Rate] = (0.9, 0.999)
    eps: _NonNegative = 1e-8
    weight_decay: _NonNegative = 0.0
    amsgrad: bool = False


class AdamWOptions(AdamOptions):
    """AdamW: decoupled weight decay."""

    weight_decay: _NonNegative = 1e-2


class SGDOptions(Options):
    """Plain stochastic gradient descent, without memory."""

    weight_decay: _NonNegative = 0.0


class MomentumOptions(Options):
    """SGD with momentum."""

    momentum: _Rate = 0.9
    nesterov: bool = False
    weight_decay: _NonNegative = 0.0

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self


class TheoremOptions(Options):
    """The theorem's step: ``mu`` and ``smoothness`` (L) of the tasks; ``gamma``: default the smallest allowed."""

    mu: _Positive
    smoothness: _Positive
    gamma: float | None = None

    @model_validator(mode="after")
    def _as_the_theorem_allows(self) -> Self:
        if self.smoothness < self.mu:
            raise ValueError(f"smoothness={self.smoothness} must be at least mu={self.mu}")
        if self.gamma is not None and self.gamma < 2 * self.smoothness / self.mu - 1:
            raise ValueError(f"gamma={self.gamma} must be at least 2 smoothness / mu - 1")
        return self
