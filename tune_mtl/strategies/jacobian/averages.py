"""A moving average of each task's row of the Jacobian, and what rules do with such rows."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tune_mtl.core.torch_compat import move_each
from tune_mtl.strategies.base import Labelled, Losses, OptionsT, Strategy
from tune_mtl.strategies.jacobian.matrix import common_dtype

_COLUMNS = 2**18
"""Numbers of a row whose squares are summed in the rows' own precision: such sums are summed in float64."""


class RowByRow(Strategy[OptionsT]):
    """One step on what a rule makes of the tasks' gradients, which it sees one by one; heads take their own gradient.

    A pass back goes through a task's head and the trunk at once.
    """

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        losses = self.losses(self.tasks, batch)
        rows = self.rows(losses)
        if rows:
            self.optimizers[0].zero_grad()
            trunk = self.trainable(())
            if trunk:
                direction = self._aggregated(tuple(rows), self._each_row(rows, trunk), trunk)
                for weight, gradient in zip(trunk, direction, strict=True):
                    self.set_gradient(weight, gradient)
            else:
                torch.autograd.backward(list(rows.values()))
            self.apply(self.optimizers[0])
        return self.detached(losses)

    def _each_row(self, rows: Losses, trunk: list[nn.Parameter]) -> Iterator[list[Tensor]]:
        """Yield each task's gradients on the trunk, as vectors, having given the head its own."""
        in_trunk = {id(weight) for weight in trunk}
        for task, loss in rows.items():
            head = [weight for weight in self.trainable((task,)) if id(weight) not in in_trunk]
            found = torch.autograd.grad(loss, [*trunk, *head], retain_graph=True, allow_unused=True)
            self.add_gradients(head, found[len(trunk) :])
            yield [
                weight.new_zeros(weight.numel()) if gradient is None else gradient.flatten()
                for weight, gradient in zip(trunk, found, strict=False)
            ]

    @abstractmethod
    def _aggregated(
        self, tasks: tuple[str, ...], rows: Iterable[list[Tensor]], trunk: Sequence[nn.Parameter]
    ) -> Sequence[Tensor]:
        """Return the gradient of each weight of the ``trunk``, made of the ``rows`` of these ``tasks``."""


class RowAverages:
    """Moving averages of the gradients of tasks: ``Y_k <- Y_k + rate (g_k - Y_k)``, Y_k = 0 at first.

    One buffer, ``(tasks, numbers of all weights)``, whatever is labelled together: a row moves when its task has
    labels, and its rate depends on how often it has moved. The gradients come and go row by row.
    """

    def __init__(self, tasks: Iterable[str], trunk: Sequence[nn.Parameter]) -> None:
        self.moves = dict.fromkeys(tasks, 0)
        self._sizes = [weight.numel() for weight in trunk]
        like: Sequence[Tensor] = trunk or [torch.zeros(())]  # a frozen trunk has no rows
        self._rows = like[0].new_zeros(len(self.moves), sum(self._sizes), dtype=common_dtype(like))
        self._places = {task: place for place, task in enumerate(self.moves)}

    def move(self, task: str, gradients: Sequence[Tensor], rate: Callable[[int], float]) -> None:
        """Move the row of ``task`` towards its gradients, a vector in pieces; nothing here waits for the device.

        ``rate`` says how far a row goes in its first move (1), in its second (2), ...
        """
        self.moves[task] += 1
        held = torch.split(self._rows[self._places[task]], [len(gradient) for gradient in gradients])
        move_each([*held], [gradient.to(self._rows.dtype) for gradient in gradients], rate(self.moves[task]))

    def combined(self, at: Tensor, shares: Tensor) -> Tensor:
        """Return the sum of the rows ``at`` these positions times their ``shares``, a vector."""
        every = len(at) == len(self.moves)
        all_shares = shares if every else shares.new_zeros(len(self.moves)).index_copy(0, at, shares)
        return all_shares.to(self._rows.dtype) @ self._rows

    def shaped(self, direction: Tensor, trunk: Sequence[Tensor]) -> list[Tensor]:
        """Return a vector of as many numbers as a row in pieces like the tensors of the ``trunk``."""
        pieces = zip(torch.split(direction, self._sizes), trunk, strict=True)
        return [piece.view_as(weight).to(weight.dtype) for piece, weight in pieces]

    def lengths(self, at: Tensor) -> Tensor:
        """Return the Euclidean length of each row ``at`` these positions, in float64."""
        parts = [torch.linalg.vector_norm(part, dim=1).double() for part in torch.split(self._rows, _COLUMNS, dim=1)]
        lengths: Tensor = parts[0] if len(parts) == 1 else torch.linalg.vector_norm(torch.stack(parts), dim=0)
        return self._chosen(lengths, at)

    def products(self, at: Tensor, direction: Tensor) -> Tensor:
        """Return the inner product of each row ``at`` these positions with ``direction``, in float64."""
        pieces = zip(torch.split(self._rows, _COLUMNS, dim=1), torch.split(direction, _COLUMNS), strict=True)
        return self._chosen(torch.stack([(part @ along).double() for part, along in pieces]).sum(dim=0), at)

    def _chosen(self, values: Tensor, at: Tensor) -> Tensor:
        return values if len(at) == len(values) else values[at]

    def state_dict(self) -> dict[str, Any]:
        """Return rows, a tensor for each weight, and counts; tensors are references."""
        return {"moves": dict(self.moves), "rows": [*torch.split(self._rows, self._sizes, dim=1)]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self.moves = dict(state["moves"])
        for held, saved in zip(torch.split(self._rows, self._sizes, dim=1), state["rows"], strict=True):
            held.copy_(saved)
