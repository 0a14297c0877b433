"""Fixed weights that nobody chose: measured in the first mini-batches, so that all tasks pull equally hard."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from tune_mtl.core.options import Options, ShareOfRun, Tunable
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.layers import LayerName, measured_layer


class NormsOptions(Options):
    """Measured norms: gradients are measured in the first ``window`` mini-batches.

    ``at`` says over which weights: one ``layer`` (a module of the trunk; by default its last convolution, else its last
    layer with weights), or the whole ``trunk``, which costs a backward pass per task while it measures.
    """

    window: Annotated[int, Field(ge=1), ShareOfRun(0.05), Tunable(0.01, 0.2, log=True)] = 500
    at: Literal["layer", "trunk"] = "layer"
    layer: LayerName = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.at == "trunk" and self.layer is not None:
            raise ValueError(f"norms_layer='{self.layer}' names a layer, but norms_at=trunk: drop one of them")
        return self


class MeasuredNorms(Strategy[NormsOptions]):
    """SUS on a weighted sum: w <- w - lr * m(sum_k a_k c_k g_k(w)), a_k measured once and then fixed.

    For W mini-batches a_k = 1, and |dL_k/dV| is averaged over those with labels of task k, V the weights at which it is
    measured. From then on a_k = N (1/n_k) / sum_j (1/n_j), n_k the averages: all a_k n_k are equal, and the a_k sum to
    N. A task whose n_k is not known (no labels in W), 0 or not finite keeps a_k = 1, and is not among the N. The
    averages go to the host once, at the end of W; from then on this is `scalar`.
    """

    info = StrategyInfo(
        name="norms",
        title="Weights from measured norms",
        rule="one step on a weighted sum with fixed weights, which even out gradient norms measured at first",
        family="loss weights",
        options=NormsOptions,
        backwards="1, and N down to one layer at first",
        memory="one gradient of that layer",
        waits="1, at the end of the window",
        weighs_otherwise="it evens out the norms of gradients, and multiplies by weights then",
        reference="after Yang et al. 2025, AutoScale, and Guo et al. 2025 (arXiv 2509.23915), which scale by gradient"
        " norms",
    )

    def setup(self) -> None:
        """Choose the weights at which gradients are measured."""
        layer = measured_layer(self.model.trunk, self.options.layer, self.info.name)
        self._measured = [layer] if self.options.at == "layer" else self.trainable(())
        self._sums = torch.zeros(len(self.tasks), dtype=torch.float64, device=layer.device)
        self._counts = torch.zeros_like(self._sums)

    def learn(self, batch: Labelled) -> Losses:
        """Take one update; measure before it, while the window lasts."""
        if self.mini_batches >= self.options.window:
            return self.update(self.optimizers[0], self.tasks, batch)
        losses = self.losses(self.tasks, batch)
        chosen = self.taking_part(losses)
        if chosen:
            self._measure(chosen)
            self.descend(self.optimizers[0], self.total(losses))
        if self.mini_batches + 1 == self.options.window:
            self._weigh()
        return {task: loss.detach() for task, loss in losses.items()}

    def _measure(self, losses: Losses) -> None:
        at = self.positions(losses)
        self._sums[at] += torch.stack([self._norm(loss) for loss in losses.values()])
        self._counts[at] += 1

    def _norm(self, loss: Tensor) -> Tensor:
        gradients = torch.autograd.grad(loss, self._measured, retain_graph=True, materialize_grads=True)
        norm: Tensor = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]).double().norm()
        return norm

    def _weigh(self) -> None:
        """Multiply the tasks' own weights by what was measured."""
        found = dict(zip(self.tasks, torch.nan_to_num(self._sums / self._counts, posinf=0.0).tolist(), strict=True))
        known = {task: norm for task, norm in found.items() if norm > 0}
        inverse = {task: min(known.values()) / norm for task, norm in known.items()}
        for task, share in inverse.items():
            self.weights[task] *= len(inverse) * share / sum(inverse.values())

    def state_dict(self) -> dict[str, Any]:
        """Return the state with what was measured."""
        return super().state_dict() | {"norm_sums": self._sums, "norm_counts": self._counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``, with the weights that follow from it."""
        super().load_state_dict(state)
        self._sums.copy_(state["norm_sums"])
        self._counts.copy_(state["norm_counts"])
        self.weights = {name: task.weight for name, task in self.tasks.items()}
        if self.mini_batches >= self.options.window:
            self._weigh()
