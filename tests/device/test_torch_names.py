"""What `simulated.py` takes of torch beyond its interface is still there; each failure says what has moved."""

import importlib

import pytest
import torch

NAMES = (
    "torch.utils.backend_registration:_setup_privateuseone_for_python_backend",
    "torch.utils._pytree:tree_map",
    "torch.utils._pytree:tree_leaves",
    "torch:Tensor._make_wrapper_subclass",
    "torch:Tensor.__reduce_ex__",
    "torch:Tag.inplace_view",
    "torch:library.Library.fallback",
    "torch:ops.aten._copy_from.default",
    "torch:_C._disabled_torch_function_impl",
    "torch:_C._DisableTorchDispatch",
    "torch:autograd.set_multithreading_enabled",
    "torch:library.fallthrough_kernel",
    "torch:get_autocast_dtype",
    "torch:_C._ExcludeDispatchKeyGuard",
    "torch:_C.DispatchKey.AutocastPrivateUse1",
)


@pytest.mark.parametrize("name", NAMES)
def test_torch_still_has_what_a_backend_in_python_is_made_of(name):
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
        assert found is not None, f"torch {torch.__version__} has no {name}: tests/device/simulated.py needs it"
