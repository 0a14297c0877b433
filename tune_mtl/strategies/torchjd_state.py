"""What TorchJD's aggregators and scalarizers remember between calls, in plain values that a checkpoint can hold.

They keep it in buffers that start as None, in attributes and in optimizers of their own, none of which torch's own
``state_dict`` brings back.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

Memory: TypeAlias = dict[str, dict[str, Any]]

_MODULE_FIELDS = vars(nn.Module()).keys()
_PLAIN = (Tensor, int, float, str, tuple, list, type(None))


def memory(module: nn.Module) -> Memory:
    """Everything remembered, by submodule."""
    return {name: _own_memory(part) for name, part in module.named_modules()}


def _own_memory(module: nn.Module) -> dict[str, Any]:
    values = {key: vars(module)[key] for key in vars(module).keys() - _MODULE_FIELDS} | dict(module._buffers)
    return {
        "parameters": {key: value for key, value in module._parameters.items() if value is not None},
        "values": {key: value for key, value in values.items() if isinstance(value, _PLAIN)},
        "arrays": {key: torch.from_numpy(v.copy()) for key, v in values.items() if isinstance(v, np.ndarray)},
        "devices": {key: str(value.device) for key, value in values.items() if isinstance(value, Tensor)},
        "optimizers": {key: value.state_dict() for key, value in values.items() if isinstance(value, Adam)},
    }


def remember(module: nn.Module, remembered: Mapping[str, Mapping[str, Any]]) -> None:
    """The inverse of :func:`memory`."""
    for name, part in module.named_modules():
        saved = remembered[name]
        with torch.no_grad():
            for key, value in saved["parameters"].items():
                part._parameters[key].copy_(value)
        for key, value in saved["values"].items():
            setattr(part, key, value.to(saved["devices"][key]) if isinstance(value, Tensor) else value)
        for key, value in saved["arrays"].items():
            setattr(part, key, value.numpy())
        for key, state in saved["optimizers"].items():
            optimizer = Adam(list(part.parameters()))
            optimizer.load_state_dict(state)
            setattr(part, key, optimizer)
        if hasattr(part, "_init_optim_problem") and part.step:
            part._init_optim_problem()
