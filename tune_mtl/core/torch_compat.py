"""Everything that this package takes from torch beyond its documented interface: each name says what it stands for.

`tests/core/test_torch_compat.py` fails, with a line that says what is missing, on a torch whose internals have moved.
"""

from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd

BatchNorm: TypeAlias = _BatchNorm
"""The layers that normalise over the samples of a batch: torch's own, and other packages' subclasses of their base."""

ChannelNorm: TypeAlias = _NormBase | nn.GroupNorm
"""The layers that normalise channels, each with a scale and an offset per channel: batch, instance and group norms."""

Convolution: TypeAlias = _ConvNd
"""The convolutions of one, two and three dimensions, transposed ones included."""


def allow_several_backward_passes() -> None:
    """Let compiled graphs keep their buffers after a backward pass; by default they give them away in the first.

    For compiled code it is what ``retain_graph=True`` asks for, and torch has no public setting for it.
    """
    import torch._functorch.config

    torch._functorch.config.donated_buffer = False


def copy_each(into: list[Tensor], values: list[Tensor]) -> None:
    """Copy each of ``values`` into its counterpart, in as few kernels as torch's optimizers need for their weights."""
    torch._foreach_copy_(into, values)


def subtract_each(whole: list[Tensor], values: list[Tensor]) -> None:
    """Subtract each of ``values`` from its counterpart, in place and in as few kernels as torch's optimizers need."""
    torch._foreach_sub_(whole, values)


def own_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """Return a module's own buffers by name, with those that are None so far, which ``named_buffers`` leaves out."""
    return dict(module._buffers)


def register_child(parent: nn.Module, name: str, child: nn.Module | None) -> None:
    """Register ``child`` as ``add_module`` does, but under any name: also that of one of ``parent``'s own methods."""
    parent._modules[name] = child
