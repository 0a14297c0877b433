"""A batch in parts is the whole batch, and a trunk that is computed again is the same trunk: for every strategy."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from tests.toys import equal, make_batch, make_conv_model, make_model, make_tasks, run_options, task_names, weights
from tune_mtl import MultiTaskModel, StrategyInfo, Task, UserError, make_strategy
from tune_mtl.strategies.base import Labelled, Losses
from tune_mtl.strategies.methods.sus import SharedUpdateSteps
from tune_mtl.strategies.passes import blocks_again
from tune_mtl.strategies.registry import registry

TASKS, ROWS, STEPS = 3, 7, 4
WITHOUT_A_TIE = {"jd_krum": {"jd_krum_n_selected": 2}}  # of three, the nearest two are equally near


@pytest.fixture(autouse=True)
def _solvers_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def adam(parameters):
    return torch.optim.Adam(parameters, foreach=False, fused=False)


def trained(name, model, *, parts=1, missing=None, steps=STEPS, tasks=None, **settings):
    """Return the strategy and what its steps said; the last two mini-batches have all labels."""
    options = run_options(name, steps) if name in registry else {}
    strategy = make_strategy(
        name, model.train(), tasks or make_tasks(TASKS, scale=2.0), lr=0.01, optimizer=adam, **options, **settings
    )
    torch.manual_seed(3)
    batches = [make_batch(TASKS, seed=step, rows=ROWS, missing=missing if step < 2 else None) for step in range(steps)]
    return strategy, [strategy.step(*batch, parts=parts) for batch in batches]


def without_batch_norm(seed: int = 0) -> MultiTaskModel:
    model = make_conv_model(TASKS, seed=seed)
    model.trunk[3] = nn.GroupNorm(2, 6).double()
    return model


def with_all_that_is_random(seed: int = 0) -> MultiTaskModel:
    model = make_conv_model(TASKS, seed=seed)
    model.trunk.append(nn.Dropout(0.3))
    return model


@pytest.mark.parametrize("missing", [None, 0.6])
@pytest.mark.parametrize("name", registry)
def test_parts_are_one_large_batch(name, missing):
    options = WITHOUT_A_TIE.get(name, {})
    (whole, said), (parts, said_in_parts) = (
        trained(name, without_batch_norm(), parts=count, missing=missing, **options) for count in (1, 3)
    )
    assert parts.updates == whole.updates
    assert parts.mini_batches == whole.mini_batches
    assert [(list(step), step.counts) for step in said_in_parts] == [(list(step), step.counts) for step in said]
    for step, in_parts in zip(said, said_in_parts, strict=True):
        for task in step:
            torch.testing.assert_close(in_parts[task], step[task], rtol=1e-6, atol=1e-8)
    for one, other in zip(weights(parts.model), weights(whole.model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", registry)
def test_a_trunk_that_is_computed_again_gives_the_same_numbers(name):
    (kept, said), (again, said_again) = (
        trained(name, with_all_that_is_random(), missing=0.5, checkpoint_trunk=recompute) for recompute in (False, True)
    )
    assert equal(weights(kept.model), weights(again.model))  # the running averages of BatchNorm are among them
    assert said == said_again
    assert kept.updates == again.updates


@pytest.mark.parametrize("name", ["sus", "io", "stl", "mr", "adatask", "pcgrad", "jd_famo"])
def test_parts_can_be_computed_again_too(name):
    kept, again = (
        trained(name, with_all_that_is_random(), parts=2, missing=0.5, checkpoint_trunk=recompute)[0]
        for recompute in (False, True)
    )
    assert equal(weights(kept.model), weights(again.model))


def test_each_part_is_a_mini_batch_to_batch_norm():
    model = make_conv_model(TASKS)
    before = model.trunk[3].num_batches_tracked.item()
    for name, passes in (("sus", 1), ("io", 3), ("jd_sum", 1)):
        strategy, _ = trained(name, make_conv_model(TASKS), parts=3, steps=1)
        assert strategy.model.trunk[3].num_batches_tracked.item() - before == 3 * passes


class Held(nn.Module):
    """Notes how many values the passes through it hold for a pass back."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    def forward(self, features):
        return _Noted.apply(features, self)


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, held):
        ctx.held, ctx.count = held, features.numel() if ctx.needs_input_grad[0] else 0
        held.now += ctx.count
        held.most = max(held.most, held.now)
        ctx.save_for_backward(features)
        return features.clone()

    @staticmethod
    def backward(ctx, gradient):
        (_,) = ctx.saved_tensors
        ctx.held.now -= ctx.count
        return gradient, None


