"""Networks of other kinds: what the trunk returns, who shares weights, what is frozen, compiled or recomputed."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.toys import equal, make_batch, make_conv_model, make_model, make_tasks, run_options, weights
from tune_mtl import MultiTaskModel, UserError, make_strategy
from tune_mtl.strategies.registry import registry

LR = 0.02
GRADIENT_SUMS = ("jd_sum", "adatask", "jd_constant")
"""With SGD these are SUS, whatever the network."""


def trained(name, model, count=3, steps=4, optimizer="sgd", **keywords):
    strategy = make_strategy(
        name, model, make_tasks(count), lr=LR, optimizer=optimizer, **run_options(name, 9), **keywords
    )
    for step in range(steps):
        strategy.step(*make_batch(count, seed=step))
    return weights(strategy.model)


class Pyramid(nn.Module):
    """Two scales, the second made from the first, which is there under two names."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 4), nn.Linear(4, 4)

    def forward(self, inputs):
        low = torch.tanh(self.first(inputs))
        return {"low": low, "same": low, "high": (torch.tanh(self.second(low)),)}


class FromScale(nn.Module):
    def __init__(self, pick):
        super().__init__()
        self.pick, self.out = pick, nn.Linear(4, 2)

    def forward(self, features):
        return self.out(self.pick(features))


def pyramid():
    torch.manual_seed(0)
    heads = {
        "t0": FromScale(lambda f: f["low"]),
        "t1": FromScale(lambda f: f["high"][0] + f["same"]),
        "t2": FromScale(lambda f: f["high"][0]),
    }
    return MultiTaskModel(Pyramid(), heads).double()


@pytest.mark.parametrize("name", sorted(name for name in registry if not registry[name].needs_convolutions))
def test_a_trunk_may_return_several_scales(name):
    assert all(tensor.isfinite().all() for tensor in trained(name, pyramid()))
    if name in GRADIENT_SUMS:
        for got, want in zip(trained(name, pyramid()), trained("sus", pyramid()), strict=True):
            torch.testing.assert_close(got, want)


