"""An accelerator without hardware: its numbers are the CPU's, its tensors are no CPU tensors, its waits are counted.

It is a backend of torch in Python, on the place that torch keeps for others' devices (``PrivateUse1``). A tensor on it
wraps one on the CPU. An operation unwraps its operands, runs on the CPU and wraps what comes out, and is refused, as
CUDA refuses it, where its operands are on different devices. Everything that torch does not promise is taken here:
`test_torch_names.py` fails, with a line that says what is missing, on a torch whose internals have moved.

To register a backend changes the whole process, for good; nothing else there changes as long as nobody asks for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

from tests.device.waits import COPIES, may_mix, waits_of

NAME = "simulated"

_found: list[list[str]] = []
"""The lists of those who count waits just now."""


class OnDevice(Tensor):
    """A tensor on the simulated device; ``held`` is the CPU's tensor behind it."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        made = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=device(),
        )
        made.held = held.detach()
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})

    def __reduce_ex__(self, protocol):
        """Saved as what ``map_location="cpu"`` loads: to save is to copy to the host."""
        _wait("saving")
        return self.held.clone().requires_grad_(self.requires_grad).__reduce_ex__(protocol)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        Tensor.data.__set__(self, value)
        self.held = value.held

    def tolist(self):
        _wait("tolist")
        return self.held.tolist()

    def numpy(self, *_, **__):
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy: use Tensor.cpu() first")

    def __format__(self, form):
        return self.item().__format__(form) if self.ndim == 0 else repr(self)

    def __repr__(self, **_):
        _wait("printing")
        return f"OnDevice({self.held!r})"


class _Module:
    """What torch asks of a device's module, ``torch.cuda`` of CUDA's: one device, whose random numbers are the CPU's.

    Functions of torch that are about no device in particular ask it too, as ``fork_rng`` does.
    """

    is_initialized = staticmethod(lambda: True)
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda _: None)
    synchronize = staticmethod(lambda _=None: _wait("synchronize"))
    manual_seed_all = staticmethod(lambda _: None)
    _is_in_bad_fork = staticmethod(lambda: False)
    get_rng_state = staticmethod(lambda _=None: torch.get_rng_state())
    device = staticmethod(lambda _: nullcontext())
    set_rng_state = staticmethod(lambda state, _=None: torch.set_rng_state(state))
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])


class _Generator(torch.Generator):
    """Torch makes no generators for backends in Python: this is one of the CPU that says that it is on the device.

    Operations see it without its class: it is known there by its seed.
    """

    living: ClassVar[WeakSet["_Generator"]] = WeakSet()

    def __new__(cls, device: Any = "cpu"):
        if torch.device(device).type != NAME:
            return _torch_generator(device)
        made = super().__new__(cls, "cpu")
        cls.living.add(made)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self):
        return device()


_torch_generator = torch.Generator


def device() -> torch.device:
    """Return the device."""
    _register()
    return torch.device(NAME, 0)


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yield the list of all waits within this block, in their order; anywhere in the process."""
    found: list[str] = []
    _found.append(found)
    try:
        yield found
    finally:
        _found.remove(found)


@contextmanager
def present() -> Iterator[torch.device]:
    """Have the device in this block, where everything of a trial may happen on it.

    ``torch.Generator`` knows it, and backward passes stay in their thread: those that torch starts for devices are
    counted out when the first backward pass of the process is made, which may have been before the device was there.
    """
    place = device()
    torch.Generator = _Generator
    try:
        with torch.autograd.set_multithreading_enabled(False):
            yield place
    finally:
        torch.Generator = _torch_generator


@cache
def _register() -> tuple[torch.library.Library, ...]:
    """Tell torch of the device, and of the operations that do not come to ``OnDevice``; they hold while this is kept.

    Those make a tensor there of none that is there. ``torch.tensor`` switches subclasses off while it copies.
    """
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    makers, copies = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    makers.fallback(lambda function, *args, **kwargs: _run(function, args, kwargs), "PrivateUse1")
    lower = torch.library.Library("_", "IMPL")
    lower.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in LOWERED:
        copies.impl(name, _lowered(getattr(torch.ops.aten, name).default), "AutocastPrivateUse1")
    copy = torch.ops.aten._copy_from.default
    copies.impl("_copy_from", lambda *args, **kwargs: _run(copy, args, kwargs), "PrivateUse1")
    return makers, copies, lower


LOWERED = ("linear", "conv2d", "convolution", "matmul", "mm", "addmm", "bmm", "baddbmm")
"""Operations that autocast has computed in the lower precision: of the CPU's list those that networks are made of."""


