"""Jacobian descent at the trunk's output: rules that work on gradients there, with one pass through the trunk."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn

from tune_mtl.strategies.base import Losses, SharedPass
from tune_mtl.strategies.info import Variant
from tune_mtl.strategies.jacobian.descent import AggregatorOptions, JacobianDescent
from tune_mtl.strategies.jacobian.matrix import HeldJacobian, Jacobian

Place: TypeAlias = Literal["trunk", "representation"]

AT_REPRESENTATION = Variant(
    option="at", value="representation", backwards="1", memory="one gradient of the trunk's output per task"
)
"""What such a strategy costs there."""


class RepresentationOptions(AggregatorOptions):
    """``at`` says where tasks' gradients meet: over all weights of the ``trunk``, or at its output.

    At the output, the ``representation``, there is one pass back through the trunk instead of one per task.
    """

    at: Place = "trunk"

    def arguments(self, tasks: Sequence[str], like: Tensor) -> dict[str, Any]:  # noqa: ARG002
        """Return the aggregator's own options."""
        return self.model_dump(exclude={"at"})


class RepresentationDescent(JacobianDescent):
    """One step on ``A(J)``; with ``at=representation`` one on what the trunk makes of ``A(dL_1/dz, ..., dL_N/dz)``.

    z is all that the trunk returns, over all samples: for a rule that weighs rows the trunk takes the gradient of
    ``sum_k a_k c_k L_k`` with weights ``a`` found at z. A weight of the trunk that heads use themselves counts as a
    part of z.
    """

    options: RepresentationOptions

    def _backward(self, rows: Losses, shared: SharedPass) -> None:
        if self.options.at == "trunk":
            super()._backward(rows, shared)
            return
        trunk = self.trainable(())
        found = [[*part] for part in zip(*(self._both(*row, shared, trunk) for row in rows.items()), strict=True)]
        reached = {
            cast(nn.Parameter, place): torch.stack([torch.zeros_like(place) if row is None else row for row in part])
            for place, part in zip([*shared.leaves, *trunk], found, strict=True)
            if any(row is not None for row in part)
        }
        if reached:
            jacobian = HeldJacobian(list(reached), list(reached.values()))
            for place, gradient in zip(reached, self._aggregated(tuple(rows), jacobian), strict=True):
                self.set_gradient(place, gradient)
            shared.finish()

    def _both(
        self, task: str, loss: Tensor, shared: SharedPass, trunk: list[nn.Parameter]
    ) -> tuple[Tensor | None, ...]:
        arrived = self._through_head(task, loss, shared, trunk)
        return (*arrived.at_leaves, *arrived.direct)


class SignDropout(RepresentationDescent):
    """GradDrop: of the tasks' gradients, only those of one sign are kept, drawn by how pure that sign is.

    With ``at=trunk`` for each weight: P = (1 + sum_k g_k / sum_k |g_k|) / 2, the positive ones with probability P, the
    negative ones otherwise. With ``at=representation`` as published (Algorithm 1, and the authors' layer without its
    rescaling): for each element of z, the trunk's output without its first dimension, which is that of the samples,
    G_k = sum over samples of sign(z) c_k dL_k/dz; P as above, of the G_k; and dL_k/dz of all samples is kept where G_k
    has the sign that was drawn. Where G_k is 0 only the leak passes. Trunk weights that heads use themselves take the
    sum of those gradients.
    """

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:  # noqa: ARG002
        """Return what is kept of the tasks' gradients."""
        with self._own_randomness():
            if isinstance(jacobian, HeldJacobian):
                return [
                    rows.sum(dim=0) if isinstance(place, nn.Parameter) else self._kept(place.detach(), rows)
                    for place, rows in zip(jacobian.tensors, jacobian.gradients, strict=True)
                ]
            return self._kept_by_weight(jacobian)

    def _kept_by_weight(self, jacobian: Jacobian) -> list[Tensor]:
        """Return the sum of what is kept at the trunk's weights; of the rows only two sums are held, one for each sign.

        Random numbers are drawn for all weights at once, as TorchJD does.
        """
        draws = torch.rand(sum(jacobian.sizes), dtype=jacobian.dtype, device=jacobian.device)
        up, down = ([torch.zeros_like(weight) for weight in jacobian.tensors] for _ in range(2))
        for row in jacobian.rows():
            for above, below, gradient in zip(up, down, row, strict=True):
                above += gradient.clamp(min=0)
                below += gradient.clamp(max=0)
        pieces = [piece.view_as(weight) for piece, weight in zip(torch.split(draws, jacobian.sizes), up, strict=True)]
        return [self._of_one_sign(*sums) for sums in zip(up, down, pieces, strict=True)]

    def _of_one_sign(self, up: Tensor, down: Tensor, draws: Tensor) -> Tensor:
        total = up + down
        purity = 0.5 * (1 + total / (up - down))
        kept = (purity > draws) * up + (purity < draws) * down
        leak: float = self.options.leak  # type: ignore[attr-defined]
        return leak * total + (1 - leak) * kept

    def _kept(self, output: Tensor, rows: Tensor) -> Tensor:
        """Return the sum of what is kept of ``rows``, one gradient at ``output`` per task."""
        signed = (output.sign() * rows).to(torch.promote_types(rows.dtype, torch.float32))
        if output.ndim:
            signed = signed.sum(dim=1, keepdim=True)
        purity = 0.5 * (1 + signed.sum(dim=0) / signed.abs().sum(dim=0))
        positive = purity > torch.rand_like(purity)
        kept = torch.where(positive, signed > 0, signed < 0).to(rows.dtype)
        leak: float = self.options.leak  # type: ignore[attr-defined]
        return ((leak + (1 - leak) * kept) * rows).sum(dim=0)
