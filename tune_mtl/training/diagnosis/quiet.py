"""Looking at a network's gradients so that nothing about its training changes."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn

from tune_mtl.core.seeds import isolated, seed_everything
from tune_mtl.core.torch_compat import BatchNorm


@contextmanager
def without_a_trace(model: nn.Module, *, compiled: bool = False) -> Iterator[None]:
    """Make ``model`` deterministic for the length of a ``with``; then it is as it was, and so is all that is random.

    Dropout is off. BatchNorm normalises as it does in a training step, with the statistics of the batch, but its
    running averages learn nothing; a layer that was in evaluation mode stays there. Buffers and global random states
    are put back. ``compiled``: parts of it are, and need not be compiled once more for this.
    """
    modes = {module: module.training for module in model.modules()}
    tracked = {norm: norm.track_running_stats for norm in modes if isinstance(norm, BatchNorm)}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with isolated():
        seed_everything(0, "diagnosis")
        try:
            for module in modes:
                module.training = module.training and _trains_alike(module)
            for norm in tracked:
                norm.track_running_stats = norm.track_running_stats and not norm.training
            with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
                yield
        finally:
            for module, mode in modes.items():
                module.training = mode
            for norm, tracks in tracked.items():
                norm.track_running_stats = tracks
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)


def _trains_alike(module: nn.Module) -> bool:
    """Return whether a layer stays in training mode: BatchNorm, and RNNs, which cuDNN differentiates only there."""
    return isinstance(module, BatchNorm) or (isinstance(module, nn.RNNBase) and not module.dropout)
