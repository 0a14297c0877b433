"""Everything random has its own generator, derived from the trial's one seed and its purpose."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed that depends on ``seed`` and ``purpose`` alone (on every machine and version)."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator of its own for one purpose: what it draws does not depend on what others draw."""
    return torch.Generator(device=device).manual_seed(derive(seed, *purpose))


def seed_everything(seed: int, *purpose: str | int, cuda: bool = True) -> None:
    """Seed the global states of torch (all devices, or the CPU alone), numpy and random: for users' own code."""
    value = derive(seed, *purpose)
    if cuda:
        torch.manual_seed(value)
    else:
        torch.default_generator.manual_seed(value)
    np.random.seed(value % 2**32)  # noqa: NPY002 - users' code draws from this state
    random.seed(value)


def global_state(*, cuda: bool = True) -> dict[str, Any]:
    """Return the global random states, as plain values and tensors that load with ``weights_only=True``."""
    cuda_in_use: bool = cuda and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if cuda_in_use else [],
        "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached),
        "python": random.getstate(),
    }


def set_global_state(state: dict[str, Any]) -> None:
    """Put back what :func:`global_state` gave."""
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))


@contextmanager
def isolated(*, cuda: bool = True) -> Iterator[None]:
    """Undo after a ``with`` whatever happened in it to the global random states (``cuda``: of GPUs too)."""
    state = global_state(cuda=cuda)
    try:
        yield
    finally:
        set_global_state(state)
