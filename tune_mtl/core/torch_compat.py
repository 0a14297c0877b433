"""Everything that this package takes from torch beyond its documented interface: each name says what it stands for.

`tests/core/test_torch_compat.py` fails, with a line that says what is missing, on a torch whose internals have moved.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
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


def scale_each(values: list[Tensor], factor: float) -> None:
    """Multiply each of ``values`` by ``factor``, in place and in as few kernels as torch's optimizers need."""
    torch._foreach_mul_(values, factor)


def move_each(values: list[Tensor], towards: list[Tensor], rate: float) -> None:
    """Move each of ``values`` in place this part of the way to its counterpart, in few kernels."""
    torch._foreach_lerp_(values, towards, rate)


def norm_each(values: list[Tensor]) -> list[Tensor]:
    """Return the Frobenius norm of each of ``values``, in as few kernels as torch's gradient clipping needs."""
    return list(torch._foreach_norm(values))


def sequence_number(node: Node) -> int:
    """Return the number that a node of a graph got when it was made, larger than those of what it was made from."""
    return int(node._sequence_nr())


def gradient_size(node: Node, output_nr: int) -> int:
    """Return how many numbers the gradient of an output has that ``node`` is told in a backward pass."""
    return math.prod(node._input_metadata[output_nr].shape)


def own_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """Return a module's own buffers by name, with those that are None so far, which ``named_buffers`` leaves out."""
    return dict(module._buffers)


@contextmanager
def replaced_call(module: nn.Module, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Have ``make(what calling module runs)`` run instead within a ``with``, the compiled code where there is some.

    The module's own hooks run around it, and everything else of the module is as it was.
    """
    name = "forward" if module._compiled_call_impl is None else "_compiled_call_impl"
    own = vars(module).get(name)
    object.__setattr__(module, name, make(getattr(module, name)))
    try:
        yield
    finally:
        if own is None:
            object.__delattr__(module, name)
        else:
            object.__setattr__(module, name, own)


def register_child(parent: nn.Module, name: str, child: nn.Module | None) -> None:
    """Register ``child`` as ``add_module`` does, but under any name: also that of one of ``parent``'s own methods."""
    parent._modules[name] = child
