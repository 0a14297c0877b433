"""Every strategy on a simulated device, in a whole trial: the CPU's numbers, and no wait that its record does not name.

The trial has a schedule, clipping, dropout, augmentation, missing labels, metrics and a metric of all tasks, and it is
resumed from a checkpoint.
"""

import warnings

import pytest

from tests.device.trials import MET, check_model, check_numbers, check_waits, on_the_device, waits_in
from tune_mtl.strategies.info import count
from tune_mtl.strategies.registry import registry


@pytest.fixture(autouse=True)
def _solvers_and_metrics_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", registry)
def test_a_resumed_trial_there_has_the_numbers_of_the_cpu(name):
    check_numbers(name)


@pytest.mark.parametrize("name", registry)
def test_a_step_waits_as_often_as_its_record_says(name):
    check_waits(name)


GATHERED = {"accumulate": 2, "checkpoint_trunk": True}


@pytest.mark.parametrize("name", registry)
def test_gathered_updates_and_a_trunk_computed_again_change_neither_the_numbers_nor_the_waits(name):
    check_numbers(name, **GATHERED)
    check_waits(name, **GATHERED)
    assert len(on_the_device(name, MET, **GATHERED).waits) == 3


@pytest.mark.parametrize("name", registry)
def test_its_model_is_loaded_on_the_cpu(name):
    check_model(name)


def test_the_trial_has_all_that_meets_a_device():
    trial = on_the_device("sus", MET)
    assert len(trial.waits) == 5
    assert {"val/numbers/r2", "val/classes/accuracy", "val/marks/accuracy", "val/worst"} <= trial.records[0].keys()
    assert {"test/loss", "test/worst"} <= trial.test.keys()


def test_records_promise_at_most_one_wait():
    promised = {name: waits_in(info.waits) for name, info in registry.items()}
    assert {number for numbers in promised.values() for number in numbers} == {0, 1}
    assert {name for name, (usual, rare) in promised.items() if rare > usual} == {"selective", "norms"}
    assert all(count(registry[name].waits, 3, 1) == most for name, (_, most) in promised.items())
