"""DB-MTL: losses and gradients are both brought to one scale."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from tune_mtl.core.options import Options, Tunable
from tune_mtl.strategies.base import Losses
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.jacobian.averages import RowAverages, RowByRow
from tune_mtl.strategies.labels import times

_LEAST = 1e-8
"""Added to losses under the logarithm, and to lengths that are divided by."""


class DualBalancingOptions(Options):
    """DB-MTL: ``beta`` is how much of an averaged gradient stays; it falls with the t-th to ``beta / t ** power``."""

    beta: Annotated[float, Field(ge=0, lt=1), Tunable(0.0, 0.95)] = 0.9
    power: Annotated[float, Field(ge=0), Tunable(values=(0.0, 0.5))] = 0.0


class DualBalancing(RowByRow[DualBalancingOptions]):
    """DB-MTL: w <- w - lr * m(sum_k c_k (max_j |Y_j| / |Y_k|) Y_k); heads take the gradient of c_k log L_k.

    Y_k <- h_k + beta_t (Y_k - h_k) averages the gradients h_k of log L_k on the trunk, Y_k = 0 at first (so that the
    first step is 1 - beta as long), beta_t = beta / t ** power, t counting the mini-batches with labels of task k.
    Tasks without labels take no part. 1e-8 is added to L_k and to the |Y_k| that is divided by. A loss below 0 has no
    logarithm (autograd would go up it all the same), and leaves weights that are not finite: the trial diverges.
    """

    info = StrategyInfo(
        name="db_mtl",
        title="Dual-balancing (DB-MTL)",
        rule="one step on the sum of averaged gradients of log losses, each as long as the longest",
        family="later work",
        options=DualBalancingOptions,
        backwards="N",
        memory="one averaged row per task (N x trunk)",
        weighs_otherwise="its weights multiply gradients that were brought to one length",
        differs_from_sus="it takes the logarithm of a lone loss, and averages its gradient",
        reference="Lin et al. 2023, Dual-Balancing for Multi-Task Learning",
    )

    def setup(self) -> None:
        """Start with averages of zero."""
        self._averages = RowAverages(self.tasks, self.trainable(()))

    def rows(self, losses: Losses) -> Losses:
        """Return the weighted logarithms of the losses of the tasks that take part."""
        chosen = self.taking_part(losses)
        return {task: self.weighted(task, loss) for task, loss in _logs(chosen).items()} if chosen else {}

    def _aggregated(
        self, tasks: tuple[str, ...], rows: Iterable[list[Tensor]], trunk: Sequence[nn.Parameter]
    ) -> Sequence[Tensor]:
        """Return the sum of the averaged rows, brought to one length and then weighted."""
        given = [self.weights[task] for task in tasks]
        for task, weight, row in zip(tasks, given, rows, strict=True):
            own = row if weight == 1.0 else [gradient / weight for gradient in row]
            self._averages.move(task, own, self._rate)
        at = self.positions(tasks)
        lengths = self._averages.lengths(at)
        longest = lengths.max()
        if any(weight != 1.0 for weight in given):
            longest = longest * torch.tensor(given, dtype=torch.float64).to(at.device, non_blocking=True)
        shares = longest / (lengths + _LEAST)
        return self._averages.shaped(self._averages.combined(at, shares), trunk)

    def _rate(self, move: int) -> float:
        return 1.0 - self.options.beta / float(move**self.options.power)

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the averages: as large as N trunks."""
        return super().state_dict() | {"averages": self._averages.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._averages.load_state_dict(state["averages"])


def _logs(losses: Losses) -> Losses:
    """Return the logarithms of losses; of one below 0, neither it nor its gradient is finite."""
    negative = torch.stack([loss.detach() < 0 for loss in losses.values()])
    factors = torch.where(negative, torch.nan, 1.0)
    return times(factors, {task: torch.log(loss + _LEAST) for task, loss in losses.items()})
