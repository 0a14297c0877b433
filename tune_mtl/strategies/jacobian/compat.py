"""Everything that this package takes from TorchJD: its classes, and what they keep to themselves.

What aggregators and scalarizers remember between calls stands in buffers that start as None, in attributes and in
optimizers of their own, none of which ``state_dict`` brings back: :func:`memory` reads it all as plain values that a
checkpoint can hold, :func:`remember` puts it back. `tests/strategies/test_torchjd_compat.py` fails, with a line that
says what has moved, on a TorchJD that keeps it elsewhere.

TorchJD takes seconds to load, and is loaded by the first strategy that is made of it: listing strategies need not wait.
"""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from tune_mtl.core.errors import UserError
from tune_mtl.core.torch_compat import own_buffers

if TYPE_CHECKING:
    from tune_mtl.strategies.info import StrategyInfo

Memory: TypeAlias = dict[str, dict[str, Any]]

_MODULE_FIELDS = vars(nn.Module()).keys()
_PLAIN = (Tensor, int, float, str, tuple, list, type(None))


def make_aggregator(kind: str, info: "StrategyInfo", arguments: Mapping[str, Any]) -> nn.Module:
    """Make TorchJD's aggregator ``kind``, behind the record ``info``.

    Raises:
        UserError: if what it needs is not installed.
    """
    aggregator_class = getattr(importlib.import_module("torchjd.aggregation"), kind)
    if kind == "NashMTL":
        warnings.filterwarnings("ignore", message="You are solving a parameterized problem that is not DPP")
    try:
        made: nn.Module = aggregator_class(**arguments)
    except ImportError as error:
        where = f'pip install "tune-mtl[{info.extra}]"' if info.extra else str(error)
        raise UserError(f"strategy '{info.name}' needs packages that are not installed: {where}.") from None
    return made


def make_scalarizer(kind: str, arguments: Mapping[str, Any]) -> Any:
    """Make TorchJD's scalarizer ``kind``, a module; some have methods that others have not."""
    return getattr(importlib.import_module("torchjd.scalarization"), kind)(**arguments)


def aggregate(aggregator: nn.Module, weights: Sequence[nn.Parameter], jacobians: Sequence[Tensor]) -> None:
    """Add the aggregation of ``jacobians`` to the gradients of ``weights``; TorchJD finds them in ``weight.jac``."""
    from torchjd.aggregation import GramianWeightedAggregator
    from torchjd.autojac import jac_to_grad

    for weight, jacobian in zip(weights, jacobians, strict=True):
        weight.jac = jacobian  # type: ignore[attr-defined]
    try:
        if isinstance(aggregator, GramianWeightedAggregator):
            jac_to_grad(weights, aggregator, optimize_gramian_computation=True)
        else:
            jac_to_grad(weights, aggregator)  # type: ignore[call-overload]
    finally:
        for weight in weights:
            if hasattr(weight, "jac"):
                del weight.jac


def remembers(aggregator: nn.Module) -> bool:
    """Return whether what the aggregator does depends on earlier calls."""
    from torchjd import Stateful

    return isinstance(aggregator, Stateful)


def memory(module: nn.Module) -> Memory:
    """Return everything remembered, by submodule."""
    return {name: _own_memory(part) for name, part in module.named_modules()}


def _own_memory(module: nn.Module) -> dict[str, Any]:
    values = {key: vars(module)[key] for key in vars(module).keys() - _MODULE_FIELDS} | own_buffers(module)
    return {
        "parameters": dict(module.named_parameters(recurse=False)),
        "values": {key: value for key, value in values.items() if isinstance(value, _PLAIN)},
        "arrays": {key: torch.from_numpy(v.copy()) for key, v in values.items() if isinstance(v, np.ndarray)},
        "devices": {key: str(value.device) for key, value in values.items() if isinstance(value, Tensor)},
        "optimizers": {key: value.state_dict() for key, value in values.items() if isinstance(value, Adam)},
    }


def remember(module: nn.Module, remembered: Mapping[str, Mapping[str, Any]]) -> None:
    """Put back what :func:`memory` has read."""
    for name, part in module.named_modules():
        saved = remembered[name]
        with torch.no_grad():
            for key, value in saved["parameters"].items():
                part.get_parameter(key).copy_(value)
        for key, value in saved["values"].items():
            setattr(part, key, value.to(saved["devices"][key]) if isinstance(value, Tensor) else value)
        for key, value in saved["arrays"].items():
            setattr(part, key, value.numpy())
        for key, state in saved["optimizers"].items():
            optimizer = Adam(list(part.parameters()))
            optimizer.load_state_dict(state)
            setattr(part, key, optimizer)
        if hasattr(part, "_init_optim_problem") and part.step:  # Nash-MTL states its problem in its first step only
            part._init_optim_problem()
