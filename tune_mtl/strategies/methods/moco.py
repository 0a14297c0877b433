"""MoCo: MGDA whose gradients are averaged, so that single mini-batches do not mislead it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_mtl.core.options import Options, Tunable
from tune_mtl.strategies.base import Losses
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.jacobian.averages import RowAverages, RowByRow
from tune_mtl.strategies.simplex import Shares

_LEAST = 1e-8
"""Added to lengths that are divided by."""


class CorrectedGradientsOptions(Options):
    """MoCo: ``beta`` is the rate of the averages, ``gamma`` that of the tasks' shares, ``rho`` evens out the shares.

    At the t-th mini-batch they are ``beta / t ** beta_power`` and ``gamma / t ** gamma_power``. With ``rescale`` every
    gradient is first brought to the length of its loss.
    """

    beta: Annotated[float, Field(gt=0, le=1), Tunable(0.01, 1.0, log=True)] = 0.5
    beta_power: Annotated[float, Field(ge=0)] = 0.5
    gamma: Annotated[float, Field(ge=0), Tunable(1e-3, 10.0, log=True)] = 0.1
    gamma_power: Annotated[float, Field(ge=0)] = 0.5
    rho: Annotated[float, Field(ge=0)] = 0.0
    rescale: bool = False


class CorrectedGradients(RowByRow[CorrectedGradientsOptions]):
    """MoCo: w <- w - lr * m(sum_k a_k Y_k); each head takes its own gradient.

    Y_k <- Y_k - beta_t (Y_k - c_k g_k), Y_k = 0 at first, t counting the mini-batches with labels of task k; then
    a <- P(a - gamma_t (Y Y' + rho I) a), a_k = 1/N at first, P the projection onto the simplex, t counting all
    mini-batches. Where labels are missing, the tasks with labels share among themselves what they had together, and
    count in the step as if it were all (equally, where they have nothing); all others keep theirs.
    """

    info = StrategyInfo(
        name="moco",
        title="MoCo",
        rule="one step on averaged gradients, with shares that move towards the shortest combination",
        family="later work",
        options=CorrectedGradientsOptions,
        backwards="N",
        memory="one averaged row per task (N x trunk)",
        differs_from_sus="it averages the gradient of a lone task too",
        reference="Fernando et al. 2023, Mitigating Gradient Bias in Multi-objective Learning",
    )

    def setup(self) -> None:
        """Start with averages of zero and equal shares."""
        self._averages = RowAverages(self.tasks, self.trainable(()))
        self._shares = Shares(len(self.tasks), next(self.model.parameters()).device)
        self._lengths: list[Tensor] = []

    def rows(self, losses: Losses) -> Losses:
        """Return the weighted losses of the tasks that take part, and note how long their gradients shall be."""
        rows = super().rows(losses)
        self._lengths = [loss.detach() for loss in rows.values()]
        return rows

    def _aggregated(
        self, tasks: tuple[str, ...], rows: Iterable[list[Tensor]], trunk: Sequence[nn.Parameter]
    ) -> Sequence[Tensor]:
        """Return the sum of the averaged rows, each with its task's share."""
        for task, length, row in zip(tasks, self._lengths, rows, strict=True):
            own = _brought_to(length, row) if self.options.rescale else row
            self._averages.move(task, own, self._rate)
        at = self.positions(tasks)
        return self._averages.shaped(self._averages.combined(at, self._moved(at)), trunk)

    def _rate(self, move: int) -> float:
        return self.options.beta / float(move**self.options.beta_power)

    def _moved(self, at: Tensor) -> Tensor:
        """Move the shares of the tasks ``at`` these positions, and return what each has of what they have together."""
        gamma = self.options.gamma / float((self.mini_batches + 1) ** self.options.gamma_power)
        own = self._shares.of(at)
        slopes = self._averages.products(at, self._averages.combined(at, own)) + self.options.rho * own
        return self._shares.move(at, own - gamma * slopes)

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the averages, as large as N trunks, and the shares."""
        return super().state_dict() | {"averages": self._averages.state_dict(), "shares": self._shares.values}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._averages.load_state_dict(state["averages"])
        self._shares.values.copy_(state["shares"])


def _brought_to(length: Tensor, row: Sequence[Tensor]) -> list[Tensor]:
    """Return a task's gradients scaled to this length over all weights."""
    norms = torch.stack([torch.linalg.vector_norm(gradient) for gradient in row]).double()
    factor = length.double() / (torch.linalg.vector_norm(norms) + _LEAST)
    return [gradient * factor.to(gradient.dtype) for gradient in row]
