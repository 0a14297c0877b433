"""Which weights of a network are trained."""

from collections.abc import Iterable

from torch import nn
from torch.optim import Optimizer


class Weights:
    """The weights of modules, each of which is walked through once: that takes as long as some of a step's kernels."""

    def __init__(self) -> None:
        self._known: dict[nn.Module, list[nn.Parameter]] = {}

    def of(self, modules: Iterable[nn.Module]) -> list[nn.Parameter]:
        """Return the weights of ``modules`` that want a gradient just now, each once."""
        return list({id(p): p for module in modules for p in self._all(module) if p.requires_grad}.values())

    def _all(self, module: nn.Module) -> list[nn.Parameter]:
        found = self._known.get(module)
        if found is None:
            found = self._known[module] = list(module.parameters())
        return found


def weights_of(*modules: nn.Module) -> list[nn.Parameter]:
    """Return the weights of ``modules`` that want a gradient, each once."""
    return Weights().of(modules)


def weights_in(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the weights that an optimizer steps on."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]
