"""TorchJD's aggregators, part by part: the same step as on the whole Jacobian, with one look at the device at most."""

import copy
import warnings
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers

from tests.toys import make_batch, make_conv_model, make_model, make_tasks, run_options, task_names
from tune_mtl import make_strategy
from tune_mtl.strategies.info import count
from tune_mtl.strategies.jacobian import passes
from tune_mtl.strategies.jacobian.descent import JacobianDescent
from tune_mtl.strategies.jacobian.matrix import HeldJacobian
from tune_mtl.strategies.jacobian.rules import equal_cosine_weights, exchanges
from tune_mtl.strategies.registry import registry, strategy_class
from tune_mtl.testing.device import waits

LR = 0.05
ON_GRAMIAN = (
    "AlignedMTL", "CAGrad", "DualProj", "FairGrad", "GradVac", "IMTLG", "Krum", "MGDA", "NashMTL", "PCD", "PCGrad",
    "UPGrad",
)  # fmt: skip
KINDS = (*ON_GRAMIAN, "ConFIG", "Constant", "ExcessMTL", "GradDrop", "Mean", "Random", "Sum", "TrimmedMean")
OPTIONS = {
    "jd_constant": {"jd_constant_weights": {"t0": 3.0, "t2": 0.2}},
    "jd_excessmtl": {"jd_excessmtl_n_warmup_steps": 1},
    "jd_graddrop": {"jd_graddrop_leak": 0.3},
    "jd_trimmedmean": {"jd_trimmedmean_trim_number": 1},
}
DRAWING = ("GradDrop", "GradVac", "PCGrad", "Random")
FROM_ROWS = [name for name in registry if issubclass(strategy_class(name), JacobianDescent)]
WAITING = [(name, {}) for name in FROM_ROWS]
WAITING += [("crmogm", {"crmogm_of": kind}) for kind in ("cagrad", "pcgrad", "alignedmtl")]
WAITING += [("mgda_ub", {"mgda_ub_normalize": how}) for how in ("none", "loss+")]
WAITING += [(name, {f"{name}_at": "representation"}) for name in ("jd_graddrop", "jd_imtlg")]
WAITING += [("mgda_ub", {"mgda_ub_at": "trunk"})]


@pytest.fixture(autouse=True)
def _solvers_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("name", "options"), WAITING, ids=str)
def test_no_step_waits_more_often_than_its_record_says(name, options):
    strategy = make_strategy(name, make_conv_model(5), make_tasks(5), lr=LR, optimizer="sgd", **options)
    first, *batches = [make_batch(5, seed=step, missing=missing) for step, missing in enumerate((None, 0.7, None))]
    strategy.step(*first)
    allowed = count(registry[name].waits, 5, 1)
    for batch in batches:
        held = [*strategy.model.parameters(), *strategy.model.buffers(), batch.inputs, *batch.targets.values()]
        with waits(held) as found:
            strategy.step(*batch)
        assert len(found) == allowed, found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_parts", [False, True])
@settings(max_examples=3)
@given(seed=integers(0, 10_000), tasks=integers(3, 5))
def test_the_step_is_that_of_the_plain_aggregator_on_the_whole_jacobian(kind, in_parts, seed, tasks):
    from torchjd import aggregation

    model, name = make_model(tasks, seed=seed % 50), f"jd_{kind.lower()}"
    strategy = make_strategy(name, model, make_tasks(tasks), lr=LR, optimizer="sgd", seed=seed, **OPTIONS.get(name, {}))
    arguments = strategy.options.arguments(task_names(tasks), torch.zeros(1, dtype=torch.float64))
    plain, draws = getattr(aggregation, kind)(**arguments), torch.Generator()
    draws.set_state(strategy.recipe.generator.get_state())
    for step in range(3):
        batch, reference = make_batch(tasks, seed=seed + step), copy.deepcopy(model)
        trunk, predictions = list(reference.trunk.parameters()), reference(batch.inputs)
        losses = [task.loss(predictions[task.name], batch.targets[task.name]) for task in make_tasks(tasks)]
        rows = [torch.autograd.grad(loss, trunk, retain_graph=True) for loss in losses]
        jacobian = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        with torch.random.fork_rng():
            torch.manual_seed(int(torch.randint(2**62, (), generator=draws)) if kind in DRAWING else 0)
            expected = plain(jacobian)
        before = torch.nn.utils.parameters_to_vector(model.trunk.parameters()).detach().clone()
        with held(nothing=in_parts):
            strategy.step(*batch)
        moved = before - torch.nn.utils.parameters_to_vector(model.trunk.parameters()).detach()
        close = 1e-6 if kind == "NashMTL" else 1e-9  # as far as its solver goes
        torch.testing.assert_close(moved / LR, expected, rtol=close, atol=close)