@pytest.mark.parametrize(("name", "share"), [("sus", 1 / 4), ("io", 1 / 4), ("stl", 1 / 4)])
def test_one_part_is_held_at_a_time(name, share):
    most = []
    for parts in (1, 4):
        model, held = make_model(TASKS), Held()
        model.trunk.insert(2, held)
        strategy = make_strategy(name, model, make_tasks(TASKS), lr=0.01)
        inner = [module for module in strategy.model.modules() if isinstance(module, Held)]
        strategy.step(*make_batch(TASKS, seed=0, rows=8), parts=parts)
        most.append(max(module.most for module in inner))
    assert most[1] == share * most[0]


def bytes_kept(parts, checkpoint_trunk, name="jd_upgrad"):
    """Return the bytes of the tensors that passes through the layers of the trunk have saved before any pass back."""
    model = make_model(TASKS, dtype=torch.float32)
    strategy = make_strategy(name, model, make_tasks(TASKS), lr=0.01, checkpoint_trunk=checkpoint_trunk)
    kept, counting = [], True

    def pack(tensor):
        if counting:
            kept.append(tensor.numel())
        return tensor

    def stop(*_):
        nonlocal counting
        counting = False

    seen = {}
    for task in task_names(TASKS):
        model.heads[task].register_full_backward_pre_hook(stop)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        seen["losses"] = strategy.step(*make_batch(TASKS, seed=0, rows=60, dtype=torch.float32), parts=parts)
    return sum(kept)


def test_what_is_computed_again_is_not_kept():
    assert bytes_kept(1, True) < bytes_kept(1, False)
    assert bytes_kept(4, False) < bytes_kept(1, False)


class Counts(nn.Module):
    """A layer whose buffer learns in every pass forward, and whose output depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros((), dtype=torch.float64))

    def forward(self, features):
        self.passes = self.passes + 1
        return features * (1 + 0.1 * self.passes)


@pytest.mark.parametrize("name", ["io", "pcgrad"])
@pytest.mark.parametrize("kind", ["counts", "spectral"])
def test_buffers_learn_once(name, kind):
    found = []
    for recompute in (False, True):
        model = make_model(TASKS)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model.trunk.append(Counts() if kind == "counts" else spectral_norm(nn.Linear(7, 7).double()))
        found.append(weights(trained(name, model, checkpoint_trunk=recompute)[0].model))
    assert equal(*found)


def test_a_trunk_that_changes_its_inputs_is_refused():
    model = make_model(TASKS)
    model.trunk.insert(0, nn.ReLU(inplace=True))
    with pytest.raises(UserError, match=r"a Sequential of the trunk changes its inputs in place.*inplace=False"):
        trained("sus", model, checkpoint_trunk=True)


def test_modules_are_as_they_were_after_a_step():
    model = make_model(TASKS)
    trained("pcgrad", model, parts=2, checkpoint_trunk=True)
    assert not any("forward" in vars(module) for module in model.modules())
    with pytest.raises(UserError, match="must be"):
        trained("sus", model, parts=ROWS + 1)
    assert not any("forward" in vars(module) for module in model.modules())


class OfRows(SharedUpdateSteps):
    """A rule that runs the network on rows of its own choice, beside the whole."""

    info = StrategyInfo(name="of_rows", title="of rows", rule="a step on all rows and on the first two once more")

    def learn(self, batch: Labelled) -> Losses:
        predictions = self.model(batch.inputs)
        few = self.model(batch.inputs[:2])
        losses = self._losses_of(predictions, batch)
        more = sum(few[task].square().mean() for task in few)
        self.descend(self.optimizers[0], self.total(losses) + more)
        return self.detached(losses)


def test_a_rule_of_ones_own_is_the_same_in_parts():
    whole, parts = (trained(OfRows, without_batch_norm(), parts=count)[0] for count in (1, 3))
    for one, other in zip(weights(parts.model), weights(whole.model), strict=True):
        torch.testing.assert_close(one, other)


class NoRows(nn.Module):
    """Its output has no rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, _):
        return self.weight