def _lowered(operation):
    """Return the operation as autocast takes it there: tensors of float32 are rounded first."""

    def run(*args, **kwargs):
        dtype = torch.get_autocast_dtype(NAME)

        def rounded(value):
            return value.to(dtype) if isinstance(value, Tensor) and value.dtype == torch.float32 else value

        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return operation(*tree_map(rounded, args), **tree_map(rounded, kwargs))

    return run


def _wait(why: str) -> None:
    for found in _found:
        found.append(why)


def _run(function, args, kwargs):
    name = function._schema.name.removeprefix("aten::")
    given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
    inside, host = [t for t in given if isinstance(t, OnDevice)], [t for t in given if not isinstance(t, OnDevice)]
    if inside and host and not may_mix(name, host, args, OnDevice):
        raise RuntimeError(
            f"{name}: expected all tensors to be on the same device, but found {NAME}:0 and cpu"
            f" (shapes {[tuple(t.shape) for t in given]})"
        )
    where = kwargs.get("device") or (device() if inside else torch.device("cpu"))
    there = torch.device(where).type == NAME
    if inside:
        for why in waits_of(name, args, kwargs, OnDevice):
            _wait(why)
    if name in COPIES:
        _note_copy(name, args, kwargs, there)
    _check_generator(name, kwargs.get("generator"), there)
    wrappers = {id(t.held): t for t in inside} | {id(t): t for t in host}
    plain = tree_map(_unwrapped, args), {key: _unwrapped_keyword(key, value) for key, value in kwargs.items()}
    if name == "_copy_from":
        plain[0][1].copy_(plain[0][0])
        return args[1]
    result = function(*plain[0], **plain[1])
    if torch.Tag.inplace_view in function.tags and inside:
        with torch._C._DisableTorchDispatch():  # shape and strides of what wraps it
            function(*args, **kwargs)

    def wrapped(value):
        if not isinstance(value, Tensor):
            return value
        known = wrappers.get(id(value))
        if known is not None:
            return known
        return OnDevice(value) if there else value

    return tree_map(wrapped, result)


def _unwrapped(value):
    return value.held if isinstance(value, OnDevice) else value


def _unwrapped_keyword(key, value):
    if key == "device" and value is not None:
        return torch.device("cpu")
    return False if key == "pin_memory" else tree_map(_unwrapped, value)


def _note_copy(name, args, kwargs, there) -> None:
    """Copies to the host wait for it, and so do copies to the device unless they are told not to block."""
    blocks = not kwargs.get("non_blocking", False)
    if name == "_to_copy":
        moves = [(isinstance(args[0], OnDevice), there)]
    elif name in ("copy_", "copy"):
        blocks = not (kwargs.get("non_blocking", False) or (len(args) > 2 and args[2]))
        moves = [(isinstance(args[1], OnDevice), isinstance(args[0], OnDevice))]
    elif name == "_foreach_copy_":
        moves = [(isinstance(b, OnDevice), isinstance(a, OnDevice)) for a, b in zip(args[0], args[1], strict=True)]
    else:
        moves = [(isinstance(args[0], OnDevice), isinstance(args[1], OnDevice))]
    for from_device, to_device in moves:
        if from_device and not to_device:
            _wait("copy to the host")
        elif to_device and not from_device and blocks:
            _wait("copy to the device")


def _check_generator(name, source, there) -> None:
    if source is None:
        return
    on_device = source.initial_seed() in {known.initial_seed() for known in _Generator.living}
    if on_device != there:
        raise RuntimeError(f"{name}: expected a generator of the {'device' if there else 'host'}, got the other's")