class TiedHead(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared, self.out = [shared], nn.Linear(7, 2).double()

    def forward(self, features):
        return self.out(torch.tanh(features @ self.shared[0]))


@pytest.mark.parametrize("name", GRADIENT_SUMS)
def test_a_head_may_use_the_trunks_weights(name):
    def tied():
        model = make_model(3)
        torch.manual_seed(1)
        model.heads["t1"] = TiedHead(model.trunk[2].weight)
        return model

    for got, want in zip(trained(name, tied()), trained("sus", tied()), strict=True):
        torch.testing.assert_close(got, want)


def test_single_task_networks_keep_tied_weights_tied():
    model = make_model(3)
    model.heads["t1"] = nn.Sequential(model.trunk[2], nn.Linear(7, 2).double())
    strategy = make_strategy("stl", model, make_tasks(3), lr=LR)
    for step in range(3):
        strategy.step(*make_batch(3, seed=step))
    assert strategy.model.heads["t1"][0] is strategy.model.trunk["t1"][2]
    assert not torch.equal(strategy.model.trunk["t1"][2].weight, model.trunk[2].weight)
    trunk, head = copy.deepcopy((model.trunk, model.heads["t1"]))
    alone = MultiTaskModel(trunk, {"t1": head})
    reference = make_strategy("sus", alone, make_tasks(3)[1:2], lr=LR)
    for step in range(3):
        batch = make_batch(3, seed=step)
        reference.step(batch.inputs, {"t1": batch.targets["t1"]})
    assert equal(weights(strategy.model.trunk["t1"]), weights(alone.trunk))


def test_a_trunk_that_returns_something_else_is_named():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(5, 4)

        def forward(self, inputs):
            return type("Output", (), {"value": self.linear(inputs)})()

    model = MultiTaskModel(Wrapped(), {"t0": FromScale(lambda f: f.value)}).double()
    with pytest.raises(UserError, match="the trunk returns a Output"):
        trained("pcgrad", model, 1)


class Output(dict):
    """Read by attribute, as outputs of well-known libraries are."""

    def __getattr__(self, name):
        return self[name]


@pytest.mark.parametrize("name", sorted(name for name in registry if not registry[name].needs_convolutions))
def test_a_trunk_may_return_a_dict_of_its_own_kind(name):
    class Trunk(nn.Linear):
        def forward(self, inputs):
            return Output(value=super().forward(inputs))

    model = MultiTaskModel(Trunk(5, 4), {f"t{i}": FromScale(lambda f: f.value) for i in range(3)}).double()
    assert all(tensor.isfinite().all() for tensor in trained(name, model))


@pytest.mark.parametrize("name", ["pcgrad", "mgda_ub", "jd_upgrad"])
def test_a_head_that_works_in_place_is_named(name):
    model = make_model(3)
    model.heads["t1"] = nn.Sequential(nn.ReLU(inplace=True), model.heads["t1"])
    with pytest.raises(UserError, match="the head of task 't1' changes the trunk's output in place"):
        trained(name, model)


def test_nothing_to_train_is_named():
    model = make_model(2)
    model.requires_grad_(False)
    with pytest.raises(UserError, match="nothing to train"):
        trained("sus", model, 2)


@pytest.mark.parametrize("name", sorted(set(registry) - {"stl"}))
def test_a_task_of_weight_zero_takes_no_part(name):
    if registry[name].needs_tasks > 2:
        return
    model = make_conv_model(3)
    start = weights(model.trunk)
    tasks = [replace(task, weight=float(index > 0)) for index, task in enumerate(make_tasks(3))]
    strategy = make_strategy(name, model, tasks, lr=LR, optimizer="sgd", **run_options(name, 9))
    for step in range(4):
        losses = strategy.step(*make_batch(3, seed=step))
    assert list(losses) == ["t0", "t1", "t2"]
    moved = max((a - b).abs().max().item() for a, b in zip(weights(model.trunk), start, strict=True))
    assert moved > 1e-5
    assert all(tensor.isfinite().all() for tensor in weights(model))


@pytest.mark.parametrize("name", ["selective", "gradnorm"])
def test_a_loss_of_zero_is_forgotten(name):
    tasks = make_tasks(3)
    strategy = make_strategy(name, make_model(3), tasks, lr=LR, **run_options(name, 40))
    first = make_batch(3, seed=0)
    with torch.no_grad():
        first.targets["t0"].copy_(strategy.model(first.inputs)["t0"])
    strategy.step(*first)
    for step in range(1, 30):
        strategy.step(*make_batch(3, seed=step))
    if name == "selective":
        assert strategy.affinities.isfinite().all()
    else:
        assert 0.3 < strategy.balance.min() < strategy.balance.max() < 2.5


class OtherOrder(nn.Module):
    """Registered in another order than it runs, with dropout between a convolution and its BatchNorm."""

    def __init__(self, recompute=None):
        super().__init__()
        self.bn2, self.conv1, self.conv2 = (
            nn.BatchNorm2d(6),
            nn.Conv2d(2, 6, 3, padding=1),
            nn.Conv2d(6, 6, 3, padding=1),
        )
        self.bn1, self.conv3, self.dropout = nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1), nn.Dropout(0.1)
        self.inputs, self.recompute = nn.Linear(5, 24), recompute

    def body(self, images):
        features = torch.tanh(self.bn1(self.conv1(images)))
        features = torch.tanh(self.bn2(self.dropout(self.conv2(features))))
        return self.conv3(features).flatten(1)

    def forward(self, inputs):
        images = self.inputs(inputs).view(-1, 2, 4, 3)
        if self.recompute is None:
            return self.body(images)
        return checkpoint(self.body, images, use_reentrant=self.recompute)


