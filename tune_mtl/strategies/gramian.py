"""Inner products of the tasks' gradients, summed on their device."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

_IN_CACHE, _ONE_BY_ONE, _ON_DEVICE = 2**18, 2**16, 2**24
"""Numbers of the Jacobian that are widened and multiplied at once: what a CPU's cache holds, less where rows come one
by one and are put beside each other first (the C library asks the system for larger buffers, and gets them empty), and
what keeps a GPU busy."""


def gramian(
    parts: Iterable[Tensor | Sequence[Tensor]],
    precision: torch.dtype = torch.float64,
    left: slice = slice(None),
    right: slice = slice(None),
) -> Tensor:
    """Return ``J @ J.T`` in float64, on J's device, of products taken in ``precision``.

    J is given in parts of its columns, each a tensor with one row per task, or its rows one by one. They are multiplied
    piece by piece, without a copy of J, and the pieces' products summed in float64. The shortest combination of rows
    cancels most of them: to find it in float64, products must be as precise. With ``left`` and ``right`` they are those
    of the rows on the left with the rows on the right.
    """
    total: Tensor | None = None
    for part in parts:
        for piece in pieces(part):
            product = (piece[left].to(precision) @ piece[right].to(precision).T).double()
            total = product if total is None else total.add_(product)
    assert total is not None, "a Jacobian has at least one part"
    return total


def pieces(part: Tensor | Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield some columns after others of a part of a Jacobian, as many as are best worked on at once."""
    rows = part.flatten(1) if isinstance(part, Tensor) else [row.flatten() for row in part]
    in_cache = _IN_CACHE if isinstance(rows, Tensor) else _ONE_BY_ONE
    at_once = in_cache if rows[0].device.type == "cpu" else _ON_DEVICE
    columns = max(1, at_once // len(rows))
    for start in range(0, max(1, len(rows[0])), columns):
        chosen = slice(start, start + columns)
        yield rows[:, chosen] if isinstance(rows, Tensor) else torch.stack([row[chosen] for row in rows])