@contextmanager
def held(*, nothing: bool):
    """Hold no Jacobian as a whole, however small: it is made in parts."""
    with pytest.MonkeyPatch.context() as patch:
        if nothing:
            patch.setattr(passes, "_FEW", 0)
            patch.setattr(passes, "_SMALL", 0)
        yield


@settings(deadline=None)
@given(tasks=integers(2, 6), numbers=integers(2, 40), seed=integers(0, 10_000))
def test_weights_of_equal_cosines_are_those_of_config_also_where_rows_depend_on_each_other(tasks, numbers, seed):
    from torchjd.aggregation import ConFIG

    rows = torch.randn(tasks, numbers, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows *= torch.logspace(-2, 2, tasks, dtype=torch.float64)[:, None]
    if seed % 3 == 0:
        rows[-1] = 2.0 * rows[0]
    if seed % 3 == 1:
        rows[0] = 0.0
    weights = equal_cosine_weights(rows @ rows.T, numbers * torch.finfo(torch.float64).eps)
    torch.testing.assert_close(weights @ rows, ConFIG()(rows), rtol=1e-6, atol=1e-6)


@given(count=integers(1, 42), seed=integers(0, 10_000))
def test_exchanges_put_any_number_of_values_in_order(count, seed):
    values = torch.randint(10, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    ordered = list(values)
    for low, high in exchanges(count):
        ordered[low], ordered[high] = min(ordered[low], ordered[high]), max(ordered[low], ordered[high])
    assert ordered == sorted(values)


def test_a_trimmed_mean_leaves_out_what_is_no_number():
    strategy = make_strategy("jd_trimmedmean", make_model(4), make_tasks(4), lr=LR, jd_trimmedmean_trim_number=1)
    trunk = strategy.trainable(())
    rows = [torch.randn(4, *weight.shape, dtype=weight.dtype) for weight in trunk]
    rows[0][2] = torch.nan
    rows[1][0] = -torch.inf
    rows[2][1:3] = torch.nan
    found = strategy._aggregated(tuple(strategy.tasks), HeldJacobian(trunk, [part.clone() for part in rows]))
    for part, mean in list(zip(rows, found, strict=True))[:2]:
        torch.testing.assert_close(mean, part.sort(dim=0).values[1:3].mean(dim=0))
    assert not found[2].isfinite().any()


@pytest.mark.parametrize("value", [0.0, torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["jd_cagrad", "jd_upgrad", "jd_imtlg", "jd_config"])
def test_a_hopeless_jacobian_leaves_the_trunk_or_makes_it_not_finite(name, value):
    model = make_model(3)
    strategy = make_strategy(name, model, make_tasks(3), lr=LR, optimizer="sgd", **run_options(name, 5))
    trunk = strategy.trainable(())
    rows = [torch.full((3, *weight.shape), value, dtype=weight.dtype) for weight in trunk]
    found = strategy._aggregated(tuple(strategy.tasks), HeldJacobian(trunk, rows))
    assert all(bool((part == 0).all()) if value == 0.0 else not part.isfinite().any() for part in found)
