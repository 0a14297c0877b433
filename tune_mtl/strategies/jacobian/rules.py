"""Rules of TorchJD's that do not make weights of the rows' Gramian as it is, without a matrix of all rows.

They are written for rows that come one by one, or for some columns at a time. What they remember between mini-batches
is kept in TorchJD's own aggregator.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor

from tune_mtl.strategies.gramian import pieces
from tune_mtl.strategies.jacobian.compat import excess_weights, known_weights
from tune_mtl.strategies.jacobian.descent import JacobianDescent
from tune_mtl.strategies.jacobian.matrix import Jacobian


class KnownWeights(JacobianDescent):
    """One step on a sum of gradients whose weights do not depend on them: with one pass back through the trunk."""

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:
        """Return the sum of the rows times their weights."""
        with self._own_randomness():
            weights = known_weights(self._aggregator(tasks), jacobian.count, jacobian.dtype)
        return jacobian.combined(weights.to(jacobian.device, non_blocking=True))


class ExcessRisks(JacobianDescent):
    """ExcessMTL: one step on gradients weighted by excess risks, each estimated from its own row.

    Of every task the sums of its squared gradients are held, of the Jacobian one row.
    """

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:
        """Return the sum of the rows times their weights."""
        return jacobian.combined(excess_weights(self._aggregator(tasks), jacobian))


class EqualCosines(JacobianDescent):
    """ConFIG: one step on the direction with equal cosine to all gradients, as long as all its projections.

    With U the rows brought to length 1, it is the pseudoinverse of U times a vector of ones, ``U' (U U')^+ 1``: a sum
    of rows, whose weights follow from their inner products. Singular values of U count as zero where TorchJD's count:
    below the larger of U's sides times the rounding of a number, times the largest. In single precision and over
    millions of weights that is more than half of the largest.
    """

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:  # noqa: ARG002
        """Return the sum of the rows with those weights; it is not finite where the rows are not."""
        products = jacobian.gramian(torch.float64).cpu()
        sides = max(jacobian.count, sum(jacobian.sizes))
        weights = equal_cosine_weights(products, sides * torch.finfo(jacobian.dtype).eps)
        return jacobian.combined(weights.to(jacobian.device, non_blocking=True))


def equal_cosine_weights(gramian: Tensor, tolerance: float) -> Tensor:
    """Return ConFIG's weights of rows with this Gramian, in float64; NaN where it is not finite.

    Singular values of the rows at length 1 count as zero below ``tolerance`` times the largest, and where the Gramian's
    rounding hides them.
    """
    if not bool(gramian.isfinite().all()):
        return torch.full_like(gramian.diagonal(), torch.nan)
    lengths = gramian.diagonal().sqrt()
    inverse = torch.where(lengths > 0, 1 / lengths, 0.0)
    cosines = gramian * torch.outer(inverse, inverse)
    values, vectors = torch.linalg.eigh(cosines)
    hidden = 16 * len(gramian) * torch.finfo(torch.float64).eps
    kept = values > values.max() * max(tolerance**2, hidden)
    within = vectors[:, kept]
    best = within @ (within.sum(dim=0) / values[kept])
    length = (best @ cosines @ best).clamp(min=0.0).sqrt().clamp(min=1e-12)
    direction = inverse * best / length
    weights: Tensor = (gramian @ direction).sum() * direction
    return weights


class TrimmedColumns(JacobianDescent):
    """Trimmed mean: one step on the mean gradient, per weight without its ``trim_number`` largest and smallest values.

    A value that is no number counts as the largest.
    """

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:  # noqa: ARG002
        """Return the mean of what is left of each column."""
        trimmed: int = self.options.trim_number  # type: ignore[attr-defined]
        if not trimmed:
            return jacobian.combined(torch.full((jacobian.count,), 1 / jacobian.count, device=jacobian.device))
        found = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in jacobian.tensors]
        for part in jacobian.parts():
            means = torch.cat([_trimmed_mean(piece, trimmed) for piece in pieces(part.rows)])
            for place, mean in jacobian.split(part, means):
                found[place].view(-1).copy_(mean)
        return found


def _trimmed_mean(rows: Tensor, trimmed: int) -> Tensor:
    """Return the mean of each column without so many values at each end; ``rows`` are overwritten."""
    ordered = list(rows.nan_to_num_(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf))
    spare = torch.empty_like(ordered[0])
    for low, high in exchanges(len(ordered)):
        torch.minimum(ordered[low], ordered[high], out=spare)
        torch.maximum(ordered[low], ordered[high], out=ordered[high])
        ordered[low], spare = spare, ordered[low]
    return torch.stack(ordered[trimmed : len(ordered) - trimmed]).mean(dim=0)


@cache
def exchanges(count: int) -> tuple[tuple[int, int], ...]:
    """Return which two of ``count`` values to put in order, one pair after the other, so that all are (Batcher).

    The pairs are the same whatever the values, so that whole rows are sorted by minima and maxima of two of them.
    """
    return tuple(_exchanges(count))


def _exchanges(count: int) -> Iterator[tuple[int, int]]:
    run = 1
    while run < count:
        apart = run
        while apart:
            for start in range(apart % run, count - apart, 2 * apart):
                for low in range(start, min(start + apart, count - apart)):
                    if low // (2 * run) == (low + apart) // (2 * run):
                        yield low, low + apart
            apart //= 2
        run *= 2
