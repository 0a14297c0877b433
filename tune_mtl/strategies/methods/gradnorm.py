"""GradNorm: task weights that learn to balance gradient norms."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer

from tune_mtl.core.options import Options, Tunable
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.layers import LayerName, measured_layer


class GradNormOptions(Options):
    """GradNorm: ``alpha`` says how strongly slow tasks are pulled up.

    ``layer`` is the trunk's module at whose weights gradients are compared; by default its last convolution, else its
    last layer with weights.
    """

    alpha: Annotated[float, Field(ge=0), Tunable(0.1, 3.0, log=True)] = 1.5
    layer: LayerName = None


class GradNorm(Strategy[GradNormOptions]):
    """One step on ``sum_k a_k c_k L_k``; then the weights a take one of their own, to balance the tasks.

    With W the weights of one layer, n_k = |c_k dL_k/dW|, G_k = |a_k| n_k, and r_k = (L_k / L_k(0)) / mean:
    a <- a - lr * m(d/da sum_k |G_k - mean(G) r_k^alpha|), the target held constant; then a is scaled to sum to N.
    The derivative is sign(G_k - target_k) sign(a_k) n_k, so no second backward pass is needed. The weights' step is no
    update of the network: it counts neither as one nor in its path.
    """

    info = StrategyInfo(
        name="gradnorm",
        title="GradNorm",
        rule="one step on a weighted sum whose weights balance the tasks' gradient norms and training rates",
        family="baselines",
        options=GradNormOptions,
        backwards="1, and N down to one layer",
        memory="one gradient of that layer",
        reference="Chen et al. 2018, GradNorm: Gradient Normalization for Adaptive Loss Balancing",
    )

    def setup(self) -> None:
        """Choose the layer, and start with equal weights."""
        self._layer = measured_layer(self.model.trunk, self.options.layer, self.info.name)
        self.balance = nn.Parameter(torch.ones(len(self.tasks), dtype=torch.float64, device=self._layer.device))
        self._first = torch.full_like(self.balance, torch.nan, requires_grad=False)

    def make_optimizers(self) -> list[Optimizer]:
        """Make one over everything, and one of the same kind over the weights."""
        return [self.recipe.optimizer(self.trainable(self.tasks)), self.recipe.optimizer([self.balance])]

    def learn(self, batch: Labelled) -> Losses:
        """Take one update of the network, then one step of the weights."""
        losses = self.losses(self.tasks, batch)
        rows = self.rows(losses)
        if not rows:
            return {task: loss.detach() for task, loss in losses.items()}
        chosen = self.positions(rows)
        norms = torch.stack([self._norm(loss) for loss in rows.values()]).double()
        network, weights = self.optimizers
        network.zero_grad()
        balance = self.balance.detach()[chosen]
        total = sum(balance[index].to(loss.dtype) * loss for index, loss in enumerate(rows.values()))
        assert isinstance(total, Tensor)
        total.backward()  # type: ignore[no-untyped-call]
        self.balance.grad = self._slope(chosen, norms, torch.stack([losses[task].detach() for task in rows]).double())
        self.apply(network)
        weights.step()
        with torch.no_grad():
            self.balance.mul_(len(self.tasks) / self.balance.sum())
        return {task: loss.detach() for task, loss in losses.items()}

    def _norm(self, loss: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss, self._layer, retain_graph=True, materialize_grads=True)
        norm: Tensor = torch.linalg.vector_norm(gradient)
        return norm

    def _slope(self, chosen: Tensor, norms: Tensor, losses: Tensor) -> Tensor:
        """Return the derivative of the balance loss, zero for tasks without labels here."""
        first = self._first[chosen]
        first = torch.where(first.isnan() & losses.isfinite() & (losses > 0), losses, first)
        self._first[chosen] = first
        ratios = torch.where(first.isnan(), 1.0, losses / first)
        ratios = ratios / ratios.mean()
        balance = self.balance.detach()[chosen]
        scaled = balance.abs() * norms
        slope = torch.zeros_like(self._first)
        slope[chosen] = torch.sign(scaled - scaled.mean() * ratios**self.options.alpha) * balance.sign() * norms
        return slope

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the weights and the first losses."""
        return super().state_dict() | {"balance": self.balance.detach(), "first": self._first}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        with torch.no_grad():
            self.balance.copy_(state["balance"])
        self._first.copy_(state["first"])