def other_order(recompute=None):
    torch.manual_seed(0)
    return MultiTaskModel(OtherOrder(recompute), {f"t{i}": nn.Linear(48, 2) for i in range(3)}).double()


def test_masks_sit_where_the_network_runs_not_where_it_is_written():
    strategy = make_strategy("mr", other_order(), make_tasks(3), lr=LR, mr_updates_end=9, mr_sigma=0.5)
    before = copy.deepcopy(strategy.model.state_dict())
    torch.manual_seed(3)
    state = torch.get_rng_state()
    strategy.model.train()
    strategy.model._place_masks(make_batch(3, seed=0).inputs)
    assert torch.equal(torch.get_rng_state(), state)
    assert equal(list(before.values()), list(strategy.model.state_dict().values()))
    trunk = strategy.model.trunk
    assert [bool(layer._forward_hooks) for layer in (trunk.bn1, trunk.bn2, trunk.conv3)] == [True] * 3
    assert not trunk.conv1._forward_hooks
    assert not trunk.conv2._forward_hooks
    silent = {}
    for name in ("bn1", "bn2"):
        getattr(trunk, name).register_forward_hook(
            lambda _m, _i, output, name=name: silent.update({name: (output == 0).all(dim=(0, 2, 3))})
        )
    strategy.model.eval()
    strategy.model(make_batch(3, seed=0).inputs, ["t1"])
    masks = dict(zip(("bn1", "bn2"), strategy.model.masks, strict=False))
    for name, mask in masks.items():
        assert torch.equal(silent[name], ~mask.used[1])


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(6), nn.GroupNorm(2, 6), nn.InstanceNorm2d(6, affine=True)])
def test_a_silenced_channel_does_not_come_back_as_a_norms_offset(norm):
    trunk = nn.Sequential(nn.Unflatten(1, (1, 1, 5)), nn.Conv2d(1, 6, 1), norm)
    nn.init.ones_(norm.bias)
    model = MultiTaskModel(trunk, {f"t{i}": nn.Flatten() for i in range(3)}).double()
    strategy = make_strategy("mr", model, make_tasks(3), lr=LR, mr_updates_end=9, mr_sigma=0.5)
    seen = strategy.predict(make_batch(3, seed=0).inputs)["t1"].view(6, 6, 5)
    assert torch.equal((seen == 0).all(dim=(0, 2)), ~strategy.model.masks[0].used[1])


@pytest.mark.parametrize("recompute", [True, False])
def test_masks_hold_where_the_trunk_is_computed_again(recompute):
    results = []
    for how in (None, recompute):
        model = other_order(how)
        model.trunk.dropout.p = 0.0
        trained("mr", model, mr_sigma=0.5)
        results.append([weight.detach() for weight in model.parameters()])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


def test_parametrized_and_recurrent_layers_have_weights_too():
    model = make_conv_model(2)
    nn.utils.parametrizations.weight_norm(model.trunk[2])
    assert make_strategy("gradnorm", model, make_tasks(2), lr=LR)._layer.ndim > 1
    trained("mr", model, 2)
    layer = make_strategy("gradnorm", make_model(2), make_tasks(2), lr=LR, gradnorm_layer=0)._layer
    assert layer.shape == (7, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adatask", "pcgrad", "gradnorm", "mgda_ub"])
def test_compiled_trunks_take_several_backward_passes(name):
    def model():
        torch.manual_seed(0)
        trunk = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4), nn.Tanh())
        return MultiTaskModel(trunk, {f"t{i}": nn.Linear(4, 2) for i in range(3)})

    results = []
    for compiled in (False, True):
        strategy = make_strategy(name, model(), make_tasks(3), lr=LR, optimizer="sgd")
        if compiled:
            strategy.compile()
        for step in range(3):
            strategy.step(*make_batch(3, seed=step, dtype=torch.float32))
        results.append(weights(strategy.model))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
