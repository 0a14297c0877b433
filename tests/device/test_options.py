"""Options that make another rule of a strategy: as their defaults, they give the CPU's numbers and wait as recorded."""

import warnings

import pytest
import torch

from tests.device.parts import plain_adam
from tests.device.simulated import counted, present
from tests.toys import make_batch, make_conv_model, make_tasks, run_options
from tune_mtl import make_strategy
from tune_mtl.strategies.info import count
from tune_mtl.strategies.jacobian import passes
from tune_mtl.strategies.registry import registry

TASKS = 4
CASES = [("crmogm", {"crmogm_of": kind}) for kind in ("cagrad", "fairgrad", "imtlg", "pcgrad", "upgrad", "alignedmtl")]
CASES += [("mgda_ub", {"mgda_ub_normalize": how}) for how in ("l2", "loss", "loss+")]
CASES += [("mgda_ub", {"mgda_ub_at": "trunk"})]
CASES += [(name, {f"{name}_at": "representation"}) for name in ("jd_graddrop", "jd_imtlg")]
CASES += [(name, {"groups": [["t0", "t3"], ["t1", "t2"]]}) for name in ("ius", "io", "adatask")]
CASES += [
    ("mr", {}),
    ("mr", {"mr_accumulate": True}),
    ("norms", {"norms_at": "trunk", "norms_window": 9}),
    ("gradnorm", {"gradnorm_layer": "0"}),
    ("selective", {"selective_warmup": 9}),
    ("scalar", {"scalar_weights": {"t0": 0.0, "t1": 2.0}}),
    ("go4align", {"go4align_clusters": 3}),
    ("db_mtl", {"db_mtl_power": 0.5}),
]


def steps(name, place, options):
    """Take some steps, with labels missing in half of them; return losses, weights and waits."""
    model, losses, waits = make_conv_model(TASKS).to(place), [], []
    options = run_options(name, 6) | options
    strategy = make_strategy(
        name, model, make_tasks(TASKS, scale=2.0), lr=0.01, optimizer=plain_adam, clip_norm=1.0, **options
    )
    for step, missing in enumerate((None, 0.5, 0.9, None)):
        batch = make_batch(TASKS, seed=step, missing=missing).to(torch.device(place))
        with counted() as found:
            losses.append(strategy.step(*batch))
        waits.append(found)
    read = [{task: loss.item() for task, loss in step.items()} for step in losses]
    return read, [weight.cpu() for weight in strategy.model.state_dict().values()], waits


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_an_option_changes_neither_the_numbers_nor_the_waits(name, options):
    with warnings.catch_warnings(), present() as place:
        warnings.simplefilter("ignore")  # solvers may
        there, here = steps(name, place, options), steps(name, "cpu", options)
    assert there[0] == here[0]
    assert all(torch.equal(first, second) for first, second in zip(there[1], here[1], strict=True))
    assert max(map(len, there[2])) <= count(registry[name].waits, TASKS, TASKS), there[2]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jd_upgrad", {}),
        ("jd_config", {}),
        ("jd_excessmtl", {"jd_excessmtl_n_warmup_steps": 1}),
        ("jd_graddrop", {"jd_graddrop_leak": 0.2}),
        ("jd_random", {}),
        ("jd_trimmedmean", {"jd_trimmedmean_trim_number": 1}),
        ("mgda_ub", {"mgda_ub_at": "trunk"}),
        ("modo", {}),
        ("moco", {"moco_rescale": True}),
    ],
    ids=str,
)
def test_a_jacobian_made_in_parts_changes_neither_the_numbers_nor_the_waits(name, options, monkeypatch):
    monkeypatch.setattr(passes, "_FEW", 0)
    monkeypatch.setattr(passes, "_SMALL", 0)
    test_an_option_changes_neither_the_numbers_nor_the_waits(name, options)
