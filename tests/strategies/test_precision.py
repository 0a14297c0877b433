"""Lower precision: what autocast changes and what it leaves, and factors of losses that nothing but steps see."""

import warnings

import pytest
import torch
from torch import nn

from tests.toys import equal, make_batch, make_conv_model, make_model, make_tasks, run_options, toy_problem, weights
from tests.training.trainers import Stop, make_trainer, timeless
from tune_mtl import PathLength, UserError, make_strategy
from tune_mtl.strategies.base import weights_of
from tune_mtl.strategies.registry import registry
from tune_mtl.testing.device import waits as host_waits
from tune_mtl.training import checkpoint

TASKS = 3
HALF = [name for name, info in registry.items() if info.fp16]
BF16, FP16 = torch.bfloat16, torch.float16


@pytest.fixture(autouse=True)
def _solvers_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def batch(seed=0):
    return make_batch(TASKS, seed=seed, rows=8, dtype=torch.float32)


def made(name, autocast, *, scale=1.0, optimizer="sgd", lr=0.05, conv=True):
    model = (make_conv_model if conv else make_model)(TASKS, dtype=torch.float32).train()
    tasks = make_tasks(TASKS)
    for index, task in enumerate(tasks):
        object.__setattr__(task, "loss", _scaled(task.loss, scale * 2.0**index))
    options = run_options(name, 4)
    strategy = make_strategy(name, model, tasks, lr=lr, optimizer=optimizer, autocast=autocast, **options)
    for factor in strategy._loss_scales:
        factor.factor = 2.0**8 / min(1.0, scale)  # where it would arrive after some steps that are not taken
    return strategy


def _scaled(loss, factor):
    return lambda prediction, target: factor * loss(prediction, target)


def way(name, autocast, **settings):
    """Return where one step leads, from where it starts."""
    strategy = made(name, autocast, **settings)
    before = torch.cat([weight.detach().flatten().clone() for weight in strategy.model.parameters()])
    losses = strategy.step(*batch())
    after = torch.cat([weight.detach().flatten() for weight in strategy.model.parameters()])
    return after - before, losses


def apart(one, other):
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("name", ["sus", "io", "pcgrad", "jd_uw"])
@pytest.mark.parametrize("precision", [BF16, FP16], ids=str)
def test_passes_are_in_lower_precision_and_all_that_is_kept_is_not(name, precision):
    if precision is FP16 and name not in HALF:
        return
    strategy = made(name, precision, optimizer="adam")
    seen = {}
    for path, module in strategy.model.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.register_forward_hook(lambda _m, _i, output, path=path: seen.update({path: output.dtype}))
    losses = strategy.step(*batch())
    assert set(seen.values()) == {precision}
    assert {loss.dtype for loss in losses.values()} == {torch.float32}
    assert all(bool(loss.isfinite()) for loss in losses.values())
    assert {weight.dtype for weight in strategy.model.parameters()} == {torch.float32}
    assert {weight.grad.dtype for weight in strategy.model.parameters() if weight.grad is not None} == {torch.float32}
    moments = [t for o in strategy.optimizers for state in o.state.values() for k, t in state.items() if "exp" in k]
    assert moments
    assert {moment.dtype for moment in moments} == {torch.float32}
    assert {output.dtype for output in strategy.predict(batch().inputs).values()} == {torch.float32}


@pytest.mark.parametrize("name", registry)
def test_losses_in_bfloat16_are_those_of_float32_up_to_its_precision(name):
    (_, lower), (_, full) = way(name, BF16), way(name, None)
    for task in full:
        torch.testing.assert_close(lower[task], full[task], rtol=0.05, atol=0.01)


@pytest.mark.parametrize("name", ["sus", "ius", "io", "scalar", "stl", "adatask", "jd_sum", "jd_dwa", "rlw"])
def test_a_step_in_bfloat16_is_that_of_float32_up_to_its_precision(name):
    distance = apart(way(name, BF16)[0], way(name, None)[0])
    assert 1e-4 < distance < 0.05


@pytest.mark.parametrize("name", HALF)
def test_a_step_in_float16_is_that_of_float32_up_to_its_precision(name):
    distance = apart(way(name, FP16)[0], way(name, None)[0])
    assert 1e-6 < distance < 0.02


def test_small_gradients_are_not_lost():
    """Of losses of 1e-6, gradients within the network are below what float16 can hold."""
    for name in ("sus", "io", "adatask", "mr"):
        settings = {"scale": 1e-6, "lr": 5e4}
        scaled = apart(way(name, FP16, **settings)[0], way(name, None, **settings)[0])
        assert scaled < 0.02
    strategy = made("sus", FP16, scale=1e-6, lr=5e4)
    strategy._loss_scales[0].factor = 1.0
    before = [weight.clone() for weight in strategy.model.parameters()]
    strategy.step(*batch())
    moved = [(after - b).flatten() for after, b in zip(strategy.model.parameters(), before, strict=True)]
    assert apart(torch.cat(moved).detach(), way("sus", None, scale=1e-6, lr=5e4)[0]) > 0.1


