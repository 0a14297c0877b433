"""The model of learning curves against the textbook's formulas for normal values, and what must hold of it."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis.strategies import integers
from scipy.stats import multivariate_normal

from tune_mtl.ray_tune.thaw.curves import Curves, Points, Shape, covariance, own_covariance
from tune_mtl.ray_tune.thaw.shapes import USUAL, learn_shape


def points(random, count, *, trials=4, numeric=1, choices=1):
    """Return points of some trials, each with a config of its own."""
    shares, codes = random.random((trials, numeric)), random.integers(0, 2, (trials, choices))
    trial = random.integers(0, trials, count)
    return Points(shares[trial], codes[trial], -np.log(random.integers(1, 13, count) / 12), trial)


def covariance_by_hand(shape, a, b):
    """Return the covariance of two points, from the definition of the model."""
    distance = np.sqrt(5 * sum(((x - y) / shape.length) ** 2 for x, y in zip(a.shares[0], b.shares[0], strict=True)))
    like = (1 + distance + distance**2 / 3) * np.exp(-distance) * shape.alike ** int((a.codes != b.codes).sum())
    level, slope = 4.0 + shape.level**2 * like, 0.09 + shape.slope**2 * like
    found = level + slope * a.steep[0] * b.steep[0]
    if a.trial[0] == b.trial[0]:
        found += shape.luck**2 + shape.own_slope**2 * a.steep[0] * b.steep[0]
        found += shape.wander**2 * np.exp(-abs(a.steep[0] - b.steep[0]) / 0.7)
    return found


def one(of, index):
    return Points(*(values[index : index + 1] for values in (of.shares, of.codes, of.steep, of.trial)))


def joined(a, b):
    pairs = ((a.shares, b.shares), (a.codes, b.codes), (a.steep, b.steep), (a.trial, b.trial))
    return Points(*(np.concatenate(pair) for pair in pairs))


@settings(max_examples=25)
@given(integers(0, 2**31))
def test_covariances_are_those_of_the_definition(seed):
    random = np.random.default_rng(seed)
    shape = Shape(*np.minimum(np.array(astuple(USUAL)) * np.exp(random.normal(0, 0.3, 8)), 0.98))
    a, b = points(random, 5, numeric=2), points(random, 5, numeric=2)
    b = Points(np.where((a.trial == b.trial)[:, None], a.shares, b.shares), b.codes, b.steep, b.trial)
    found = covariance(shape, a, b)
    for i in range(5):
        for j in range(5):
            assert found[i, j] == pytest.approx(covariance_by_hand(shape, one(a, i), one(b, j)))
    assert own_covariance(shape, a, a.at(np.ones(5))) == pytest.approx(np.diag(covariance(shape, a, a.at(np.ones(5)))))


@settings(max_examples=25)
@given(integers(0, 2**31), integers(1, 12))
def test_expectations_and_evidence_are_those_of_conditioned_normal_values(seed, count):
    random = np.random.default_rng(seed)
    both = points(random, count + 6)
    seen, places = (Points(*(v[part] for v in (both.shares, both.codes, both.steep, both.trial)))
                    for part in (slice(0, count), slice(count, None)))  # fmt: skip
    values = random.normal(size=count)
    curves = Curves(USUAL, seen, values)
    noisy = covariance(USUAL, seen, seen) + (USUAL.noise**2 + 1e-8) * np.eye(count)
    cross = covariance(USUAL, places, seen)
    offset = values.min()
    mean, deviation = curves.expect(places)
    assert mean == pytest.approx(offset + cross @ np.linalg.solve(noisy, values - offset), abs=1e-6)
    left = covariance(USUAL, places, places) - cross @ np.linalg.solve(noisy, cross.T)
    assert deviation**2 == pytest.approx(np.diag(left), abs=1e-6)
    log_density = multivariate_normal(np.full(count, offset), noisy).logpdf(values)
    assert curves.evidence - 0.5 * count * np.log(2 * np.pi) == pytest.approx(log_density, abs=1e-6)


@settings(max_examples=25)
@given(integers(0, 2**31))
def test_what_a_step_tells_is_how_far_the_expected_end_would_move(seed):
    random = np.random.default_rng(seed)
    seen, values = points(random, 8), random.normal(size=8)
    soon = one(points(random, 1), 0)
    ends = Curves(USUAL, seen, values).ends(soon)
    mean, deviation = Curves(USUAL, seen, values).expect(soon.at(np.ones(1)))
    assert (ends.mean, ends.deviation) == (pytest.approx(mean), pytest.approx(deviation))
    at_soon, spread = Curves(USUAL, seen, values).expect(soon)
    surprise = np.sqrt(spread**2 + USUAL.noise**2)  # one standard deviation of what the step will show
    assume(at_soon + surprise >= values.min())  # the lowest value is the model's zero
    told = Curves(USUAL, joined(seen, soon), np.append(values, at_soon + surprise))
    assert abs(told.ends(soon).mean - ends.mean) == pytest.approx(
        ends.moves, rel=0.05
    )  # a new lowest value moves the mean a little


def test_more_is_known_of_the_end_of_a_trial_the_further_it_is():
    steps = np.arange(1, 13) / 12
    deviations = []
    for count in range(1, 13):
        seen = Points(np.full((count, 1), 0.5), np.zeros((count, 0), int), -np.log(steps[:count]), np.zeros(count, int))
        end = Points(np.full((1, 1), 0.5), np.zeros((1, 0), int), np.zeros(1), np.zeros(1, int))
        deviations.append(float(Curves(USUAL, seen, -0.1 * np.log(steps[:count])).expect(end)[1][0]))
    assert deviations == sorted(deviations, reverse=True)
    assert deviations[-1] < deviations[0] / 3


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        Curves(USUAL, points(np.random.default_rng(0), 2), np.array([1.0, np.nan]))


@pytest.mark.parametrize(("part", "factor"), [("noise", 4.0), ("luck", 5.0), ("level", 2.5)])
def test_a_shape_is_found_again_in_what_it_brought_forth(part, factor):
    true = replace(USUAL, **{part: getattr(USUAL, part) * factor})
    random = np.random.default_rng(1)
    tunings = []
    for _ in range(6):
        trial = np.repeat(np.arange(8), 6)
        shares, steep = random.random((8, 1))[trial], np.tile(-np.log(np.arange(1, 7) / 6), 8)
        seen = Points(shares, np.zeros((48, 0), int), steep, trial)
        matrix = covariance(true, seen, seen) + true.noise**2 * np.eye(48)
        tunings.append((seen, np.linalg.cholesky(matrix + 1e-9 * np.eye(48)) @ random.normal(size=48)))
    found = learn_shape(tunings)
    assert getattr(found, part) == pytest.approx(getattr(true, part), rel=0.4)
    assert abs(np.log(getattr(found, part) / getattr(USUAL, part))) > np.log(factor) / 2
