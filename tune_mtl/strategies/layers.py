"""The layer of the trunk at which strategies measure gradients."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator
from torch import nn

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.options import Verbatim
from tune_mtl.core.torch_compat import Convolution


def _as_text(value: object) -> object:
    """Return a layer's number in a ``Sequential`` as its name; of 1.1 nobody knows whether it was 1.10."""
    if isinstance(value, float):
        raise ValueError("must be a text: put it in quotes")
    return str(value) if isinstance(value, int) else value


LayerName: TypeAlias = Annotated[Annotated[str, BeforeValidator(_as_text)] | None, Verbatim()]
"""An option that names a module of the trunk; None is the default of :func:`measured_layer`."""


def measured_layer(trunk: nn.Module, name: str | None, strategy: str) -> nn.Parameter:
    """Return the weights of layer ``name``: by default the trunk's last convolution, else its last matrix.

    Raises:
        UserError: if the trunk has no such layer, or none with trainable weights.
    """
    weights = {path: weight for path, weight in trunk.named_parameters() if weight.requires_grad}
    layers = {path: _weight_of(module) for path, module in trunk.named_modules() if path}
    if name is not None:
        found = weights.get(name, layers.get(name))
        if found is None:
            known = [path for path, weight in layers.items() if weight is not None]
            raise UserError(f"{strategy}_layer '{name}' is no trunk layer with weights. {did_you_mean(name, known)}")
        return found
    convolutions = [_weight_of(module) for module in trunk.modules() if isinstance(module, Convolution)]
    candidates = [weight for weight in convolutions if weight is not None]
    candidates = candidates or [weight for weight in weights.values() if weight.ndim > 1] or list(weights.values())
    if not candidates:
        raise UserError(f"strategy '{strategy}' needs a trunk with a trainable layer: there is nothing to measure at.")
    return candidates[-1]


def _weight_of(module: nn.Module) -> nn.Parameter | None:
    """Return the (last) trainable matrix or kernel of a layer, also where it is parametrized."""
    found = [weight for weight in module.parameters() if weight.requires_grad and weight.ndim > 1]
    return found[-1] if found else None