@pytest.mark.parametrize(("name", "runs"), [("sus", True), ("io", True), ("pcgrad", False), ("jd_uw", False)])
def test_outputs_without_rows_are_refused_where_they_must_be_put_together(name, runs):
    def make():
        return MultiTaskModel(NoRows(), {"t0": nn.Identity(), "t1": nn.Identity()})

    tasks = [
        Task(task, lambda w, t, f=factor: ((w - t).square().sum(dim=1) * f).mean())
        for task, factor in (("t0", 1), ("t1", 2))
    ]

    targets = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def run(parts):
        strategy = make_strategy(name, make(), tasks, lr=0.1)
        strategy.step(torch.zeros(6, 1), {"t0": targets, "t1": 2 * targets}, parts=parts)
        return weights(strategy.model)

    if runs:
        for one, other in zip(run(3), run(1), strict=True):
            torch.testing.assert_close(one, other)
    else:
        with pytest.raises(UserError, match=r"for 2 samples .* shape \(4,\).* Drop accumulate"):
            run(3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["io", "pcgrad"])
def test_a_compiled_trunk_passes_in_parts(name):
    found = []
    for compiled in (False, True):
        strategy = make_strategy(name, without_batch_norm(), make_tasks(TASKS), lr=0.01)
        if compiled:
            strategy.compile()
        for step in range(2):
            strategy.step(*make_batch(TASKS, seed=step, rows=6), parts=2)
        found.append(weights(strategy.model))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_compiled_trunks_are_not_computed_again():
    strategy = make_strategy("sus", make_model(TASKS), make_tasks(TASKS), lr=0.01, checkpoint_trunk=True)
    with pytest.raises(UserError, match="cannot be used with compile"):
        strategy.compile()


class Wrapped(nn.Module):
    """A trunk of one part, which is a network of several."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.inner = nn.Module()
        self.inner.blocks = nn.ModuleList(blocks)
        self.inner.forward = self.all_blocks

    def all_blocks(self, features):
        for block in self.inner.blocks:
            features = block(features, more=features.detach())
        return features

    def forward(self, features):
        return self.inner(self.first(features))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(7, 7), nn.Dropout(0.2)

    def forward(self, features, more):
        return features + self.dropout(torch.tanh(self.layer(features + more)))


def conv_bn_relu(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(inputs, 2, 3), nn.BatchNorm1d(2), nn.ReLU(inplace=True))


def test_blocks_are_found():
    flat = nn.Sequential(*(layer for _ in range(3) for layer in conv_bn_relu(2)))
    ((trunk, change),) = blocks_again(flat)
    assert trunk is flat
    assert [len(run) for run in change(None).args[0]] == [3, 3, 3]
    nested = nn.Sequential(conv_bn_relu(2), nn.MaxPool1d(2), nn.Sequential(conv_bn_relu(2), conv_bn_relu(2)))
    assert [block for block, _ in blocks_again(nested)] == [nested[0], *nested[2]]
    wrapped = Wrapped(Block(), Block())
    assert [block for block, _ in blocks_again(wrapped)] == list(wrapped.inner.blocks)
    alone = NoRows()
    assert [block for block, _ in blocks_again(alone)] == [alone]
    uneven = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 2))
    assert [len(run) for run in blocks_again(uneven)[0][1](None).args[0]] == [3, 1]


@pytest.mark.parametrize("name", ["io", "pcgrad", "mgda_ub"])
def test_blocks_of_any_kind_are_computed_again_with_the_same_numbers(name):
    found = []
    for recompute in (False, True):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            trunk = Wrapped(Block(), Block())
            model = MultiTaskModel(trunk, {task: nn.Linear(7, 2) for task in task_names(TASKS)}).double()
        found.append(weights(trained(name, model, checkpoint_trunk=recompute)[0].model))
    assert equal(*found)
