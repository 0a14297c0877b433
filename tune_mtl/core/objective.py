"""What a trial is judged by."""

from dataclasses import dataclass
from typing import Literal, cast

from tune_mtl.core.errors import UserError

_LESS_IS_BETTER = {"loss", "relative_loss", "worst_task", "weighted_loss"}
RELATIVE_LOSS = "val/relative_loss"
"""The mean over tasks of validation loss / reference loss: the default where every task has a reference."""


@dataclass(frozen=True)
class Objective:
    """A validation metric and whether less (``min``) or more (``max``) of it is better."""

    metric: str = "val/loss"
    mode: Literal["min", "max"] = "min"

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max"):
            raise UserError(f"objective mode {self.mode!r} must be 'min' or 'max'.")
        if not self.metric.startswith("val/"):
            raise UserError(f"objective metric {self.metric!r} must be a validation metric: its name starts with val/.")

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Read ``name[:min|max]``; without a mode, losses are minimised and other metrics maximised."""
        name, _, mode = text.partition(":")
        if not mode:
            mode = "min" if _LESS_IS_BETTER & set(name.split("/")) else "max"
        return cls(name, cast(Literal["min", "max"], mode))

    def __str__(self) -> str:
        return f"{self.metric}:{self.mode}"

    def better(self, value: float, than: float | None) -> bool:
        """Return whether ``value`` improves on ``than`` (None: nothing yet). An undefined value (NaN) never does."""
        if value != value:
            return False
        if than is None:
            return True
        return value < than if self.mode == "min" else value > than
