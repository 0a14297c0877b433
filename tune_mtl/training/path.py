"""How far the shared weights travel: the paper's covered distance, measured where the weights are."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.torch_compat import BatchNorm, copy_each
from tune_mtl.training.last_weights import Flat, LastWeights


class PathLength:
    """The length of the trunk's path, over every optimizer step that can change it.

    The trunk's weights without BatchNorm's affine parameters; Frobenius norm over all of them together. Steps are seen
    through the optimizers' own hooks: nothing waits for the device, nothing is copied to the host, until ``total`` or
    ``from_start`` is read. With ``by_layer`` each layer's own path is measured too.

    Attributes:
        updates: Steps counted so far.
        steps: Give it a list, and the length of each step is added, on the device; whoever does so empties it. None,
            the default, keeps none.
    """

    def __init__(self, model: MultiTaskModel, optimizers: Iterable[Optimizer], *, by_layer: bool = False) -> None:
        self._weights = traced_weights(model.trunk)
        if not self._weights:
            raise UserError("the trunk has no trainable weights (BatchNorm aside): there is no path to trace.")
        self._last = LastWeights(self._weights)
        self._start = Flat(self._weights)
        with torch.no_grad():
            copy_each(self._start.views, [*self._weights])
        self._total = torch.zeros((), dtype=torch.float64, device=self._weights[0].device)
        self._layers = _Layers(model.trunk, self._weights, self._last.owners) if by_layer else None
        self.updates = 0
        self.steps: list[Tensor] | None = None
        self._hooks = []
        self._depth = 0
        trunk = {id(p) for p in model.trunk.parameters()}
        for optimizer in optimizers:
            if any(id(p) in trunk for group in optimizer.param_groups for p in group["params"]):
                self._hooks.append(optimizer.register_step_pre_hook(self._before))
                self._hooks.append(optimizer.register_step_post_hook(self._after))

    @property
    def total(self) -> float:
        """Return the sum over all steps of ``||w_after - w_before||``."""
        return self._total.item()

    def by_layer(self) -> dict[str, float]:
        """Return the sum over all steps of how far each layer of the trunk moved, as ``path/layer/<name>``."""
        return {} if self._layers is None else self._layers.lengths()

    @torch.no_grad()
    def from_start(self) -> float:
        """``||w_now - w_start||``: the shortest way to where the path has led."""
        return self._last.distance(self._start.views).item()

    def state_dict(self) -> dict[str, Any]:
        """Return the path so far and where it started."""
        by_layer = {} if self._layers is None else {"layers": self._layers.totals.clone()}
        return {"total": self._total.clone(), "updates": self.updates, "start": self._start.buffer, **by_layer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        if state["start"].shape != self._start.buffer.shape:
            raise UserError("this path was traced on a trunk of another size.")
        self._total.copy_(state["total"])
        self._start.buffer.copy_(state["start"])
        if self._layers is not None:
            self._layers.totals.copy_(state["layers"])
        self.updates = state["updates"]

    def close(self) -> None:
        """Stop counting."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    @torch.no_grad()
    def _before(self, *_: Any) -> None:
        self._depth += 1
        if self._depth == 1:  # a step may call that of its base class, whose hooks are these too
            self._last.keep()

    @torch.no_grad()
    def _after(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        moved: list[Tensor] | None = None if self._layers is None else []
        length = self._last.go_on(moved)
        self._total.add_(length)
        self.updates += 1
        if self._layers is not None and moved is not None:
            self._layers.add(moved)
        if self.steps is not None:
            self.steps.append(length)


def traced_weights(trunk: nn.Module) -> list[nn.Parameter]:
    """Return the weights whose path counts: all trainable ones but BatchNorm's scale and offset."""
    norms = {id(p) for module in trunk.modules() if isinstance(module, BatchNorm) for p in module.parameters()}
    return [p for p in trunk.parameters() if p.requires_grad and id(p) not in norms]


class _Layers:
    """How far each layer has moved: a layer is a module of the trunk that has traced weights of its own.

    Weights that are the trunk's own, in none of its modules, are a layer each.
    """

    def __init__(self, trunk: nn.Module, weights: list[nn.Parameter], owners: list[int]) -> None:
        """``owners`` says of which weight each piece is whose length will be given."""
        modules = {id(p): name.rpartition(".")[0] or name for name, p in trunk.named_parameters()}
        owned = [modules[id(weights[owner])] for owner in owners]
        self._names = list(dict.fromkeys(owned))
        device = weights[0].device
        belongs = [[float(owner == name) for owner in owned] for name in self._names]
        self._belongs = torch.tensor(belongs, dtype=torch.float64, device=device)
        self.totals = torch.zeros(len(self._names), dtype=torch.float64, device=device)

    def add(self, lengths: list[Tensor]) -> None:
        """Add the way of each layer, from how far the pieces of its weights moved."""
        self.totals.add_((self._belongs @ torch.stack(lengths).double().square()).sqrt_())

    def lengths(self) -> dict[str, float]:
        return {f"path/layer/{name}": total for name, total in zip(self._names, self.totals.tolist(), strict=True)}
