"""How a step runs the network: on the whole batch or part by part, and with the trunk's activations kept or not."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested, join, rows_of, tensors
from tune_mtl.core.torch_compat import replaced_call
from tune_mtl.strategies.labels import Losses

Run: TypeAlias = Callable[..., Nested]
"""A pass forward through a module."""


@dataclass(frozen=True, slots=True)
class SharedPass:
    """A forward pass cut between trunk and heads: the trunk's outputs, and the leaf that heads saw in place of each.

    With the losses of all labelled rows come the predictions that they are made of.

    Gradients of losses end at the leaves; :meth:`finish` takes what has gathered there through the trunk.
    """

    outputs: list[Tensor]
    leaves: list[Tensor]
    losses: Losses
    predictions: Mapping[str, Nested] = field(default_factory=dict)

    def finish(self) -> None:
        """Go backward through the trunk, from the leaves' gradients."""
        reached = [(output, leaf.grad) for output, leaf in zip(self.outputs, self.leaves, strict=True)]
        pairs = [(output, gradient) for output, gradient in reached if gradient is not None]
        if pairs:
            torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])


class Passes:
    """Runs trunks and heads during a step in another way than at once; their numbers are the same.

    A batch in parts passes through trunk and heads one part after the other, so that layers that look at the samples
    together, as BatchNorm does, see one part. A pass of a part through a trunk keeps inputs and outputs alone: each
    pass back computes what is between once more. With ``again`` that holds for each block of a trunk, of any batch.

    What is computed again has the same random numbers, and buffers that learn in a pass forward learn once.

    Attributes:
        again: Whether blocks of the trunk are computed again.
    """

    def __init__(self, *, again: bool) -> None:
        self.again = again
        self._bounds: Sequence[tuple[int, int]] = ()

    @contextmanager
    def of(
        self, trunks: Iterable[nn.Module], heads: Iterable[nn.Module], bounds: Sequence[tuple[int, int]] = ()
    ) -> Iterator[None]:
        """Have these modules run so within a ``with``; ``bounds`` are the parts' first rows and those behind."""
        if not (self.again or bounds):
            yield
            return
        with ExitStack() as stack:
            for trunk in _each(trunks):
                for module, change in blocks_again(trunk) if self.again else ():
                    stack.enter_context(replaced_call(module, change))
                if bounds:
                    stack.enter_context(replaced_call(trunk, partial(self._through_trunk, trunk)))
            for head in _each(heads) if bounds else ():
                stack.enter_context(replaced_call(head, lambda run: partial(self._divided, run)))
            stack.enter_context(self._in(bounds))
            yield

    def undivided(self) -> AbstractContextManager[None]:
        """Have batches run as a whole again within a ``with``: whoever cuts them into parts himself."""
        return self._in(())

    @contextmanager
    def _in(self, bounds: Sequence[tuple[int, int]]) -> Iterator[None]:
        before, self._bounds = self._bounds, bounds
        try:
            yield
        finally:
            self._bounds = before

    def _through_trunk(self, trunk: nn.Module, run: Run) -> Run:
        return lambda inputs: self._divided(partial(computed_again, run, trunk) if self._bounds else run, inputs)

    def _divided(self, run: Run, inputs: Nested) -> Nested:
        first = next(tensors(inputs), None)
        if not self._bounds or first is None or first.ndim == 0 or len(first) != self._bounds[-1][1]:
            return run(inputs)  # not the batch: a rule may run the network on rows of its own choice
        parts = [run(rows_of(inputs, start, end)) for start, end in self._bounds]
        for (start, end), part in zip(self._bounds, parts, strict=True):
            for tensor in tensors(part):
                if tensor.ndim == 0 or len(tensor) != end - start:
                    raise UserError(
                        f"accumulate: for {end - start} samples the network gives a tensor of shape"
                        f" {tuple(tensor.shape)}, but it must have one row per sample for parts of a batch to be put"
                        " together. Drop accumulate (parts), or use sus, ius, io, scalar or stl."
                    )
        return join(parts)


