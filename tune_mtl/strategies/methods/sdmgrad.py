"""SDMGrad: near the mean gradient, the direction that helps the worst task, from two looks at the gradients."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from tune_mtl.core.options import Options, Tunable
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.jacobian.halves import HalvedJacobian
from tune_mtl.strategies.simplex import onto_simplex

_LEAST = 1e-8
"""Added to the squared length that products are divided by."""


class DirectionOrientedOptions(Options):
    """SDMGrad: ``pull`` is how strongly the mean gradient attracts (the paper's lambda).

    In each mini-batch the shares take ``steps`` steps of ``rate``, with ``momentum``.
    """

    pull: Annotated[float, Field(ge=0), Tunable(0.1, 10.0, log=True)] = 0.3
    rate: Annotated[float, Field(gt=0), Tunable(0.01, 10.0, log=True)] = 10.0
    steps: Annotated[int, Field(ge=1)] = 20
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5


class DirectionOriented(HalvedJacobian[DirectionOrientedOptions]):
    """SDMGrad: w <- w - lr * m(J' (a + pull / N) / (1 + pull)); each head takes its own gradient.

    With A = J_1 J_2' / n^2, n the mean length of the gradients (by the diagonal of J_1 J_2', where that is not
    negative), so many times: v <- momentum v + A (a + pull / N), a <- P(a - rate v), P the projection onto the simplex;
    v = 0 in each mini-batch, a goes on from the last one, a_k = 1/N at first. J_1 and J_2 are the Jacobians of two
    halves of the mini-batch, J is that of the whole. Where labels are missing, N is the number of tasks with labels;
    they share among themselves what they had together, and all others keep theirs.
    """

    info = StrategyInfo(
        name="sdmgrad",
        title="SDMGrad",
        rule="one step near the mean gradient, with shares that help the worst task, seen in two halves",
        family="later work",
        options=DirectionOrientedOptions,
        backwards="2 N, and one more where the trunk is large",
        memory="two Jacobian rows per task, of a part of the trunk where it is large",
        reference="Xiao et al. 2023, Direction-oriented Multi-objective Learning",
    )

    def _weights(self, at: Tensor, products: Tensor) -> Tensor:
        options, count = self.options, len(products)
        length = products.diagonal().clamp(min=0.0).sqrt().mean()
        scaled = products / (length.square() + _LEAST)
        own = self._shares.of(at)
        moving = torch.zeros_like(own)
        for _ in range(options.steps):
            moving = options.momentum * moving + scaled @ (own + options.pull / count)
            own = onto_simplex(own - options.rate * moving)
        return (self._shares.move(at, own) + options.pull / count) / (1.0 + options.pull)