def test_a_step_that_is_not_finite_is_not_taken_and_counts_nowhere():
    strategy = made("io", FP16, optimizer="adam")
    path = PathLength(strategy.model, strategy.optimizers)
    strategy.step(*batch(0))
    total, updates = path.total, strategy.updates
    kept = [weights(strategy.model.trunk), weights(strategy.model.heads["t1"])]
    others = weights(strategy.model.heads["t0"])
    lost = strategy.model.heads["t1"].weight.register_hook(lambda gradient: gradient * torch.inf)
    factors = [scale.factor for scale in strategy._loss_scales]
    strategy._loss_scales[0].factor = strategy._loss_scales[2].factor = 2.0**10
    losses = strategy.step(*batch(1))
    lost.remove()
    assert strategy.updates == updates + 2
    assert path.updates == updates + 2
    assert path.total > total
    assert all(bool(loss.isfinite()) for loss in losses.values())
    assert equal(weights(strategy.model.heads["t1"]), kept[1])
    assert not equal(weights(strategy.model.heads["t0"]), others)
    assert [scale.factor for scale in strategy._loss_scales] == [2.0**10, factors[1] / 2, 2.0**10]
    assert all(weight.isfinite().all() for weight in strategy.model.parameters())


def test_the_factor_grows_after_many_good_steps(monkeypatch):
    monkeypatch.setattr("tune_mtl.strategies.loss_scale._PATIENCE", 3)
    strategy = made("sus", FP16)
    found = []
    for step in range(7):
        strategy.step(*batch(step))
        found.append(strategy._loss_scales[0].factor / 2.0**8)
    assert found == [1, 1, 2, 2, 2, 4, 4]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("strategy", ["io", "adatask"])
def test_a_trial_is_resumed_exactly(precision, strategy, tmp_path):
    settings = {"strategy": strategy, "epochs": 2, "precision": precision, "accumulate": 2, "clip_norm": 1.0}
    whole = make_trainer(toy_problem(conv=True), **settings)
    while not whole.finished:
        whole.run_period()
    first = make_trainer(toy_problem(conv=True), **settings)

    def leave():
        if first.epoch == 1:
            checkpoint.save(tmp_path / "checkpoint.pt", first.state_dict())
            raise Stop

    first.run_period(leave)
    for scale in first.strategy._loss_scales[1:]:
        scale.factor = 2.0**14
        scale._finite = 5
    with pytest.raises(Stop):
        first.run_period(leave)
    second = make_trainer(toy_problem(conv=True), **settings)
    second.load_state_dict(checkpoint.load(tmp_path / "checkpoint.pt"))
    states = [[scale.state_dict() for scale in one.strategy._loss_scales] for one in (first, second)]
    assert states[0] == states[1]
    assert len(states[0]) == (3 if precision == "fp16" else 0)
    while not second.finished:
        second.run_period()
    if precision == "bf16":
        assert timeless(second.history) == timeless(whole.history)
        assert equal(weights(second.strategy.model), weights(whole.strategy.model))
    else:
        while not first.finished:
            first.run_period()


def test_skipped_steps_are_no_divergence(monkeypatch):
    trained = make_trainer(toy_problem(conv=True), strategy="io", precision="fp16", epochs=1)
    for scale in trained.strategy._loss_scales:
        scale.factor = 2.0**100  # every gradient overflows at first
    record = trained.run_period()
    assert trained.diverged is None
    assert 0 < trained.updates < 3 * 7 or trained.updates == 0
    assert record["updates"] == trained.updates


@pytest.mark.parametrize("name", sorted(registry.keys() - set(HALF)))
def test_others_refuse_half_precision_in_a_line(name):
    with pytest.raises(UserError, match=f"precision=fp16 cannot be used with strategy '{name}'.*Use precision=bf16"):
        made(name, FP16)


def test_a_config_that_cannot_be_is_refused_before_anything_starts():
    with pytest.raises(UserError, match="precision=fp16 cannot be used with strategy 'pcgrad'"):
        make_trainer(strategy="pcgrad", precision="fp16")


@pytest.mark.parametrize(("name", "waits"), [("sus", 1), ("io", 3), ("adatask", 3)])
def test_half_precision_waits_once_per_update_and_bfloat16_never(name, waits):
    for precision, expected in ((FP16, waits), (BF16, 0)):
        strategy = made(name, precision, conv=False)
        placed = batch()
        with host_waits([*weights_of(strategy.model), placed.inputs, *placed.targets.values()]) as found:
            strategy.step(*placed)
        assert len(found) == expected, found
