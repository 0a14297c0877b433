"""What is taken from inside TorchJD is still there and means the same; each failure says what has moved."""

import copy
import warnings
from importlib.metadata import version

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam
from torchjd.aggregation import ExcessMTL

from tests.toys import task_names
from tune_mtl.strategies.jacobian.compat import (
    excess_weights,
    known_weights,
    make_aggregator,
    make_scalarizer,
    memory,
    remember,
    remembers,
    weighting,
)
from tune_mtl.strategies.jacobian.family import AGGREGATORS, SCALARIZERS
from tune_mtl.strategies.jacobian.matrix import HeldJacobian
from tune_mtl.strategies.jacobian.scalarized import _SHAPED

ROWS = 4
TORCHJD = f"torchjd {version('torchjd')}"
KEPT = (Tensor, int, float, str, tuple, list, type(None), np.ndarray, Adam)
"""What `memory` can put into a checkpoint."""


def aggregator(strategy) -> nn.Module:
    arguments = strategy.info.options().arguments(task_names(ROWS), torch.zeros(1))
    return make_aggregator(strategy.kind, strategy.info, arguments)


def scalarizer(strategy) -> nn.Module:
    arguments = strategy.info.options(**({"every": 1} if strategy.kind == "DWA" else {})).model_dump()
    arguments.pop("every", None)
    return make_scalarizer(strategy.kind, arguments | ({"shape": ROWS} if strategy.kind in _SHAPED else {}))


def aggregated(module: nn.Module, step: int) -> Tensor:
    """What strategies do with an aggregator that remembers; the others are asked as TorchJD has it."""
    torch.manual_seed(step)
    rows, weigh = torch.randn(ROWS, 6), weighting(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if weigh is not None:
            return weigh(rows @ rows.T) @ rows
        if isinstance(module, ExcessMTL):
            jacobian = HeldJacobian([nn.Parameter(torch.zeros(2, 3))], [rows.view(ROWS, 2, 3)])
            return excess_weights(module, jacobian) @ rows
        return module(rows)


def scalarized(module: nn.Module, step: int) -> Tensor:
    values = torch.rand(ROWS, generator=torch.Generator().manual_seed(step)).add(0.5).requires_grad_()
    scalar: Tensor = module(values)
    if hasattr(module, "update"):
        module.update(values.detach() * 0.9)
    if hasattr(module, "step"):
        module.step()
    return scalar.detach()


CASES = [(aggregator, aggregated, strategy) for strategy in AGGREGATORS]
CASES += [(scalarizer, scalarized, strategy) for strategy in SCALARIZERS]
every_class = pytest.mark.parametrize(("make", "use", "strategy"), CASES, ids=[case[2].kind for case in CASES])


@every_class
def test_what_it_remembers_comes_back(make, use, strategy):
    whole, other = make(strategy), make(strategy)
    for step in range(3):
        use(whole, step)
    remember(other, copy.deepcopy(memory(whole)), torch.device("cpu"))
    for step in range(3, 6):
        assert torch.equal(use(other, step), use(whole, step)), f"{TORCHJD}: {strategy.kind} remembers more than before"


def attributes(module: nn.Module) -> dict[str, object]:
    own = ((name, vars(part).keys() - vars(nn.Module()).keys(), part) for name, part in module.named_modules())
    return {f"{name}.{key}": getattr(part, key) for name, keys, part in own for key in keys}


@every_class
def test_all_that_a_call_changes_can_be_saved_or_is_made_anew(make, use, strategy):
    module = make(strategy)
    before = attributes(module)
    for step in range(3):
        use(module, step)
    changed = {key: value for key, value in attributes(module).items() if value is not before.get(key)}
    strange = {key for key, value in changed.items() if not isinstance(value, KEPT)}
    problem = {key for key in strange if type(changed[key]).__module__.startswith("cvxpy.")}  # Nash-MTL's, stated anew
    assert strange == problem, f"{TORCHJD}: {strategy.kind} keeps what a checkpoint does not"


def test_those_that_remember_say_so():
    for strategy in AGGREGATORS:
        module = aggregator(strategy)
        before = repr(memory(module))
        for step in range(2):
            aggregated(module, step)
        assert repr(memory(module)) == before or remembers(module), f"{TORCHJD}: {strategy.kind} is not Stateful"


@pytest.mark.parametrize("kind", ["Constant", "Mean", "Random", "Sum"])
def test_those_with_known_weights_look_at_no_gradient(kind):
    module = aggregator(next(strategy for strategy in AGGREGATORS if strategy.kind == kind))
    rows = torch.randn(ROWS, 6, dtype=torch.float64 if kind != "Constant" else torch.float32)
    torch.manual_seed(3)
    expected = module(rows)
    torch.manual_seed(3)
    torch.testing.assert_close(known_weights(module, ROWS, rows.dtype) @ rows, expected)


def test_nash_mtl_states_its_problem_again():
    nash = next(strategy for strategy in AGGREGATORS if strategy.kind == "NashMTL")
    stating = [part for part in aggregator(nash).modules() if hasattr(part, "_init_optim_problem")]
    assert len(stating) == 1, f"{TORCHJD}: Nash-MTL has no _init_optim_problem, or several"
    assert stating[0].step == 0, f"{TORCHJD}: Nash-MTL does not count its steps in `step`"


def test_famo_has_an_adam_of_its_own_over_its_parameters():
    famo = scalarizer(next(strategy for strategy in SCALARIZERS if strategy.kind == "FAMO"))
    scalarized(famo, 0)
    owned = [value for value in vars(famo).values() if isinstance(value, Adam)]
    assert len(owned) == 1, f"{TORCHJD}: FAMO has no Adam among its attributes, or several"
    assert [id(p) for group in owned[0].param_groups for p in group["params"]] == [id(p) for p in famo.parameters()]
