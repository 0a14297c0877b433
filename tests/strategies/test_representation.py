"""Rules at the trunk's output equal loops by hand, and the same rules over the trunk where both must agree."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis.strategies import floats, integers
from torch import nn

from tests.strategies.baseline_oracles import min_norm
from tests.strategies.oracles import labelled_losses
from tests.toys import equal, make_batch, make_model, make_tasks, weights
from tune_mtl import MultiTaskModel, Task, make_strategy
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import registry

LR, LEAK = 0.05, 0.3
NAMES = ("jd_graddrop", "jd_imtlg", "mgda_ub")
seeds = integers(0, 10_000)


def make(name, model, tasks, at="representation", **keywords):
    return make_strategy(name, model, tasks, **{"lr": LR, "optimizer": "sgd", f"{name}_at": at, **keywords})


def impartial(rows):
    """The combination with equal projections onto all rows, by its conditions: u_1 . d = u_k . d, weights of sum 1."""
    units = rows / rows.norm(dim=1, keepdim=True)
    conditions = torch.cat([(units[:1] - units[1:]) @ rows.T, torch.ones(1, len(rows), dtype=rows.dtype)])
    return torch.linalg.solve(conditions, torch.tensor([0.0] * (len(rows) - 1) + [1.0], dtype=rows.dtype))


def dropped(z, rows, draws):
    """GradDrop's layer, sample by sample as in its Algorithm 1."""
    signed = sum(z[b].sign() * rows[:, b] for b in range(len(z)))
    purity = (1 + signed.sum(dim=0) / signed.abs().sum(dim=0)) / 2
    kept = ((purity > draws) * (signed > 0) + (purity < draws) * (signed < 0)).to(rows.dtype)
    return sum((LEAK + (1 - LEAK) * mask) * row for mask, row in zip(kept, rows, strict=True))


@pytest.mark.parametrize("missing", [None, 0.7])
@pytest.mark.parametrize("name", ["jd_graddrop", "jd_imtlg"])
def test_a_step_equals_a_loop_by_hand(name, missing):
    tasks = [replace(task, weight=1.0 + index) for index, task in enumerate(make_tasks(4, scale=1.5))]
    options = {"jd_graddrop_leak": LEAK} if name == "jd_graddrop" else {}
    model = make_model(4)
    strategy, reference, generator = make(name, model, tasks, **options), copy.deepcopy(model), torch.Generator()
    generator.set_state(strategy.recipe.generator.get_state())
    for step in range(6):
        batch = make_batch(4, seed=step, missing=missing)
        strategy.step(*batch)
        z = reference.trunk(batch.inputs)
        losses = labelled_losses(reference, tasks, batch, z)
        at_z = torch.stack([torch.autograd.grad(loss, z, retain_graph=True)[0] for loss in losses.values()])
        if name == "jd_graddrop":
            with torch.random.fork_rng():
                torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
                direction = dropped(z.detach(), at_z, torch.rand(1, 7, dtype=z.dtype))
        else:
            direction = torch.tensordot(impartial(at_z.flatten(1)), at_z, dims=1)
        trunk = list(reference.trunk.parameters())
        moves = list(zip(trunk, torch.autograd.grad(z, trunk, direction, retain_graph=True), strict=True))
        for task, loss in losses.items():
            own = list(reference.heads[task].parameters())
            moves += zip(own, torch.autograd.grad(loss, own, retain_graph=True), strict=True)
        with torch.no_grad():
            for weight, gradient in moves:
                weight -= LR * gradient
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


