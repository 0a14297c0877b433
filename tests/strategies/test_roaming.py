"""Maximum Roaming: who starts where, who moves when, and what each task sees."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis.strategies import floats, integers
from torch import nn

from tests.toys import make_batch, make_conv_model, make_model, make_tasks, weights
from tune_mtl import MultiTaskModel, Task, UserError, make_strategy
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.strategies.methods.mr import Road, initial_masks

LR = 0.02


@settings(max_examples=60)
@given(tasks=integers(1, 12), channels=integers(1, 70), sigma=floats(0.05, 1), seed=integers(0, 1000))
def test_masks_cover_every_channel_and_keep_the_sharing_ratio(tasks, channels, sigma, seed):
    used = initial_masks(tasks, channels, sigma, torch.Generator().manual_seed(seed))
    assert used.any(dim=0).all()
    spare = min(math.floor((1 - sigma) * channels + 1e-9), channels - 1)
    assert ((~used).sum(dim=1) <= spare).all()
    if tasks == 1:
        assert used.all()
    starts = torch.arange(channels) % tasks
    assert used[starts, torch.arange(channels)].all()


@settings(max_examples=40)
@given(tasks=integers(2, 6), channels=integers(4, 40), end=integers(1, 120), size=integers(1, 3), seed=integers(0, 99))
def test_tasks_swap_only_for_channels_they_never_used_and_visit_all_in_time(tasks, channels, end, size, seed):
    generator = torch.Generator().manual_seed(seed)
    used = initial_masks(tasks, channels, 0.6, generator)
    road = Road(used.clone(), end, size)
    visited = used.clone()
    end = max(end, math.ceil(int((~used).sum(dim=1).max()) / int(used.sum(dim=1).min())))
    for mini_batch in range(1, end + 1):
        if road.moves_at(mini_batch):
            moved = road.move(used, generator)
            assert not (visited & moved & ~used).any()
            assert torch.equal(moved.sum(dim=1), used.sum(dim=1))
            used, visited = moved, visited | moved
    assert visited.all()
    assert not road.moves_at(10 * end)


@pytest.mark.parametrize(
    ("end", "intervals"),
    [(3000, {64: 250, 128: 120, 256: 58, 512: 29}), (10_000, {64: 833, 128: 400, 256: 196, 512: 98})],
)
def test_intervals_are_the_published_ones(end, intervals):
    for channels, interval in intervals.items():
        used = initial_masks(3, channels, 0.8, torch.Generator().manual_seed(0))
        assert Road(used, end, 1).interval == interval


def test_the_celeba_net_has_masks_after_each_convolutions_batch_norm():
    names = ["a", "b", "c"]
    tasks = [Task(name, F.binary_cross_entropy_with_logits) for name in names]
    strategy = make_strategy("mr", celeba_net(names), tasks, lr=0.1, mr_updates_end=3000)
    assert [road.interval for road in strategy.roads] == [250, 120, 120, 58, 58, 29, 29]
    strategy.predict(torch.rand(2, 3, 16, 16))
    hooked = [module for module in strategy.model.trunk.modules() if module._forward_hooks]
    assert [type(module) for module in hooked] == [nn.BatchNorm2d] * 7


def test_mr_predicts_through_each_tasks_masks():
    strategy = make_strategy("mr", make_conv_model(3), make_tasks(3), lr=LR, mr_updates_end=4, mr_sigma=0.5)
    strategy.model.eval()
    batch = make_batch(3, seed=0)
    trunk, masks = strategy.model.trunk, strategy.model.masks[0].used
    predictions = strategy.predict(batch.inputs)
    for index, task in enumerate(strategy.tasks):
        hidden = trunk[:4](batch.inputs) * masks[index].double()[:, None, None]
        for layer in list(trunk)[4:]:
            hidden = layer(hidden)
        torch.testing.assert_close(predictions[task], strategy.model.heads[task](hidden))
    assert not torch.equal(trunk(batch.inputs), hidden)
    loaded = type(strategy).own_model(make_conv_model(3, seed=9), list(strategy.tasks)).eval()
    loaded.load_state_dict(strategy.model.state_dict())
    for task, prediction in loaded(batch.inputs).items():
        assert torch.equal(prediction, predictions[task])
    copied = copy.deepcopy(loaded)
    copied.masks[0].used.fill_(True)
    assert torch.equal(loaded(batch.inputs)["t0"], predictions["t0"])
    assert not torch.equal(copied(batch.inputs)["t0"], predictions["t0"])


def test_mr_alternates_or_accumulates():
    """Unmasked (sigma = 1), the one is IUS and the other SUS."""
    for accumulate, other in ((False, "ius"), (True, "sus")):
        results = []
        for name, keywords in (
            ("mr", {"mr_sigma": 1.0, "mr_accumulate": accumulate, "mr_updates_end": 3}),
            (other, {}),
        ):
            strategy = make_strategy(name, make_conv_model(3), make_tasks(3), lr=LR, **keywords)
            strategy.model.eval()
            for step in range(5):
                strategy.step(*make_batch(3, seed=step))
            results.append((weights(strategy.model.trunk), strategy.updates))
        assert results[0][1] == results[1][1]
        for got, want in zip(results[0][0], results[1][0], strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_mr_needs_convolutions():
    with pytest.raises(UserError, match="'mr' needs a trunk with convolutions"):
        make_strategy("mr", make_model(2), make_tasks(2), lr=0.1, mr_updates_end=5)


class Reused(nn.Module):
    """One convolution, used twice, and how its outputs are normed: by ``n1`` and ``n2``, by one of them, or not."""

    def __init__(self, first=None, second=None, other=False):
        super().__init__()
        self.inputs, self.conv, self.n1, self.n2 = nn.Linear(5, 24), nn.Conv2d(6, 6, 1), first, second
        self.other = nn.Conv2d(6, 6, 1) if other else None

    def forward(self, inputs):
        seen = (self.n1 or nn.Identity())(self.conv(self.inputs(inputs).view(-1, 6, 2, 2)))
        seen = torch.nn.functional.dropout(torch.tanh(seen), 0.3)  # draws random numbers in evaluation too
        return (self.n2 or nn.Identity())((self.other or self.conv)(seen)).flatten(1)


def reused(*norms, other=False):
    torch.manual_seed(0)
    model = MultiTaskModel(Reused(*norms, other=other), {name: nn.Linear(24, 2) for name in ("t0", "t1", "t2")})
    return make_strategy("mr", model.double(), make_tasks(3), lr=LR, mr_updates_end=9, mr_sigma=0.5)


def test_a_convolution_used_twice_is_masked_twice():
    strategy = reused(nn.BatchNorm2d(6), nn.BatchNorm2d(6))
    silent = []
    strategy.predict(make_batch(3, seed=0).inputs)
    for norm in (strategy.model.trunk.n1, strategy.model.trunk.n2):
        norm.register_forward_hook(lambda _m, _i, output: silent.append((output == 0).all(dim=(0, 2, 3))))
    strategy.model(make_batch(3, seed=0).inputs, ["t1"])
    assert all(torch.equal(found, ~strategy.model.masks[0].used[1]) for found in silent)
    assert len(silent) == 2


def test_what_cannot_be_masked_is_named():
    with pytest.raises(UserError, match="only some of its outputs go through a norm"):
        reused(nn.BatchNorm2d(6), None).step(*make_batch(3, seed=0))
    shared = nn.BatchNorm2d(6)
    with pytest.raises(UserError, match="'n1' takes the outputs of several convolutions"):
        reused(shared, shared, other=True).step(*make_batch(3, seed=0))


def test_looking_for_places_draws_no_random_numbers():
    strategy = reused(None, None)
    torch.manual_seed(4)
    before = torch.get_rng_state()
    strategy.model._place_masks(make_batch(3, seed=0).inputs)
    assert torch.equal(before, torch.get_rng_state())


def test_a_task_uses_a_channel_however_small_its_share():
    assert initial_masks(40, 8, 1e-12, torch.Generator().manual_seed(0)).any(dim=1).all()
