"""A factor for the loss of one optimizer, so that gradients in half precision neither vanish nor overflow."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tune_mtl.core.torch_compat import scale_each

_FIRST, _MOST, _LEAST = 2.0**16, 2.0**24, 2.0**-14
_PATIENCE = 2000
"""Steps after which a larger factor is tried."""


class LossScale:
    """The factor of one optimizer's losses: halved where a gradient is not finite, doubled after 2000 steps that were.

    It is that of ``torch.amp.GradScaler``, whose steps do not say whether they were taken: fused optimizers are called
    in any case, and would be counted as updates. To know it, the host waits for the device once per update.

    Attributes:
        factor: A power of two: to multiply by it and to divide again changes no digit.
    """

    def __init__(self) -> None:
        self.factor = _FIRST
        self._finite = 0

    @torch.no_grad()
    def taken_off(self, weights: Iterable[nn.Parameter]) -> bool:
        """Divide the gradients by the factor, and return whether all are finite: only then a step may be taken."""
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        scale_each(gradients, 1.0 / self.factor)
        finite = _all_finite(gradients)
        self._finite = self._finite + 1 if finite else 0
        if not finite:
            self.factor = max(_LEAST, self.factor / 2)
        elif self._finite == _PATIENCE:
            self.factor, self._finite = min(_MOST, 2 * self.factor), 0
        return finite

    def state_dict(self) -> dict[str, Any]:
        """Return the factor and how many steps it has been good for."""
        return {"factor": self.factor, "finite": self._finite}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self.factor, self._finite = state["factor"], state["finite"]


def _all_finite(gradients: list[Tensor]) -> bool:
    return not gradients or bool(torch.stack([gradient.isfinite().all() for gradient in gradients]).all())
