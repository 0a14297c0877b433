"""One step on a scalar made of all losses, by one of TorchJD's scalarizers."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from tune_mtl.core.errors import UserError
from tune_mtl.core.options import Options
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.jacobian.compat import make_scalarizer, memory, remember

_SHAPED = ("UW", "IMTLL", "FAMO")
"""Scalarizers that hold one number per task."""


class ScalarizedLoss(Strategy[Options]):
    """One step on ``S(c_1 L_1, ..., c_N L_N)``: w <- w - lr * m(dS/dw); what S learns, the same optimizer learns.

    A task without labels takes part with the loss it had last, and with the mean of the others before its first.
    """

    kind: ClassVar[str]
    """The scalarizer's class in TorchJD."""

    def setup(self) -> None:
        """Make the scalarizer, over the tasks with a weight above 0."""
        arguments = self.options.model_dump()
        self._every = arguments.pop("every", None)
        self._taking_part = [task for task, weight in self.weights.items() if weight > 0]
        if not self._taking_part:
            raise UserError(f"strategy '{self.info.name}' needs a task with a weight above 0.")
        if self.kind in _SHAPED:
            arguments["shape"] = len(self._taking_part)
        like = next(self.model.parameters())
        self.scalarizer = make_scalarizer(self.kind, arguments).to(like.device, like.dtype)
        self._last = torch.full((len(self._taking_part),), torch.nan, device=like.device, dtype=like.dtype)

    def make_optimizers(self) -> list[Optimizer]:
        """Make one, over the network and over what the scalarizer learns by gradients (FAMO has its own way)."""
        own = [] if hasattr(self.scalarizer, "update") else list(self.scalarizer.parameters())
        return [self.recipe.optimizer([*self.trainable(self.tasks), *own])]

    def learn(self, batch: Labelled) -> Losses:
        """Take one update, and let the scalarizer do what it does after it."""
        losses = self.losses(self.tasks, batch)
        values = self._values(losses)
        if values is not None and values.requires_grad:
            self.descend(self.optimizers[0], self._scalar(values))
            if hasattr(self.scalarizer, "update"):
                self.scalarizer.update(self._values(self.look(batch)))
            if self._every is not None and (self.mini_batches + 1) % self._every == 0:
                self.scalarizer.step()
        return {task: loss.detach() for task, loss in losses.items()}

    def _scalar(self, values: Tensor) -> Tensor:
        try:
            scalar: Tensor = self.scalarizer(values)
        except ValueError as error:
            raise UserError(f"strategy '{self.info.name}' cannot be used with these losses: {error}") from None
        return scalar

    def _values(self, losses: Losses) -> Tensor | None:
        known_tasks = [task for task in self._taking_part if task in losses]
        if not known_tasks:
            return None
        labelled = torch.stack([self.weighted(task, losses[task]) for task in known_tasks])
        if len(known_tasks) == len(self._taking_part):
            self._last.copy_(labelled.detach())
            return labelled
        chosen = torch.tensor([index for index, task in enumerate(self._taking_part) if task in losses])
        chosen = chosen.to(self._last.device, non_blocking=True)
        self._last[chosen] = labelled.detach().to(self._last.dtype)
        known = torch.where(self._last.isnan(), labelled.detach().mean().to(self._last.dtype), self._last)
        return known.index_put((chosen,), labelled.to(known.dtype))

    def state_dict(self) -> dict[str, Any]:
        """Return the state with what the scalarizer remembers."""
        return super().state_dict() | {"scalarizer": memory(self.scalarizer), "last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        remember(self.scalarizer, state["scalarizer"], self._last.device)
        self._last.copy_(state["last"])