def computed_again(run: Run, module: nn.Module, *inputs: Nested, **named: Nested) -> Nested:
    """Return ``run(*inputs)``, a pass through ``module`` of which the graph keeps its inputs alone.

    Raises:
        UserError: if the module changes its inputs: they could not be used again.
    """
    if not torch.is_grad_enabled():
        return run(*inputs, **named)
    before, repeated = [(tensor, tensor._version) for tensor in tensors([inputs, named])], _AsBefore(module)
    outputs = checkpoint(run, *inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), repeated), **named)
    if any(tensor._version != version for tensor, version in before):
        raise UserError(
            f"a {type(module).__name__} of the trunk changes its inputs in place, and with checkpoint_trunk or"
            " accumulate they are needed again. Use inplace=False in its first layer."
        )
    return outputs


def blocks_again(trunk: nn.Module) -> list[tuple[nn.Module, Callable[[Run], Run]]]:
    """Return the modules of a trunk whose calls are replaced to have it computed again block by block, and by what.

    A block is a module that has modules of its own, as far out as possible; lists and sequences of such are looked
    into, and so is one that is the only block. Where there is none, a sequence of n layers is cut into about sqrt(n)
    blocks, and any other trunk is one.
    """
    found = _blocks(trunk)
    if not found and type(trunk) is nn.Sequential:
        return [(trunk, lambda _: partial(_run_after_run, _runs(list(trunk.children()))))]
    return [(block, partial(_again, block)) for block in found or [trunk]]


def _blocks(module: nn.Module) -> list[nn.Module]:
    found: list[nn.Module] = []
    for child in module.children():
        inner = list(child.children())
        looked_into = isinstance(child, nn.ModuleList | nn.ModuleDict) or (
            isinstance(child, nn.Sequential) and any(True for part in inner for _ in part.children())
        )
        if looked_into:
            found += _blocks(child)
        elif inner:
            found.append(child)
    found = _each(found)
    return (_blocks(found[0]) or found) if len(found) == 1 else found


def _runs(layers: list[nn.Module]) -> list[nn.Sequential]:
    """Return about sqrt(n) runs of layers; none begins with a layer that works in place."""
    longest = math.isqrt(len(layers) - 1) + 1 if layers else 1
    runs: list[list[nn.Module]] = []
    for layer in layers:
        if not runs or (len(runs[-1]) >= longest and not getattr(layer, "inplace", False)):
            runs.append([])
        runs[-1].append(layer)
    return [nn.Sequential(*run) for run in runs]


def _run_after_run(runs: Sequence[nn.Sequential], features: Nested) -> Nested:
    for run in runs:
        features = computed_again(run, run, features)
    return features


def _again(block: nn.Module, run: Run) -> Run:
    return partial(computed_again, run, block)


class _AsBefore:
    """Has the buffers of a module as they are now in their places within a ``with``, any number of times.

    What they learn there is lost. Kernels of BatchNorm write to its buffers without a trace in their versions, so that
    all buffers count of modules that are in training mode.
    """

    def __init__(self, module: nn.Module) -> None:
        self._held = [
            (owner, name, buffer.detach().clone())
            for owner in module.modules()
            if owner.training
            for name, buffer in owner.named_buffers(recurse=False)
        ]
        self._now: list[tuple[nn.Module, str, Tensor]] = []

    def __enter__(self) -> None:
        self._now = [(owner, name, getattr(owner, name)) for owner, name, _ in self._held]
        for owner, name, before in self._held:
            setattr(owner, name, before.clone())

    def __exit__(self, *_: object) -> None:
        for owner, name, buffer in self._now:
            setattr(owner, name, buffer)


def _each(modules: Iterable[nn.Module]) -> list[nn.Module]:
    return list({id(module): module for module in modules}.values())