def test_mgda_ub_over_the_trunk_is_the_shortest_step():
    model, tasks = make_model(3), make_tasks(3, scale=1.5)
    strategy, reference = make("mgda_ub", model, tasks, at="trunk"), copy.deepcopy(model)
    for step in range(5):
        batch = make_batch(3, seed=step)
        strategy.step(*batch)
        predictions, trunk = reference(batch.inputs), list(reference.trunk.parameters())
        losses = [task.loss(predictions[task.name], batch.targets[task.name]) for task in tasks]
        rows = [torch.cat([g.flatten() for g in torch.autograd.grad(t, trunk, retain_graph=True)]) for t in losses]
        chosen = min_norm((torch.stack(rows) @ torch.stack(rows).T).numpy())
        reference.zero_grad()
        sum(float(a) * loss for a, loss in zip(chosen, losses, strict=True)).backward()
        torch.optim.SGD(reference.parameters(), lr=LR).step()
        assert np.ptp(chosen) > 0.1
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(seed=seeds, width=integers(2, 9))
def test_where_the_output_is_the_trunks_only_weight_both_forms_agree(name, seed, width):
    """One sample of one feature that is 1, and weights above 0: z is the weights, and its sign is theirs."""
    results = []
    for at in ("trunk", "representation"):
        torch.manual_seed(seed)
        model = MultiTaskModel(
            nn.Linear(1, width, bias=False), {f"t{i}": nn.Linear(width, 2) for i in range(3)}
        ).double()
        with torch.no_grad():
            model.trunk.weight.abs_().add_(0.5)
        strategy = make(name, model, make_tasks(3, scale=1.5), at, lr=1e-3, seed=seed)
        for _ in range(3):
            targets = {f"t{i}": torch.randn(1, 2).double() for i in range(3)}
            strategy.step(torch.ones(1, 1).double(), targets)
        results.append(weights(model))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("at", ["trunk", "representation"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=4)
@given(seed=seeds, leak=floats(0, 1))
def test_one_task_is_sus(name, at, seed, leak):
    results = []
    for strategy in (
        make(
            name, make_model(1, seed=seed), make_tasks(1), at, **({"jd_graddrop_leak": leak} if "drop" in name else {})
        ),
        make_strategy("sus", make_model(1, seed=seed), make_tasks(1), lr=LR, optimizer="sgd"),
    ):
        for step in range(3):
            strategy.step(*make_batch(1, seed=seed + step))
        results.append(weights(strategy.model))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


class Parts(nn.Module):
    """A trunk that returns its output in parts, one of them twice."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, inputs):
        z = self.whole(inputs)
        first = z[:, :3]
        return {"first": first, "others": (z[:, 3:], first)}


class OfParts(nn.Module):
    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, parts):
        return self.head(torch.cat([(parts["first"] + parts["others"][1]) / 2, parts["others"][0]], dim=1))


@pytest.mark.parametrize("name", ["jd_imtlg", "mgda_ub"])
def test_outputs_in_parts_are_one_representation(name):
    whole = make_model(3)
    parts = copy.deepcopy(whole)
    parts = MultiTaskModel(Parts(parts.trunk), {task: OfParts(head) for task, head in parts.heads.items()})
    results = []
    for model in (whole, parts):
        strategy = make(name, model, make_tasks(3, scale=1.5))
        for step in range(4):
            strategy.step(*make_batch(3, seed=step))
        results.append(weights(model))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_graddrop_takes_outputs_in_parts_and_outputs_of_any_shape():
    whole = make_model(3)
    model = MultiTaskModel(Parts(whole.trunk), {task: OfParts(head) for task, head in whole.heads.items()})
    before = weights(model.trunk)
    make("jd_graddrop", model, make_tasks(3)).step(*make_batch(3, seed=0))
    assert not equal(before, weights(model.trunk))
    trunk = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))
    model = MultiTaskModel(trunk, {"t0": nn.Identity(), "t1": nn.Identity()}).double()
    nn.init.constant_(trunk[0].bias, 10.0)  # all outputs are of one sign, and so are all gradients
    tasks = [Task(name, lambda z, y, way=way: way * (z - y[:, 0]).mean()) for name, way in (("t0", 1.0), ("t1", 3.0))]
    strategy = make("jd_graddrop", model, tasks)
    strategy.step(*make_batch(2, seed=0))
    torch.testing.assert_close(model.trunk[0].bias.grad, torch.tensor([4.0]).double())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at", ["trunk", "representation"])
def test_passes_back_through_the_trunk_are_as_many_as_the_record_says(name, at):
    model = make_model(4)
    strategy, passes = make(name, model, make_tasks(4), at), []
    model.trunk[2].weight.register_hook(passes.append)
    strategy.step(*make_batch(4, seed=0))
    record = registry[name].under(strategy.options)
    assert len(passes) == count(record.backwards, 4, 1)
    assert ("trunk's output" in record.memory) == (at == "representation")


def test_a_weight_of_the_trunk_that_a_head_uses_takes_all_its_gradients():
    class Again(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, z):
            return F.linear(z, self.linear.weight.T)

    trunk = nn.Linear(5, 2, bias=False).double()
    model = MultiTaskModel(trunk, {"t0": Again(trunk), "t1": nn.Linear(2, 5).double()})
    tasks = [Task(name, lambda p, y: (p * y.repeat(1, 3)[:, :5]).mean()) for name in ("t0", "t1")]
    batch, start = make_batch(2, seed=0), trunk.weight.detach().clone()
    z = trunk(batch.inputs)
    losses = [task.loss(model.heads[task.name](z), batch.targets[task.name]) for task in tasks]
    with_w = [torch.autograd.grad(loss, trunk.weight, retain_graph=True)[0] for loss in losses]
    at_z = [torch.autograd.grad(loss, z, retain_graph=True)[0] for loss in losses]
    own = with_w[0] - at_z[0].T @ batch.inputs  # t0's own use of the matrix: its gradient less what went through z
    a = impartial(torch.stack([torch.cat([at_z[0].flatten(), own.flatten()]), F.pad(at_z[1].flatten(), (0, 10))]))
    make("jd_imtlg", model, tasks).step(*batch)
    torch.testing.assert_close(trunk.weight.detach(), start - LR * (a[0] * with_w[0] + a[1] * with_w[1]))


@pytest.mark.parametrize("name", ["jd_graddrop", "jd_imtlg"])
def test_saved_and_loaded_goes_on_exactly(name):
    strategy, results = make(name, make_model(3), make_tasks(3), optimizer="adam"), []
    for step in range(2):
        strategy.step(*make_batch(3, seed=step, missing=0.7))
    model, state = copy.deepcopy(strategy.model.state_dict()), copy.deepcopy(strategy.state_dict())
    for other in (strategy, make(name, make_model(3), make_tasks(3), optimizer="adam")):
        other.model.load_state_dict(model)
        other.load_state_dict(copy.deepcopy(state))
        for step in range(2, 5):
            other.step(*make_batch(3, seed=step, missing=0.7))
        results.append(weights(other.model))
    assert equal(*results)
