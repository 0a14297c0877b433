"""What a host does with a device: for which operations it waits, and which may see tensors of both."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

READS = frozenset(
    (
        # values
        "_local_scalar_dense", "equal", "allclose", "is_nonzero", "_is_all_true", "_is_any_true",
        # sizes that depend on values
        "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive",
        "bincount", "histogram", "multinomial", "segment_reduce",
        # decompositions look whether they have converged
        "_linalg_svd", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_eigvals", "linalg_pinv", "linalg_lstsq",
        "linalg_cholesky", "cholesky", "linalg_qr", "geqrf", "_linalg_check_errors",
    )
)  # fmt: skip
"""Operations that bring a value, or a size that depends on values, to the host: it waits until all before is done."""

BOTH = frozenset(
    (
        "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "atan2",
        "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "fmax", "fmin", "where", "copysign", "xlogy",
        "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
    )
)  # fmt: skip
"""Operations of two numbers, of which one may be a single one of the host's: the kernel is told its value."""

COPIES = frozenset(("_to_copy", "copy_", "copy", "_copy_from", "_foreach_copy_"))
"""Operations that are there to carry values from one device to the other."""

_INDEXED = frozenset(("index", "_unsafe_index", "index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_"))


def waits_of(name: str, args: Sequence[Any], kwargs: Any, on_device: type) -> list[str]:
    """Return why the host waits in an operation that has a tensor on the device, a word for each reason."""
    if name in READS or (name == "repeat_interleave" and kwargs.get("output_size") is None):
        return [name]
    if name == "normal" and len(args) > 1 and isinstance(args[1], Tensor):
        return [name]
    if name in _INDEXED:
        return [why for index in args[1] if isinstance(index, Tensor) for why in _index(name, args, index, on_device)]
    return []


def _index(name: str, args: Sequence[Any], index: Tensor, on_device: type) -> list[str]:
    """Masks are turned into positions, whose number is read; what the host holds is brought there first."""
    if not isinstance(index, on_device):
        return ["copy to the device"]
    if index.dtype not in (torch.bool, torch.uint8):
        return []
    fills = name in ("index_put_", "_index_put_impl_", "index_put") and len(args[1]) == 1 and args[2].numel() == 1
    return [] if fills else ["nonzero"]


def may_mix(name: str, host: Sequence[Tensor], args: Sequence[Any], on_device: type) -> bool:
    """Return whether an operation takes these tensors of the ``host`` beside tensors of the device, as CUDA's do."""
    if name in COPIES:
        return True
    if name in _INDEXED:  # positions may be the host's, what they are looked up in may not
        at_host = {id(tensor) for tensor in args[1] if isinstance(tensor, Tensor)}
        value = args[2] if len(args) > 2 else None
        number = {id(value)} if isinstance(value, Tensor) and value.ndim == 0 else set()
        return isinstance(args[0], on_device) and all(id(tensor) in at_host | number for tensor in host)
    written = args[0] if name.endswith("_") and args else None
    plain = name.removesuffix("_") in BOTH and all(tensor.ndim == 0 for tensor in host)
    return plain and all(tensor is not written for tensor in host)
