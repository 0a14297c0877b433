"""How far the shared weights travel: the paper's covered distance, measured where the weights are."""

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.torch_compat import BatchNorm, copy_each, subtract_each

_BLOCK = 1024
"""Norms are taken over blocks of this many weights, then over blocks in float64: nearly exact, and fast."""


class PathLength:
    """The length of the trunk's path, over every optimizer step that can change it.

    The trunk's weights without BatchNorm's affine parameters; Frobenius norm over all of them together. Steps are seen
    through the optimizers' own hooks: nothing waits for the device, nothing is copied to the host, until ``total`` or
    ``from_start`` is read.

    Attributes:
        updates: Steps counted so far.
        steps: Give it a list, and the length of each step is added, on the device; whoever does so empties it. None,
            the default, keeps none.
    """

    def __init__(self, model: MultiTaskModel, optimizers: Iterable[Optimizer]) -> None:
        self._weights = traced_weights(model.trunk)
        if not self._weights:
            raise UserError("the trunk has no trainable weights (BatchNorm aside): there is no path to trace.")
        self._step = _Flat(self._weights)
        self._start = _Flat(self._weights)
        with torch.no_grad():
            self._start.copy_from(self._weights)
        self._total = torch.zeros((), dtype=torch.float64, device=self._weights[0].device)
        self.updates = 0
        self.steps: list[Tensor] | None = None
        self._hooks = []
        trunk = {id(p) for p in model.trunk.parameters()}
        for optimizer in optimizers:
            if any(id(p) in trunk for group in optimizer.param_groups for p in group["params"]):
                self._hooks.append(optimizer.register_step_pre_hook(self._before))
                self._hooks.append(optimizer.register_step_post_hook(self._after))

    @property
    def total(self) -> float:
        """Return the sum over all steps of ``||w_after - w_before||``."""
        return self._total.item()

    @torch.no_grad()
    def from_start(self) -> float:
        """``||w_now - w_start||``: the shortest way to where the path has led."""
        self._step.copy_from(self._start.views)
        self._step.subtract(self._weights)
        return self._step.norm().item()

    def state_dict(self) -> dict[str, Any]:
        """Return the path so far and where it started."""
        return {"total": self._total.clone(), "updates": self.updates, "start": self._start.buffer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        if state["start"].shape != self._start.buffer.shape:
            raise UserError("this path was traced on a trunk of another size.")
        self._total.copy_(state["total"])
        self._start.buffer.copy_(state["start"])
        self.updates = state["updates"]

    def close(self) -> None:
        """Stop counting."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    @torch.no_grad()
    def _before(self, *_: Any) -> None:
        self._step.copy_from(self._weights)

    @torch.no_grad()
    def _after(self, *_: Any) -> None:
        self._step.subtract(self._weights)
        length = self._step.norm()
        self._total.add_(length)
        self.updates += 1
        if self.steps is not None:
            self.steps.append(length)


def traced_weights(trunk: nn.Module) -> list[nn.Parameter]:
    """Return the weights whose path counts: all trainable ones but BatchNorm's scale and offset."""
    norms = {id(p) for module in trunk.modules() if isinstance(module, BatchNorm) for p in module.parameters()}
    return [p for p in trunk.parameters() if p.requires_grad and id(p) not in norms]


class _Flat:
    """One padded buffer as large as some weights, with a view for each of them."""

    def __init__(self, like: list[nn.Parameter]) -> None:
        sizes = [weight.numel() for weight in like]
        dtype = reduce(torch.promote_types, (weight.dtype for weight in like), torch.float32)
        blocks = -(-sum(sizes) // _BLOCK)
        self.buffer = torch.zeros(blocks, _BLOCK, dtype=dtype, device=like[0].device)
        flat = self.buffer.view(-1)
        ends = accumulate(sizes)
        self.views = [flat[e - n : e].view(w.shape) for e, n, w in zip(ends, sizes, like, strict=True)]

    def copy_from(self, weights: list[Any]) -> None:
        copy_each(self.views, weights)

    def subtract(self, weights: list[Any]) -> None:
        subtract_each(self.views, weights)

    def norm(self) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(torch.linalg.vector_norm(self.buffer, dim=1), dtype=torch.float64)
        return norm
