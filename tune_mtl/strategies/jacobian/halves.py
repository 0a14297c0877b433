"""Two Jacobians of one mini-batch, each from half of its samples: what their product says is not biased by noise."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tune_mtl.core.nested import rows_of
from tune_mtl.strategies.base import Labelled, Losses, OptionsT
from tune_mtl.strategies.jacobian.descent import JacobianStep
from tune_mtl.strategies.jacobian.matrix import Jacobian
from tune_mtl.strategies.simplex import Shares


class HalvedJacobian(JacobianStep[OptionsT]):
    """One step on ``b' J``, b found from the gradients of two halves of the mini-batch; heads take their own gradients.

    A task's labelled rows are cut in the middle, after one forward pass of them all. J_1 and J_2 hold the gradients of
    its weighted loss over either half, times twice the half's share of the rows: (J_1 + J_2) / 2 is the Jacobian J of
    the mini-batch. A lone row is both halves. What is known of gradients is ``J_1 J_2'``: its expectation is that of
    ``J J'`` without the part that comes from a sample's noise multiplied by itself.
    """

    def setup(self) -> None:
        """Start with equal shares."""
        self._shares = Shares(len(self.tasks), next(self.model.parameters()).device)

    @abstractmethod
    def _weights(self, at: Tensor, products: Tensor) -> Tensor:
        """Return b for the tasks ``at`` these positions, ``products`` being ``J_1 J_2'`` in float64."""

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        shared = self.shared_pass(batch)
        rows = self.rows(shared.losses)
        if rows:
            self.optimizers[0].zero_grad()
            if shared.leaves:
                trunk = self.trainable(())
                predictions = {task: shared.predictions[task] for task in rows}
                halves = [pair for half in (0, 1) for pair in self._half(half, predictions, batch)]
                found = self._aggregated(tuple(rows), self._jacobian(halves, trunk, shared))
                for weight, gradient in zip(trunk, found, strict=True):
                    self.set_gradient(weight, gradient)
            else:
                torch.autograd.backward(list(rows.values()))
            self.apply(self.optimizers[0])
        return self.detached(shared.losses)

    def _half(self, which: int, predictions: Mapping[str, Any], batch: Labelled) -> list[tuple[str, Tensor]]:
        """Return the weighted losses over one half of each task's rows, times its share of them."""
        found, counts = [], batch.counts()
        for task, prediction in predictions.items():
            count, rows, target = counts[task], batch.rows[task], batch.targets[task]
            start, end = ((0, count // 2), (count // 2, count))[which] if count > 1 else (0, 1)
            if rows is None:
                prediction, target = rows_of(prediction, start, end), rows_of(target, start, end)
            else:
                rows = rows[start:end]
            loss = self.tasks[task].loss_on(prediction, target, rows)
            found.append((task, ((end - start) / count if count > 1 else 0.5) * self.weighted(task, loss)))
        return found

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:
        """Return the combination of the rows: those of the first halves of all ``tasks``, then those of the second."""
        halves = jacobian.halves(torch.promote_types(jacobian.dtype, torch.float32))
        weights = self._weights(self.positions(tasks), 4.0 * halves)  # each row has half the length of J_1's and J_2's
        return jacobian.combined(torch.cat([weights, weights]))

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the tasks' shares."""
        return super().state_dict() | {"shares": self._shares.values}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._shares.values.copy_(state["shares"])
