"""A moving average of each task's row of the Jacobian, and what rules do with such rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tune_mtl.core.torch_compat import move_each


class RowAverages:
    """Moving averages of the gradients of tasks: ``Y_k <- Y_k + rate (g_k - Y_k)``, Y_k = 0 at first.

    One buffer per weight, ``(tasks, numbers of the weight)``, whatever is labelled together: a row moves when its task
    has labels, and its rate depends on how often it has moved. The gradients come and go row by row.
    """

    def __init__(self, tasks: Iterable[str], trunk: Sequence[nn.Parameter]) -> None:
        self.moves = dict.fromkeys(tasks, 0)
        self.rows = [weight.new_zeros(len(self.moves), weight.numel()) for weight in trunk]
        self._places = {task: place for place, task in enumerate(self.moves)}

    def move(self, task: str, gradients: Sequence[Tensor], rate: Callable[[int], float]) -> None:
        """Move the row of ``task`` towards its gradients; nothing here waits for the device.

        ``rate`` says how far a row goes in its first move (1), in its second (2), ...
        """
        self.moves[task] += 1
        held = [rows[self._places[task]] for rows in self.rows]
        move_each(held, [gradient.flatten() for gradient in gradients], rate(self.moves[task]))

    def combined(self, at: Tensor, shares: Tensor, trunk: Sequence[Tensor]) -> list[Tensor]:
        """Return the sum of the rows ``at`` these positions times their ``shares``, shaped like the ``trunk``."""
        all_shares = shares.new_zeros(len(self.moves)).index_copy(0, at, shares)
        return [
            (all_shares.to(part.dtype) @ part).view_as(weight) for part, weight in zip(self.rows, trunk, strict=True)
        ]

    def lengths(self, at: Tensor) -> Tensor:
        """Return the Euclidean length of each row ``at`` these positions, in float64."""
        parts = [torch.linalg.vector_norm(part, dim=1).double() for part in self.rows]
        lengths: Tensor = torch.linalg.vector_norm(torch.stack(parts), dim=0)
        return lengths[at]

    def products(self, at: Tensor, direction: Sequence[Tensor]) -> Tensor:
        """Return the inner product of each row ``at`` these positions with ``direction``, in float64."""
        parts = [(part @ along.flatten()).double() for part, along in zip(self.rows, direction, strict=True)]
        return torch.stack(parts).sum(dim=0)[at]

    def state_dict(self) -> dict[str, Any]:
        """Return rows and counts; tensors are references."""
        return {"moves": dict(self.moves), "rows": self.rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self.moves = dict(state["moves"])
        for held, saved in zip(self.rows, state["rows"], strict=True):
            held.copy_(saved)
