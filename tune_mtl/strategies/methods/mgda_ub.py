"""MGDA-UB: the weights of the shortest convex combination of the gradients at the trunk's output."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from tune_mtl.core.options import Options, Tunable
from tune_mtl.strategies.base import Labelled, Losses, SharedPass, Strategy
from tune_mtl.strategies.gramian import gramian
from tune_mtl.strategies.info import StrategyInfo, Variant
from tune_mtl.strategies.jacobian.descent import HELD
from tune_mtl.strategies.jacobian.passes import Arrived, TrunkJacobian

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"


class UpperBoundOptions(Options):
    """MGDA-UB: ``normalize`` says what gradients are divided by before their weights are sought.

    With ``none`` they stay as they are, as in the paper; with ``l2`` they are divided by their norms, with ``loss`` by
    their losses, with ``loss+`` by both, as Sener and Koltun also do. ``at`` says which gradients these are: at the
    trunk's output, the ``representation``, or over all weights of the ``trunk``: MGDA itself, at N + 1 passes back.
    """

    normalize: Annotated[Literal["none", "l2", "loss", "loss+"], Tunable(values=("none", "l2", "loss", "loss+"))] = (
        "none"
    )
    at: Literal["representation", "trunk"] = "representation"


class UpperBoundDescent(Strategy[UpperBoundOptions]):
    """MGDA-UB: w <- w - lr * m(sum_k a_k c_k g_k(w)), heads included.

    a = argmin |sum_k a_k c_k dL_k/dz|^2 over the simplex, z the trunk's output: an upper bound of the same norm over
    the trunk's weights, at the cost of the heads' backward passes only. With ``at=trunk`` it is that norm itself. With
    ``normalize`` the weights are sought for gradients divided by their norms or losses.
    """

    info = StrategyInfo(
        name="mgda_ub",
        title="MGDA-UB",
        rule="one step on the weighted sum with the shortest gradient at the trunk's output",
        family="baselines",
        options=UpperBoundOptions,
        memory="one gradient of the trunk's output per task",
        variants=(Variant(option="at", value="trunk", backwards="N + 1", memory=HELD),),
        waits="1",
        reference="Sener and Koltun 2018, Multi-Task Learning as Multi-Objective Optimization",
    )

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        shared = self.shared_pass(batch)
        rows = self.rows(shared.losses)
        if rows:
            weights = self._weights(list(rows.values()), shared) if shared.leaves else [1.0] * len(rows)
            total = sum(weight * loss for weight, loss in zip(weights, rows.values(), strict=True))
            assert isinstance(total, Tensor)
            self.optimizers[0].zero_grad()
            total.backward()  # type: ignore[no-untyped-call]
            shared.finish()
            self.apply(self.optimizers[0])
        return {task: loss.detach() for task, loss in shared.losses.items()}

    def _weights(self, losses: list[Tensor], shared: SharedPass) -> list[float]:
        values = torch.stack([loss.detach() for loss in losses]).double()
        read = torch.column_stack([self._gramian(losses, shared), values]).cpu().numpy()  # one copy to the host
        products, divisors = read[:, :-1], self._divisors(read)
        weights: list[float] = min_norm_weights(products / np.outer(divisors, divisors)).tolist()
        return weights

    def _gramian(self, losses: list[Tensor], shared: SharedPass) -> Tensor:
        if self.options.at == "representation":
            rows = [
                torch.autograd.grad(loss, shared.leaves, retain_graph=True, materialize_grads=True) for loss in losses
            ]
            return gramian(zip(*rows, strict=True))
        trunk, count = self.trainable(()), len(shared.leaves)
        places = [*shared.leaves, *trunk]
        found = (torch.autograd.grad(loss, places, retain_graph=True, allow_unused=True) for loss in losses)
        arriving = (Arrived(given[:count], given[count:]) for given in found)
        return TrunkJacobian(shared, trunk, arriving, len(losses)).gramian(torch.float64)

    def _divisors(self, read: Array) -> Array:
        """Return what each gradient is divided by, from their Gramian and, in the last column, their losses."""
        normalize = self.options.normalize
        divisors = np.ones(len(read))
        if normalize in ("loss", "loss+"):
            divisors *= np.abs(read[:, -1])
        if normalize in ("l2", "loss+"):
            divisors *= np.sqrt(np.diag(read))
        return np.where(divisors > 0, divisors, 1.0)


def min_norm_weights(gramian: Array) -> Array:
    """Return the point ``a`` of the simplex with the smallest ``a' G a``; equal weights where G is not finite.

    Exact, by non-negative least squares (Lawson and Hanson's reduction): with rows scaled to unit length,
    ``b_i = a_i |g_i|`` and ``R'R`` their Gramian, the solution ``b >= 0`` of ``R b = 0, sum_i b_i / |g_i| = 1`` in the
    sense of least squares is a multiple of the one sought. Scaling keeps gradients of very different lengths apart.
    """
    count = len(gramian)
    equal = np.full(count, 1.0 / count)
    if not np.isfinite(gramian).all():
        return equal
    lengths = np.sqrt(np.diag(gramian))
    if not (lengths > 0).all():
        return np.asarray((lengths == 0) / (lengths == 0).sum())
    values, vectors = np.linalg.eigh(gramian / np.outer(lengths, lengths))
    root = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T
    shares = lengths.min() / lengths
    system = np.vstack([root, shares[None]])
    solution, _ = nnls(system, np.append(np.zeros(count), 1.0), maxiter=100 * count)
    weights = solution / lengths
    return weights / weights.sum() if weights.sum() > 0 else equal
