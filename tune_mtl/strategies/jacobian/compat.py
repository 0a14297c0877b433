"""Everything that this package takes from TorchJD: its classes, and what they keep to themselves.

What aggregators and scalarizers remember between calls stands in buffers that start as None, in attributes and in
optimizers of their own, none of which ``state_dict`` brings back: :func:`memory` reads it all as plain values that a
checkpoint can hold, :func:`remember` puts it back. `tests/strategies/test_torchjd_compat.py` fails, with a line that
says what has moved, on a TorchJD that keeps it elsewhere.

TorchJD takes seconds to load, and is loaded by the first strategy that is made of it: listing strategies need not wait.
"""

import copy
import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from tune_mtl.core.errors import UserError
from tune_mtl.core.torch_compat import own_buffers
from tune_mtl.strategies.gramian import pieces
from tune_mtl.strategies.jacobian.matrix import Jacobian

if TYPE_CHECKING:
    from tune_mtl.strategies.info import StrategyInfo

Memory: TypeAlias = dict[str, dict[str, Any]]

_MODULE_FIELDS = vars(nn.Module()).keys()
_LEAST = 1e-7
"""What ExcessMTL adds to what it divides by."""
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


def weighting(aggregator: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Return what makes the rows' weights of their Gramian alone; None where the aggregator needs the rows themselves.

    Nash-MTL takes rows, but looks at nothing besides their inner products and the norm of their combination: any rows
    with the same Gramian will do.
    """
    from torchjd.aggregation import GramianWeightedAggregator, NashMTL

    if isinstance(aggregator, GramianWeightedAggregator):
        return aggregator.gramian_weighting
    if isinstance(aggregator, NashMTL):
        return lambda gramian: aggregator.weighting(_rows_with(gramian))
    return None


def _rows_with(gramian: Tensor) -> Tensor:
    """Return a square matrix with this Gramian; rows of very different lengths keep their precision."""
    wide = gramian.double()
    lengths = wide.diagonal().sqrt()
    scales = torch.where(lengths > 0, lengths, 1.0)
    values, vectors = torch.linalg.eigh(wide / torch.outer(scales, scales))
    rows: Tensor = scales[:, None] * vectors * values.clamp(min=0.0).sqrt()
    return rows.to(gramian.dtype)


def known_weights(aggregator: nn.Module, count: int, dtype: torch.dtype) -> Tensor:
    """Return the weights of an aggregator that looks at nothing of its rows but how many there are."""
    weights: Tensor = aggregator.weighting(torch.empty(count, 0, dtype=dtype))  # type: ignore[operator]
    return weights


def excess_weights(aggregator: nn.Module, jacobian: Jacobian) -> Tensor:
    """Return ExcessMTL's weights, and have the aggregator remember what it would: its rule, row by row.

    Of each task it remembers the sum of squared gradients, one row of a matrix.
    """
    memory: Any = aggregator.weighting
    columns = sum(jacobian.sizes)
    memory._ensure_state(torch.empty((), dtype=jacobian.dtype, device=jacobian.device).expand(jacobian.count, columns))
    found = [
        _excess_risk(row, sums.split([len(piece) for piece in row]))
        for row, sums in zip(jacobian.pieces_of_rows(), memory._sq_grad_sum, strict=True)
    ]
    risks = torch.stack(found).to(jacobian.dtype)
    memory._n_steps += 1
    if memory._n_steps <= memory.n_warmup_steps:
        memory._warmup_w_sum.add_(risks)
        return cast(Tensor, memory._weights)
    first = memory._initial_w is None
    if first:
        memory._initial_w = memory._warmup_w_sum / memory.n_warmup_steps if memory.n_warmup_steps else risks
    if not first or memory.n_warmup_steps:
        risks = risks / (memory._initial_w + _LEAST)
    memory._weights = torch.softmax(memory._weights.log() + risks * memory.robust_step_size, dim=0)
    return cast(Tensor, memory._weights)


def _excess_risk(row: Sequence[Tensor], sums: Sequence[Tensor]) -> Tensor:
    """Add the squares of a task's gradients to their ``sums``, and return the gradients' length measured by those."""
    risks = []
    for gradient, held in zip(row, sums, strict=True):
        for piece, total in zip(pieces(gradient[None]), pieces(held[None]), strict=True):
            squares = piece.square()
            total += squares
            risks.append((squares / (total + _LEAST).sqrt_()).sum(dtype=torch.float64))
    return torch.stack(risks).sum()


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
        "optimizers": {key: value.state_dict() for key, value in values.items() if isinstance(value, Adam)},
    }


def _on(device: torch.device, value: Any) -> Any:
    """Return a plain value with its tensors on ``device``, and with that for the device they were on."""
    if isinstance(value, tuple | list):
        return type(value)(_on(device, item) for item in value)
    if isinstance(value, torch.device):
        return device
    return value.to(device) if isinstance(value, Tensor) else value


def remember(module: nn.Module, remembered: Mapping[str, Mapping[str, Any]], device: torch.device) -> None:
    """Put back copies of what :func:`memory` has read, its tensors on ``device``: where the module's arguments are."""
    for name, part in module.named_modules():
        saved = copy.deepcopy(remembered[name])
        with torch.no_grad():
            for key, value in saved["parameters"].items():
                part.get_parameter(key).copy_(value)
        for key, value in saved["values"].items():
            setattr(part, key, _on(device, value))
        for key, value in saved["arrays"].items():
            setattr(part, key, value.numpy())
        for key, state in saved["optimizers"].items():
            optimizer = Adam(list(part.parameters()))
            optimizer.load_state_dict(state)
            setattr(part, key, optimizer)
        if hasattr(part, "_init_optim_problem") and part.step:  # Nash-MTL states its problem in its first step only
            part._init_optim_problem()
