"""MoDo: MGDA's shares, moved by two independent looks at the gradients."""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from tune_mtl.core.options import Options, Tunable
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.jacobian.halves import HalvedJacobian


class DoubleSamplingOptions(Options):
    """MoDo: ``gamma`` is the rate of the tasks' shares, ``rho`` evens them out."""

    gamma: Annotated[float, Field(ge=0), Tunable(1e-4, 1.0, log=True)] = 0.1
    rho: Annotated[float, Field(ge=0), Tunable(0.0, 1.0)] = 0.1


class DoubleSampling(HalvedJacobian[DoubleSamplingOptions]):
    """MoDo: w <- w - lr * m((J_1 + J_2)' a / 2); each head takes its own gradient.

    a <- P(a - gamma (J_1 J_2' a + rho a)), a_k = 1/N at first, P the projection onto the simplex; J_1 and J_2 are the
    Jacobians of two halves of the mini-batch. Where labels are missing, the tasks with labels share among themselves
    what they had together, and count in the step as if it were all; all others keep theirs.
    """

    info = StrategyInfo(
        name="modo",
        title="MoDo",
        rule="one step on gradients with shares that move towards the shortest combination, seen in two halves",
        family="later work",
        options=DoubleSamplingOptions,
        backwards="2 N, and one more where the trunk is large",
        memory="two Jacobian rows per task, of a part of the trunk where it is large",
        reference="Chen et al. 2023, Three-Way Trade-Off in Multi-Objective Learning",
    )

    def _weights(self, at: Tensor, products: Tensor) -> Tensor:
        own = self._shares.of(at)
        return self._shares.move(at, own - self.options.gamma * (products @ own + self.options.rho * own))
