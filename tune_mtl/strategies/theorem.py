"""SGD with the step size of the convergence theorem."""

from collections.abc import Iterable
from typing import Any

from torch.nn import Parameter
from torch.optim import SGD, Optimizer


class TheoremSGD(SGD):
    """Plain SGD at ``eta_t = lr * 2 / (mu (gamma + t))``, where t = 1, 2, ... counts its own steps.

    With ``lr=1``, L-smooth and mu-strongly convex tasks and ``gamma >= 2 L / mu - 1``, the theorem bounds the mean of
    the tasks under IUS, whose one optimizer takes all single updates. SUS steps on their sum: there the same needs
    ``lr = 1 / N``.

    Args:
        lr: A factor of the theorem's step.
        mu: Strong convexity of every task.
        smoothness: L, the Lipschitz constant of every task's gradient.
        gamma: Default: the smallest that the theorem allows.
    """

    def __init__(
        self,
        params: Iterable[Parameter],
        lr: float = 1.0,
        *,
        mu: float,
        smoothness: float,
        gamma: float | None = None,
        foreach: bool | None = None,
    ) -> None:
        super().__init__(params, lr=lr, foreach=foreach)
        for group in self.param_groups:
            group |= {"mu": mu, "gamma": least_gamma(mu, smoothness) if gamma is None else gamma, "t": 0}

        self.register_step_pre_hook(_shorten)
        self.register_step_post_hook(_restore)


def _shorten(optimizer: Optimizer, *_: Any) -> None:
    """Put the theorem's rate in place of the factor before a step: a hook, as torch wraps ``step`` once per class."""
    for group in optimizer.param_groups:
        group["t"] += 1
        group["factor"] = group["lr"]
        group["lr"] *= 2.0 / (group["mu"] * (group["gamma"] + group["t"]))


def _restore(optimizer: Optimizer, *_: Any) -> None:
    """Put the factor back after the step: it is what a schedule sees."""
    for group in optimizer.param_groups:
        group["lr"] = group.pop("factor")


def least_gamma(mu: float, smoothness: float) -> float:
    """Return the smallest gamma that the theorem allows: steps start at 1 / L."""
    return 2.0 * smoothness / mu - 1.0
