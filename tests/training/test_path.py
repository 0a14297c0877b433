"""Path length against a copy of all weights at every update."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from
from torch import nn

from tests.toys import make_batch, make_conv_model, make_model, make_tasks, run_options
from tune_mtl import MultiTaskModel, PathLength, Task, UserError, make_strategy
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.strategies.registry import registry
from tune_mtl.training import last_weights

sharing = sorted(name for name, info in registry.items() if info.shares_trunk)


class Naive:
    """What the definition says: flatten everything before and after every step."""

    def __init__(self, parameters, optimizers):
        self.parameters, self.total, self.updates = list(parameters), 0.0, 0
        self.start = self.flat()
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(lambda *_: setattr(self, "before", self.flat()))
            optimizer.register_step_post_hook(self.after)

    def flat(self):
        return torch.cat([parameter.detach().double().flatten() for parameter in self.parameters])

    def after(self, *_):
        self.total += (self.flat() - self.before).norm().item()
        self.updates += 1


@settings(max_examples=25)
@given(
    name=sampled_from(sharing),
    seed=integers(0, 2**31),
    optimizer=sampled_from(["sgd", "adam", "momentum"]),
    dtype=sampled_from([torch.float32, torch.float64]),
)
def test_path_equals_its_definition(name, seed, optimizer, dtype):
    model = make_conv_model(4, dtype=dtype)
    tasks, options = make_tasks(4, scale=2.0), run_options(name, 5)
    strategy = make_strategy(name, model, tasks, lr=0.01, optimizer=optimizer, seed=seed, **options)
    path = PathLength(model, strategy.optimizers)
    traced = [p for name, p in model.trunk.named_parameters() if not name.startswith("3.")]
    stepping = [o for o in strategy.optimizers if any(p is traced[0] for g in o.param_groups for p in g["params"])]
    naive = Naive(traced, stepping)
    for step in range(5):
        strategy.step(*make_batch(4, seed=seed + step, missing=0.5, dtype=dtype))
    assert path.total == pytest.approx(naive.total, rel=1e-6)
    assert path.from_start() == pytest.approx((naive.flat() - naive.start).norm().item(), rel=1e-6)
    assert path.updates == naive.updates
    assert path.total >= path.from_start() * (1 - 1e-6)


def test_every_groups_step_counts():
    for name, updates in (("sus", 3), ("ius", 12), ("io", 12)):
        model = make_model(4)
        strategy = make_strategy(name, model, make_tasks(4), lr=0.01)
        path = PathLength(model, strategy.optimizers)
        for step in range(3):
            strategy.step(*make_batch(4, seed=step))
        assert path.updates == updates


def test_batchnorm_and_heads_are_not_part_of_the_path():
    trunk = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4))
    model = MultiTaskModel(trunk, {"a": nn.Linear(4, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    path = PathLength(model, [optimizer])
    for parameter in (*trunk[1].parameters(), *model.heads.parameters()):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert path.total == 0.0
    trunk[0].weight.grad = torch.ones_like(trunk[0].weight)
    optimizer.step()
    assert path.total == pytest.approx(12**0.5)


def test_adams_first_update_has_the_length_the_paper_expects():
    model = celeba_net(["a", "b"])
    task = [Task(name, nn.functional.binary_cross_entropy_with_logits) for name in ("a", "b")]
    strategy = make_strategy("sus", model, task, lr=1e-3)
    path = PathLength(model, strategy.optimizers)
    strategy.step(torch.rand(4, 3, 16, 16), {name: torch.ones(4) for name in ("a", "b")})
    assert path.total == pytest.approx(1e-3 * 5_171_904**0.5, rel=0.05)
    assert path.from_start() == pytest.approx(path.total, rel=1e-6)


def test_the_norm_of_millions_of_weights_is_exact():
    model = MultiTaskModel(nn.Linear(1500, 2000, bias=False), {"a": nn.Linear(2000, 1)})
    optimizer = torch.optim.SGD(model.trunk.parameters(), lr=1.0)
    path = PathLength(model, [optimizer])
    with torch.no_grad():
        before = model.trunk.weight.double()
        model.trunk.weight.grad = torch.randn(2000, 1500, generator=torch.Generator().manual_seed(0))
        optimizer.step()
        expected = (model.trunk.weight.double() - before).norm().item()
    assert path.total == pytest.approx(expected, rel=1e-7)


def test_path_goes_on_from_its_state():
    model = make_model(2)
    strategy = make_strategy("io", model, make_tasks(2), lr=0.01)
    path = PathLength(model, strategy.optimizers)
    strategy.step(*make_batch(2, seed=0))
    saved = copy.deepcopy((model.state_dict(), strategy.state_dict(), path.state_dict()))
    strategy.step(*make_batch(2, seed=1))

    other_model = make_model(2, seed=5)
    other_model.load_state_dict(saved[0])
    other = make_strategy("io", other_model, make_tasks(2), lr=0.01)
    other.load_state_dict(saved[1])
    resumed = PathLength(other_model, other.optimizers)
    resumed.load_state_dict(saved[2])
    other.step(*make_batch(2, seed=1))
    assert (resumed.total, resumed.from_start(), resumed.updates) == (path.total, path.from_start(), path.updates)


def test_closing_stops_counting():
    model = make_model(1)
    strategy = make_strategy("sus", model, make_tasks(1), lr=0.01)
    path = PathLength(model, strategy.optimizers)
    path.close()
    strategy.step(*make_batch(1, seed=0))
    assert (path.total, path.updates) == (0.0, 0)


def test_a_trunk_without_weights_has_no_path():
    with pytest.raises(UserError, match="no trainable weights"):
        PathLength(MultiTaskModel(nn.Identity(), {"a": nn.Linear(1, 1)}), [])


def moved_otherwise(weight: nn.Parameter, how: str) -> None:
    with torch.no_grad():
        if how == "in place":
            weight += 1.0
        elif how == "loaded":
            weight.copy_(torch.ones_like(weight))
        else:
            weight.data = weight.data + 1.0


@pytest.mark.parametrize("how", ["in place", "loaded", "other memory"])
def test_what_else_changes_weights_is_no_step(how):
    model = make_model(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path, naive = PathLength(model, [optimizer]), Naive(model.trunk.parameters(), [optimizer])
    for step in range(4):
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, 1.0 + step)
        optimizer.step()
        moved_otherwise(model.trunk[0].weight, how)
        assert path.total == pytest.approx(naive.total, rel=1e-9)
    assert path.from_start() == pytest.approx((naive.flat() - naive.start).norm().item(), rel=1e-9)
    optimizer.step()
    assert path.total == pytest.approx(naive.total, rel=1e-9)


def with_gaps(model: nn.Module) -> nn.Module:
    """Weights of which every second number in memory is another's."""
    wide = torch.zeros(6, 8, 3, 3)
    model[0].weight = nn.Parameter(wide[:, ::2])
    return model


@pytest.mark.parametrize("laid_out", [lambda model: model.to(memory_format=torch.channels_last), with_gaps])
@pytest.mark.parametrize("at_once", [2048, 2**17])
def test_memory_formats_and_the_size_of_pieces_change_nothing(laid_out, at_once, monkeypatch):
    monkeypatch.setattr(last_weights, "_AT_ONCE", at_once)
    trunk = laid_out(nn.Sequential(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 70, 3), nn.Flatten(), nn.Linear(70, 9)))
    model = MultiTaskModel(trunk, {"a": nn.Linear(9, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = PathLength(model, [optimizer], by_layer=True)
    naive = Naive(trunk.parameters(), [optimizer])
    layers = {name: Naive(trunk.get_submodule(name).parameters(), [optimizer]) for name in "013"}
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator).to(memory_format=torch.preserve_format)
        optimizer.step()
    assert path.total == pytest.approx(naive.total, rel=1e-6)
    assert path.from_start() == pytest.approx((naive.flat() - naive.start).norm().item(), rel=1e-6)
    assert path.by_layer() == pytest.approx(
        {f"path/layer/{name}": layer.total for name, layer in layers.items()}, rel=1e-6
    )
