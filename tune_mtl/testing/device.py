"""A CPU that is looked at as if it were a GPU: what starts on the device stays there until somebody copies it."""

import itertools
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tune_mtl.core.imports import own_frames

READS = (
    "_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique", "unique_", "_linalg_svd", "_linalg_eigh",
    "linalg_pinv",
)  # fmt: skip
"""Operations for which the host waits; decompositions look whether they have converged."""

_LAWS = str(Path(__file__).with_name("laws"))


@dataclass(frozen=True)
class Wait:
    """The host has waited for the device.

    Attributes:
        operation: For what.
        place: The line of the user's own file that asked for it, ``file:line``; empty where there is none.
    """

    operation: str
    place: str

    def __str__(self) -> str:
        return f"{self.operation} at {self.place}" if self.place else self.operation


class OnDevice(TorchDispatchMode):
    """Notes every wait; a result is on the device if any of its arguments is."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[Wait] = []
        self._held = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        self._alive: list[Tensor] = []  # so that nothing else comes to lie where these are

    def holds(self, tensor: Tensor) -> bool:
        """Return whether a tensor is on the device."""
        return tensor.untyped_storage().data_ptr() in self._held

    def note(self, operation: str) -> None:
        """Note that the host waits for this."""
        own = own_frames(itertools.takewhile(lambda frame: not frame.filename.startswith(_LAWS), _innermost_first()))
        self.waits.append(Wait(operation, f"{own[0].filename}:{own[0].lineno}" if own else ""))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        name, held = function._schema.name.removeprefix("aten::"), any(map(self.holds, given))
        if held and (name.startswith(READS) or (name == "index" and _by_mask(args[1]))):
            self.note(name)
        result = function(*args, **(kwargs or {}))
        for made in tree_leaves(result):
            if isinstance(made, Tensor) and made.untyped_storage().data_ptr():
                change = self._held.add if held else self._held.discard
                change(made.untyped_storage().data_ptr())
                self._alive += [made] if held else []
        return result


def _innermost_first() -> list[traceback.FrameSummary]:
    return traceback.extract_stack()[::-1]


def _by_mask(indices: Iterable[Tensor | None]) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


@contextmanager
def waits(tensors: Iterable[Tensor]) -> Iterator[list[Wait]]:
    """Yield the list of waits within this block, in which ``tensors`` are on the device.

    What is asked of a tensor's device as such, ``tensor.to(other.device)``, cannot be told from staying where it is.
    """
    names = ("cpu", "to", "tolist", "numpy", "__repr__")
    usual = {name: getattr(Tensor, name) for name in names}
    with OnDevice(tensors) as device:

        def copied(tensor: Tensor, name: str) -> Tensor:
            device.note(name)
            return torch.from_numpy(usual["numpy"](tensor.detach()).copy())

        def cpu(tensor: Tensor, *args: Any, **keywords: Any) -> Any:
            return copied(tensor, "cpu") if device.holds(tensor) else usual["cpu"](tensor, *args, **keywords)

        def to(tensor: Tensor, *args: Any, **keywords: Any) -> Any:
            if device.holds(tensor) and "cpu" in (*(a for a in args if isinstance(a, str)), keywords.get("device")):
                return copied(tensor, "to").to(*args, **keywords)
            return usual["to"](tensor, *args, **keywords)

        replaced: dict[str, Callable[..., Any]] = {"cpu": cpu, "to": to}
        replaced |= {name: _noted(name, usual[name], device) for name in ("tolist", "numpy", "__repr__")}
        try:
            for name, method in replaced.items():
                setattr(Tensor, name, method)
            yield device.waits
        finally:
            for name in names:
                setattr(Tensor, name, usual[name])


def _noted(name: str, method: Callable[..., Any], device: OnDevice) -> Callable[..., Any]:
    def noted(tensor: Tensor, *args: Any, **keywords: Any) -> Any:
        if device.holds(tensor):
            device.note(name)
        return method(tensor, *args, **keywords)

    return noted
