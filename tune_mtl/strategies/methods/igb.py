"""Improvable gap balancing: tasks that are still far from done weigh more."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from tune_mtl.core.options import Options, ShareOfRun, Tunable
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.labels import times

_LEAST = 1e-8
"""Added to each loss: of a task that is perfect on a mini-batch the logarithm keeps a finite gradient."""


class ImprovableGapOptions(Options):
    """IGB: losses are set in relation to what they were in the later half of the first ``window`` mini-batches."""

    window: Annotated[int, Field(ge=1), ShareOfRun(0.05), Tunable(0.01, 0.2, log=True)] = 500


class ImprovableGap(Strategy[ImprovableGapOptions]):
    """IGB v1: w <- w - lr * m(d/dw sum_k c_k a_k log L_k), heads included, a held constant.

    a_k = 1 for W mini-batches. B_k is task k's mean loss in the later half of them, as the authors have the second of
    two epochs. From then on a = n softmax(L_1 / B_1, ..., L_n / B_n) over the n tasks with labels. A task without
    labels in that half has its first loss after it as B_k. L_k is the loss plus 1e-8. A loss below 0 has no logarithm
    (autograd would go up it all the same), and leaves weights that are not finite: the trial diverges.
    """

    info = StrategyInfo(
        name="igb",
        title="Improvable gap balancing (IGB v1)",
        rule="one step on a weighted sum of log losses: tasks whose loss is large beside what it was at first weigh"
        " more",
        family="loss weights",
        options=ImprovableGapOptions,
        weighs_otherwise="it takes the logarithm of losses, and multiplies by weights then",
        differs_from_sus="it takes the logarithm of a lone loss: the gradient is divided by the loss",
        fp16=True,
        reference="Dai et al. 2023, Improvable Gap Balancing for Multi-Task Learning",
    )

    def setup(self) -> None:
        """Start without a base."""
        device = next(self.model.parameters()).device
        self._sums = torch.zeros(len(self.tasks), dtype=torch.float64, device=device)
        self._counts = torch.zeros_like(self._sums)

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        losses = self.losses(self.tasks, batch)
        chosen = self.taking_part(losses)
        if chosen:
            seen = torch.stack([loss.detach() for loss in chosen.values()]).double() + _LEAST
            weights = torch.where(seen < 0, torch.nan, self._weights(self.positions(chosen), seen))
            logs = {task: torch.log(loss + _LEAST) for task, loss in chosen.items()}
            self.descend(self.optimizers[0], self.total(times(weights, logs)))
        return {task: loss.detach() for task, loss in losses.items()}

    def _weights(self, at: Tensor, losses: Tensor) -> Tensor | float:
        """Return the weights of the tasks ``at`` these positions, whose losses may become part of their bases."""
        window = self.options.window
        if self.mini_batches < window // 2:
            return 1.0
        known = self.mini_batches >= window
        counts = (self._counts[at] == 0).double() if known else torch.ones_like(losses)
        self._sums[at] += torch.where(counts > 0, losses, 0.0)
        self._counts[at] += counts
        if not known:
            return 1.0
        weights: Tensor = len(losses) * torch.softmax(losses / (self._sums[at] / self._counts[at]), dim=0)
        return weights

    def state_dict(self) -> dict[str, Any]:
        """Return the state with what the bases are made of."""
        return super().state_dict() | {"base_sums": self._sums, "base_counts": self._counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._sums.copy_(state["base_sums"])
        self._counts.copy_(state["base_counts"])
