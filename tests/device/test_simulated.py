"""The simulated device: it computes as the CPU does, refuses what CUDA refuses, and sees every wait."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.device.simulated import OnDevice, counted, present


@pytest.fixture(autouse=True)
def place():
    with present() as device:
        yield device


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(48, 2),
    ]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}], ids=str)
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_training_gives_the_numbers_of_the_cpu(place, optimizer, how):
    losses = []
    for where in ("cpu", place):
        model = network().to(where).to(memory_format=torch.channels_last)
        steps, inputs = optimizer(model.parameters(), lr=0.1, **how), torch.randn(5, 2, 6, 6).to(where)
        for _ in range(3):
            steps.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            steps.step()
        losses.append([loss.item(), *(value.cpu().double().sum().item() for value in model.state_dict().values())])
    assert losses[0] == losses[1]
    assert all(weight.device == place for weight in copy.deepcopy(model).parameters())


READS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool(x.any()),
    "index": lambda x: [1, 2][x[0].long()],
    "comparison": lambda x: "yes" if x[0] > 0 else "no",
    "membership": lambda x: 1.0 in x,
    "tolist": lambda x: x.tolist(),
    "print": str,
    "format": lambda x: f"{x[0]:.2f}",
    "nonzero": torch.nonzero,
    "selection": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "assignment": lambda x: x.index_put((x > 0,), x),
    "unique": torch.unique,
    "bincount": lambda x: torch.bincount(x.long()),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "to the host": torch.Tensor.cpu,
    "into the host": lambda x: torch.zeros(3).copy_(x),
    "non-blocking to the host": lambda x: x.to("cpu", non_blocking=True),
    "to the device": lambda x: torch.ones(3).to(x.device),
    "made of numbers": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "into the device": lambda x: x.copy_(torch.ones(3)),
    "the host's positions": lambda x: x[torch.tensor([0, 1])],
    "decomposition": lambda x: torch.linalg.eigh(torch.outer(x, x)),
    "saving": lambda x: copy.copy(x).__reduce_ex__(2),
    "synchronize": lambda x: torch.get_device_module(x.device).synchronize(),
}


@pytest.mark.parametrize("name", READS)
def test_every_wait_is_counted(place, name):
    given = torch.tensor([1.0, 2.0, 3.0]).to(place)
    with counted() as waits:
        READS[name](given)
    assert len(waits) == 1
    with counted() as waits:
        READS[name](given.cpu()) if name not in ("to the device", "synchronize") else None
        waits.remove("copy to the host") if waits else None
    assert waits == []


FREE = {
    "arithmetic": lambda x: (x * 2.0 + x[0]).sum(),
    "the host's number": lambda x: x * torch.tensor(2.0) + torch.tensor([1.0])[0],
    "a number written": lambda x: x.fill_(3.0),
    "a number where": lambda x: x.index_put_((x > 1,), torch.zeros((), device=x.device)),
    "choice": lambda x: torch.where(x > 1, x, 0.0),
    "made there": lambda x: torch.arange(3, device=x.device) + torch.full_like(x, 2.0),
    "not blocking": lambda x: torch.ones(3).to(x.device, non_blocking=True),
    "positions there": lambda x: x[torch.arange(2, device=x.device)],
    "shape": lambda x: (len(x), x.shape, x.numel(), x.dtype, list(x)),
    "random": lambda x: torch.rand_like(x),
    "in place of shape": lambda x: x.view(1, 3).squeeze_(0),
}


@pytest.mark.parametrize("name", FREE)
def test_what_stays_on_the_device_is_no_wait(place, name):
    given = torch.tensor([1.0, 2.0, 3.0]).to(place)
    with counted() as waits:
        FREE[name](given)
    assert waits == []


MIXED = {
    "sum": lambda x, y: x + y,
    "in place on the host": lambda x, y: y.add_(x),
    "a number of the host in place": lambda x, y: y[0].add_(x[0]),
    "product": lambda x, y: x @ y,
    "stack": lambda x, y: torch.stack([x, y]),
    "stack of a number": lambda x, y: torch.stack([x[0], y[0]]),
    "loss": F.mse_loss,
    "choice": lambda x, y: torch.where(y > 0, x, 0.0),
    "masked": lambda x, y: x.masked_fill(y > 0, 0.0),
    "gather": lambda x, y: x.gather(0, y.long()),
    "positions there": lambda x, y: y[x.long()],
    "layer": lambda x, y: F.linear(x, y[None]),
    "interpolation": lambda x, y: torch.lerp(x, y, 0.5),
    "all at once": lambda x, y: torch._foreach_add([x], [y]),
}


@pytest.mark.parametrize("name", MIXED)
def test_operands_of_two_devices_are_refused(place, name):
    here = torch.zeros(3)
    with pytest.raises(RuntimeError, match="same device"):
        MIXED[name](torch.zeros(3).to(place), here)


def test_arrays_are_not_made_of_what_is_there(place):
    with pytest.raises(TypeError, match="numpy"):
        torch.zeros(3).to(place).numpy()


def test_generators_have_a_device(place):
    there, here = torch.Generator(device=place).manual_seed(3), torch.Generator().manual_seed(3)
    assert (there.device, here.device.type) == (place, "cpu")
    assert torch.rand(3, generator=there, device=place).cpu().tolist() == torch.rand(3, generator=here).tolist()
    with pytest.raises(RuntimeError, match="expected a generator"):
        torch.rand(3, generator=here.manual_seed(4), device=place)


def test_what_is_replaced_is_replaced(place):
    weight, other = nn.Parameter(torch.zeros(2, device=place)), torch.ones(2, device=place)
    weight.data = other
    assert isinstance(weight, OnDevice)
    assert isinstance(weight, nn.Parameter)
    assert weight.tolist() == [1.0, 1.0]
    assert weight.grad is None
    (weight * 3).sum().backward()
    assert weight.grad.tolist() == [3.0, 3.0]


def test_views_share_numbers_and_gradients_reach_them(place):
    whole = torch.zeros(2, 3, device=place)
    whole[0, 1:].add_(2.0)
    whole.T[0, 1] = 5.0
    assert whole.tolist() == [[0.0, 2.0, 2.0], [5.0, 0.0, 0.0]]
    leaf = torch.ones(3, device=place, requires_grad=True)
    scaled = leaf * 2
    scaled[1:] *= 4
    scaled.sum().backward()
    assert leaf.grad.tolist() == [2.0, 8.0, 8.0]
