"""PCGrad: gradients that conflict are projected off each other."""

from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.jacobian.descent import HELD, PASSES, AggregatorOptions, JacobianDescent


class PCGrad(JacobianDescent):
    """PCGrad: w <- w - lr * m(sum_k p_k), p_k the gradient c_k g_k(w) less its part against each of the others.

    The others are taken in random order; those that p_k does not conflict with by then leave it alone.
    """

    kind = "PCGrad"
    info = StrategyInfo(
        name="pcgrad",
        title="PCGrad",
        rule="one step on the sum of gradients, each projected off those it conflicts with",
        options=AggregatorOptions,
        family="baselines",
        backwards=PASSES,
        memory=HELD,
        waits="1",
        reference="Yu et al. 2020, Gradient Surgery for Multi-Task Learning",
    )
