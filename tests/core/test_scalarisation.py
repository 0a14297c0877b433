"""Scalarisations against hand-computed values and laws, and every mistake in what they are made of."""

import math

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, floats, sampled_from

from tune_mtl import Objective, UserError
from tune_mtl.core.scalarisation import delta_m, read_reference, read_weights, weighted_mean, worst

TASKS = ("left", "sum")
METRICS = ("loss", "loss/left", "loss/sum", "left/accuracy", "sum/mae", "sum/rmse")
MODES = {"left/accuracy": "max", "sum/mae": "min", "sum/rmse": "min", "loss/left": "min"}
losses = dictionaries(sampled_from(["a", "b", "c"]), floats(0, 1e3), min_size=1)


def test_delta_m_by_hand():
    reference = {"left": [("left/accuracy", 0.8)], "sum": [("sum/mae", 2.0), ("sum/rmse", 4.0)]}
    values = {"left/accuracy": 0.88, "sum/mae": 1.0, "sum/rmse": 5.0}
    assert delta_m(values, reference, MODES) == pytest.approx(100 * (0.1 + (0.5 - 0.25) / 2) / 2)
    assert delta_m({name: v for found in reference.values() for name, v in found}, reference, MODES) == 0.0
    assert math.isnan(delta_m({**values, "sum/mae": math.nan}, reference, MODES))
    assert math.isnan(delta_m({}, reference, MODES))


def test_a_negative_reference_does_not_turn_the_sign():
    assert delta_m({"loss/left": -3.0}, {"left": [("loss/left", -2.0)]}, MODES) == pytest.approx(50.0)


def test_worst_and_weighted_by_hand():
    assert worst({"a": 0.2, "b": 0.9, "c": 0.5}) == 0.9
    assert weighted_mean({"a": 0.2, "b": 0.9}, {"a": 3.0, "b": 1.0, "c": 7.0}) == pytest.approx((0.6 + 0.9) / 4)
    assert math.isnan(weighted_mean({"a": 0.2}, {"a": 0.0, "b": 1.0}))
    assert math.isnan(worst({}))
    assert math.isnan(worst({"a": 0.1, "b": math.nan}))


@given(losses, floats(0.1, 10))
def test_equal_weights_are_the_mean_and_none_exceeds_the_worst(found, weight):
    mean = weighted_mean(found, dict.fromkeys("abc", weight))
    assert mean == pytest.approx(sum(found.values()) / len(found))
    assert mean <= worst(found) * (1 + 1e-12) + 1e-300


def test_what_is_written_is_read():
    assert read_weights("sum=0.5", TASKS) == {"left": 1.0, "sum": 0.5}
    assert read_weights(" a b = 2 ", ("a b", "c")) == {"a b": 2.0, "c": 1.0}
    expected = {"left": [("left/accuracy", 0.9)], "sum": [("loss/sum", 0.4), ("sum/mae", 2.0)]}
    assert read_reference("left/accuracy=0.9,sum=0.4,sum/mae=2", TASKS, METRICS) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rigth=2", "there is no task 'rigth'"),
        ("lefft=2", "Did you mean 'left'?"),
        ("left=-1", "left=-1 must be 0 or more"),
        ("left=0,sum=0", "some task must have a weight above 0"),
        ("left", "'left' must be NAME=NUMBER, as in left=2,sum=0.5"),
        ("left=two", "'left=two' must be NAME=NUMBER"),
        ("left=nan", "must be NAME=NUMBER"),
        ("left=1,left=2", "names 'left' twice"),
    ],
)
def test_weights_that_cannot_be(text, said):
    with pytest.raises(UserError, match=said) as refused:
        read_weights(text, TASKS)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("left=1", "has no value for task 'sum'"),
        ("left=1,sum=0", "sum=0 has no relative change"),
        ("left=1,middle=2", "no task has 'middle'"),
        ("left/acuracy=1,sum=2", "Did you mean 'left/accuracy'"),
        ("left=1,loss=2", "no task has 'loss'"),
    ],
)
def test_references_that_cannot_be(text, said):
    with pytest.raises(UserError, match=said) as refused:
        read_reference(text, TASKS, METRICS)
    assert "\n" not in str(refused.value)


def test_which_way_is_better_goes_without_saying():
    modes = {name: Objective.parse(f"val/{name}").mode for name in ("worst_task", "weighted_loss", "delta_m")}
    assert modes == {"worst_task": "min", "weighted_loss": "min", "delta_m": "max"}
