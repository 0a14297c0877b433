"""What is taken from torch's internals is still there and still means the same; each failure says what has moved."""

import pytest
import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from tune_mtl.core.torch_compat import (
    BatchNorm,
    ChannelNorm,
    Convolution,
    allow_several_backward_passes,
    copy_each,
    gradient_size,
    own_buffers,
    register_child,
    sequence_number,
    subtract_each,
)

BATCH_NORMS = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"}
CHANNEL_NORMS = BATCH_NORMS | {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "GroupNorm"}
CONVOLUTIONS = {f"Conv{kind}{size}d" for kind in ("", "Transpose") for size in (1, 2, 3)}


@pytest.mark.parametrize(
    ("family", "wanted"),
    [(BatchNorm, BATCH_NORMS), (ChannelNorm, CHANNEL_NORMS), (Convolution, CONVOLUTIONS)],
    ids=["BatchNorm", "ChannelNorm", "Convolution"],
)
def test_a_family_holds_these_public_layers_and_no_other(family, wanted):
    layers = {name: layer for name, layer in vars(nn).items() if isinstance(layer, type)}
    found = {name for name, layer in layers.items() if issubclass(layer, family) and not name.startswith("Lazy")}
    assert found == wanted, f"torch {torch.__version__} has regrouped its layers: {sorted(found ^ wanted)}"


def test_compiled_code_has_a_setting_for_several_backward_passes(monkeypatch):
    import torch._functorch.config as config

    assert hasattr(config, "donated_buffer"), f"torch {torch.__version__} has no donated_buffer: find its successor"
    monkeypatch.setattr(config, "donated_buffer", True)
    allow_several_backward_passes()
    assert config.donated_buffer is False


@pytest.mark.parametrize("name", ["_foreach_copy_", "_foreach_sub_", "_foreach_lerp_", "_foreach_norm"])
def test_torch_has_kernels_for_lists_of_tensors(name):
    assert hasattr(torch, name), f"torch {torch.__version__} has no {name}: paths and averages need it"


def test_lists_of_tensors_are_copied_and_subtracted_in_place():
    target = [torch.zeros(2), torch.zeros(3)]
    copy_each(target, [torch.full((2,), 5.0), torch.full((3,), 7.0)])
    subtract_each(target, [torch.ones(2), torch.ones(3)])
    assert [tensor.tolist() for tensor in target] == [[4.0, 4.0], [6.0, 6.0, 6.0]]


def test_nodes_of_a_graph_are_numbered_as_they_are_made_and_know_the_size_of_what_they_are_told():
    first = torch.ones(2, 3, requires_grad=True).exp()
    then = first.sum(dim=0)
    nodes = [get_gradient_edge(tensor).node for tensor in (first, then)]
    assert sequence_number(nodes[0]) < sequence_number(nodes[1]), f"torch {torch.__version__} numbers nodes otherwise"
    assert [gradient_size(node, 0) for node in nodes] == [6, 3], f"torch {torch.__version__} keeps sizes elsewhere"


def test_own_buffers_include_those_that_are_none():
    module = nn.Sequential(nn.BatchNorm1d(2))
    module.register_buffer("later", None)
    assert own_buffers(module) == {"later": None}, f"torch {torch.__version__} keeps buffers elsewhere"


def test_a_child_may_have_the_name_of_a_method():
    parent, child = nn.ModuleDict(), nn.Linear(2, 2)
    register_child(parent, "keys", child)
    assert dict(parent.named_children()) == {"keys": child}, f"torch {torch.__version__} keeps children elsewhere"
    assert set(parent.state_dict()) == {"keys.weight", "keys.bias"}
