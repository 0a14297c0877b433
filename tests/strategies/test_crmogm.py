"""CR-MOGM: the moving average of another method's weights, task by task."""

import copy
import warnings
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, sampled_from

from tests.strategies.oracles import labelled_losses
from tests.toys import equal, make_batch, make_model, make_tasks, weights
from tune_mtl import UserError, make_strategy
from tune_mtl.strategies.methods.crmogm import _WRAPPED, MovingWeightsOptions

LR = 0.05
KINDS = get_args(MovingWeightsOptions.model_fields["of"].annotation)
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(model, count=4, **keywords):
    return make_strategy("crmogm", model, make_tasks(count, scale=1.5), **{"lr": LR, "optimizer": "sgd", **keywords})


@pytest.fixture(autouse=True)
def _solvers_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_it_wraps_what_its_option_names():
    assert set(KINDS) == set(_WRAPPED)


@every_kind
@settings(max_examples=3)
@given(seed=integers(0, 10_000), optimizer=sampled_from(["sgd", "adam"]))
def test_without_an_average_it_is_the_wrapped_method(kind, seed, optimizer):
    results = []
    for name, options in (("crmogm", {"crmogm_of": kind, "crmogm_alpha": 0.0}), (f"jd_{kind}", {})):
        tasks = make_tasks(4, scale=1.5)
        strategy = make_strategy(name, make_model(4), tasks, lr=LR, optimizer=optimizer, seed=seed, **options)
        for step in range(3):
            strategy.step(*make_batch(4, seed=seed + step, missing=0.7))
        results.append(weights(strategy.model))
    assert equal(*results)


@pytest.mark.parametrize("missing", [None, 0.8])
@pytest.mark.parametrize("kind", ["mgda", "upgrad", "imtlg"])
@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0])
def test_a_step_equals_a_loop_by_hand(kind, alpha, missing):
    from torchjd import aggregation

    mgda = aggregation.MGDAWeighting(epsilon=1e-5, max_iters=250)
    weigh = {"mgda": mgda, "upgrad": aggregation.UPGradWeighting(), "imtlg": aggregation.IMTLGWeighting()}[kind]
    model, tasks, moving = make_model(4), make_tasks(4, scale=1.5), {}
    strategy, reference = make(model, crmogm_of=kind, crmogm_alpha=alpha), copy.deepcopy(model)
    for step in range(8):
        batch = make_batch(4, seed=step, missing=missing)
        strategy.step(*batch)
        trunk = list(reference.trunk.parameters())
        losses = labelled_losses(reference, tasks, batch, reference.trunk(batch.inputs))
        rows = [torch.autograd.grad(loss, trunk, retain_graph=True) for loss in losses.values()]
        jacobian = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        for task, found in zip(losses, weigh(jacobian @ jacobian.T), strict=True):
            moving[task] = alpha * moving[task] + (1 - alpha) * found if task in moving else found
        reference.zero_grad()
        sum(losses.values()).backward()
        step_on_trunk = torch.stack([moving[task] for task in losses]) @ jacobian
        with torch.no_grad():
            for weight in reference.heads.parameters():
                if weight.grad is not None:
                    weight -= LR * weight.grad
            flat = torch.nn.utils.parameters_to_vector(trunk) - LR * step_on_trunk
            torch.nn.utils.vector_to_parameters(flat, trunk)
        assert {task: float(a) for task, a in strategy._moving.items()} == pytest.approx(
            {task: float(a) for task, a in moving.items()}, rel=1e-5, abs=1e-8
        )
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-8)


@settings(max_examples=20)
@given(alpha=floats(0, 1), count=integers(1, 7), dtype=sampled_from([torch.float32, torch.float64]))
def test_weights_that_stay_the_same_are_left_alone(alpha, count, dtype):
    strategy = make(make_model(count), count, crmogm_alpha=alpha)
    equal_weights = torch.full((count,), 1 / count, dtype=dtype)
    for _ in range(3):
        found = strategy._weights(tuple(strategy.tasks), lambda _: equal_weights, torch.eye(count, dtype=dtype))
        assert torch.equal(found, equal_weights)


def test_with_the_whole_share_kept_the_first_weights_stay():
    strategy, seen = make(make_model(4), crmogm_alpha=1.0), []
    for step in range(4):
        strategy.step(*make_batch(4, seed=step))
        seen.append(torch.stack(list(strategy._moving.values())))
    assert all(torch.equal(weights, seen[0]) for weights in seen)
    assert len(set(seen[0].tolist())) > 1


def test_an_absent_task_keeps_its_weight_and_all_come_back_with_the_state():
    strategy = make(make_model(4))
    strategy.step(*make_batch(4, seed=0))
    before, batch = dict(strategy._moving), make_batch(4, seed=1)
    strategy.step(batch.inputs, batch.targets, {"t2": torch.zeros(6, dtype=torch.bool)})
    same = {task for task in before if torch.equal(before[task], strategy._moving[task])}
    assert same == {"t2"}
    other = make(make_model(4))
    other.load_state_dict(copy.deepcopy(strategy.state_dict()))
    assert other._moving == strategy._moving


def test_options_of_the_wrapped_method_reach_it_and_no_other():
    results = []
    for scale in ("min", "rmse", None):
        given = {} if scale is None else {"crmogm_alignedmtl_scale_mode": scale}
        strategy = make(make_model(4), crmogm_of="alignedmtl", **given)
        strategy.step(*make_batch(4, seed=0))
        results.append(weights(strategy.model))
    assert equal(results[0], results[2])
    assert not equal(results[0], results[1])
    with pytest.raises(UserError, match=r"crmogm_cagrad_c=0\.2 is an option of cagrad, but crmogm_of=mgda"):
        make(make_model(4), crmogm_cagrad_c=0.2)
