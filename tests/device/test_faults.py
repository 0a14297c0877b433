"""The laws of the simulated device fail on what they are there for, and all is well with these faults on a CPU."""

import math
import warnings

import pytest
from torchmetrics import MetricCollection

from tests.device import faults, parts
from tests.device.trials import MET, check_numbers, check_waits, on_the_cpu
from tune_mtl.training.evaluation import LossMeter


@pytest.fixture(autouse=True)
def _metrics_may_warn():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torchmetrics")
        yield


def check(strategy, problem=MET):
    check_numbers(strategy, problem)
    check_waits(strategy, problem)


@pytest.mark.parametrize("fault", faults.STRATEGIES, ids=lambda fault: fault.__name__)
def test_a_strategy_with_a_fault_breaks_a_law(fault):
    reference = f"tests.device.faults:{fault.__name__}"
    assert math.isfinite(on_the_cpu(reference, MET).records[-1]["val/loss"])
    with pytest.raises((AssertionError, RuntimeError), match=faults.STRATEGIES[fault]):
        check(reference)


@pytest.mark.parametrize("fault", faults.PROBLEMS)
def test_a_problem_with_a_fault_breaks_a_law(fault):
    make, word = faults.PROBLEMS[fault]
    problem = make()
    assert math.isfinite(on_the_cpu("sus", problem).records[-1]["val/loss"])
    with pytest.raises((AssertionError, RuntimeError), match=word):
        check("sus", problem)


def test_metrics_that_nobody_brings_to_the_device_break_a_law(monkeypatch):
    monkeypatch.setattr(MetricCollection, "to", lambda self, _: self)
    with pytest.raises(RuntimeError, match="same device"):
        check("sus", parts.problem())


def test_a_loop_that_looks_in_every_step_breaks_a_law(monkeypatch):
    add = LossMeter.add

    def looks(self, losses, labelled):
        add(self, losses, labelled)
        assert self.finite()

    monkeypatch.setattr(LossMeter, "add", looks)
    with pytest.raises(AssertionError):
        check_waits("sus", parts.problem())
