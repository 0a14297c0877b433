"""Waits for the device are seen on a CPU, with the line that asked for them."""

import torch

from tune_mtl.testing.device import waits


def operations(found):
    return [wait.operation for wait in found]


def test_what_would_wait_is_seen_and_what_is_on_the_host_already_is_not():
    held, other = torch.ones(3), torch.ones(3)
    with waits([held]) as found:
        assert found == []
        float((held * other).sum())
        assert operations(found) == ["_local_scalar_dense"]
        there = (held + 1).cpu()
        assert operations(found)[1:] == ["cpu"]
        there.tolist(), there.numpy(), float(there.sum()), bool(other.any()), there.cpu(), other.to("cpu")
        assert len(found) == 2
        torch.linalg.eigh(held[:, None] * held)
        held[held > 0]
        held.to("cpu")
        held.to(device="cpu", dtype=torch.float64)
        held.to(torch.float64)
        assert operations(found)[2:] == ["_linalg_eigh", "index", "to", "to"]
    held.tolist()
    assert len(found) == 6


def test_methods_are_as_they_were_afterwards_whatever_happens():
    before = [torch.Tensor.cpu, torch.Tensor.to, torch.Tensor.tolist, torch.Tensor.numpy]
    try:
        with waits([torch.ones(1)]):
            raise KeyError
    except KeyError:
        pass
    assert [torch.Tensor.cpu, torch.Tensor.to, torch.Tensor.tolist, torch.Tensor.numpy] == before


def test_a_freed_place_in_memory_is_not_mistaken_for_the_device():
    held = torch.ones(1000)
    with waits([held]) as found:
        for _ in range(50):
            del_me = held * 2
            del del_me
            torch.ones(1000).tolist()
            torch.from_numpy(torch.ones(1000).numpy() + 1).tolist()
    assert found == []
