"""Settings of torch that are everyone's: read, and put back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_KNOWN: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "precision of products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "use of deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}


def torch_settings() -> dict[str, Any]:
    """Return the settings by what they are called."""
    return {what: read() for what, (read, _) in _KNOWN.items()}


@contextmanager
def settings_put_back() -> Iterator[None]:
    """Put back, after a ``with``, the settings that were changed in it."""
    before = torch_settings()
    try:
        yield
    finally:
        for what, value in torch_settings().items():
            if value != before[what]:
                _KNOWN[what][1](before[what])
