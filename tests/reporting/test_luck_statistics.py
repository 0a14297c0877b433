"""Components of variance and the best count, held to definitions and to simulations with a known truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import data, floats, integers

from tune_mtl.reporting.statistics.best_count import best_count
from tune_mtl.reporting.statistics.crossed import components

sizes = integers(2, 5)


def anova(values):
    """Mean squares of a two-way layout, cell by cell from their definitions."""
    draws, seeds = len(values), len(values[0])
    grand = sum(map(sum, values)) / (draws * seeds)
    rows = [sum(row) / seeds for row in values]
    columns = [sum(row[j] for row in values) / draws for j in range(seeds)]
    of_rows = seeds * sum((mean - grand) ** 2 for mean in rows) / (draws - 1)
    of_columns = draws * sum((mean - grand) ** 2 for mean in columns) / (seeds - 1)
    rest = sum((values[i][j] - rows[i] - columns[j] + grand) ** 2 for i in range(draws) for j in range(seeds))
    return of_rows, of_columns, rest / ((draws - 1) * (seeds - 1))


@given(sizes, sizes, data())
@settings(max_examples=40)
def test_estimates_are_those_of_the_analysis_of_variance_and_never_negative(draws, seeds, draw):
    values = draw.draw(arrays(float, (draws, seeds), elements=floats(-10, 10, width=16)))
    found = components(values, simulated=50)
    of_rows, of_columns, rest = anova(values.tolist())
    close = {"rel": 1e-6, "abs": 1e-9}
    assert found.draw.variance == pytest.approx(max(0, (of_rows - rest) / seeds), **close)
    assert found.seed.variance == pytest.approx(max(0, (of_columns - rest) / draws), **close)
    assert found.rest.variance == pytest.approx(rest, **close)
    for part in (found.draw, found.seed, found.rest):
        assert 0 <= part.low <= part.variance <= part.high
        if found.variance:
            assert 0 <= part.share_low <= part.share <= part.share_high <= 1
    if found.variance:
        assert found.draw.share + found.seed.share + found.rest.share == pytest.approx(1)


@given(sizes, sizes, data(), floats(0.1, 10), floats(-100, 100))
@settings(max_examples=20)
def test_shares_have_no_unit_and_no_zero(draws, seeds, draw, scale, shift):
    values = np.random.default_rng(draw.draw(integers(0, 99))).normal(size=(draws, seeds))
    first, second = components(values, simulated=50), components(scale * values + shift, simulated=50)
    for one, other in ((first.draw, second.draw), (first.seed, second.seed), (first.rest, second.rest)):
        assert other.share == pytest.approx(one.share, abs=1e-6)
        assert other.variance == pytest.approx(scale**2 * one.variance, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("possible", "drawn"), [(3, 3), (4, 2), (6, 4)])
def test_estimates_are_right_on_average_where_draws_are_few(possible, drawn):
    random = np.random.default_rng(possible)
    draws, found = random.normal(0, 1.5, possible), []
    both = random.normal(0, 1, (possible, 60))  # every seed there is: the truth is a sum over them
    both -= both.mean(axis=0)
    seeds = random.normal(0, 0.7, 60)
    world = draws[:, None] + seeds + both
    means, of_seeds = world.mean(axis=1), world.mean(axis=0)
    truth = means.var(), of_seeds.var(), world.var() - means.var() - of_seeds.var()
    for _ in range(3000):
        rows, columns = random.permutation(possible)[:drawn], random.integers(0, 60, 4)
        of_rows, of_columns, rest = anova(world[np.ix_(rows, columns)].tolist())
        unseen, random_one = 1 - drawn / possible, 1 - 1 / possible
        found.append((random_one * (of_rows - rest) / 4, (of_columns - unseen * rest) / drawn, random_one * rest))
    assert np.mean(found, axis=0) == pytest.approx(truth, rel=0.08, abs=0.02)
    values = world[:drawn, :4]
    of_rows, of_columns, rest = anova(values.tolist())
    got = components(values, possible, simulated=50)
    assert got.draw.variance == pytest.approx(max(0, (1 - 1 / possible) * (of_rows - rest) / 4))
    assert got.seed.variance == pytest.approx(max(0, (of_columns - (1 - drawn / possible) * rest) / drawn))


@pytest.mark.parametrize("possible", [None, 3])
@pytest.mark.parametrize("truth", [(1.0, 1.0, 1.0), (0.0, 1.0, 0.5)])
def test_intervals_hold_what_is_true_as_often_as_they_say(possible, truth):
    random, searches = np.random.default_rng(5), 250
    draws = possible or 4
    fixed = np.array([-1.2247449, 0.0, 1.2247449])
    held = np.zeros(3)
    for _ in range(searches):
        both = random.normal(size=(draws, 4))
        if possible is None:
            rows = random.normal(size=draws)
        else:
            rows, both = fixed, (both - both.mean(axis=0)) / math.sqrt(1 - 1 / possible)
        parts = [math.sqrt(size) for size in truth]
        found = components(
            parts[0] * rows[:, None] + parts[1] * random.normal(size=4) + parts[2] * both, possible, simulated=400
        )
        for place, (part, size) in enumerate(zip((found.draw, found.seed, found.rest), truth, strict=True)):
            held[place] += part.share_low - 1e-9 <= size / sum(truth) <= part.share_high + 1e-9
    assert (held / searches).min() > 0.95 - 3 * math.sqrt(0.05 * 0.95 / searches)


def test_runs_that_do_not_differ_have_no_shares():
    found = components(np.full((3, 4), 0.1))
    assert found.variance == 0
    assert math.isnan(found.draw.share)


@pytest.mark.parametrize("values", [np.zeros((1, 4)), np.zeros((3, 1)), np.array([[1, np.nan], [2, 3]])])
def test_what_is_no_layout_is_refused(values):
    with pytest.raises(ValueError, match="cannot be split"):
        components(values)


def test_more_draws_than_there_are_cannot_be():
    with pytest.raises(ValueError, match="5 draws x 2 seeds"):
        components(np.zeros((5, 2)), 3)


def table(matrix, counts=(1, 2, 4, 8)):
    return {
        count: {unit: float(row[place]) for unit, row in enumerate(matrix) if not math.isnan(row[place])}
        for place, count in enumerate(counts)
    }


@pytest.mark.parametrize("units", [3, 8])
def test_a_flat_curve_excludes_no_count_and_a_clear_optimum_is_narrow(units):
    random, searches = np.random.default_rng(units), 60
    levels = random.normal(size=(searches, units, 1))
    noise = random.normal(size=(searches, units, 4))
    flat = [best_count(table(values)) for values in levels + noise]
    assert sum((one.low, one.high) == (1, 8) for one in flat) / searches >= 0.88  # 95 % but for three deviations
    clear = [best_count(table(values)) for values in levels + noise + [8, 8, 0, 8]]
    assert all(one.low <= 4 <= one.high and one.best == 4 for one in clear)
    if units == 8:
        assert sum((one.low, one.high) == (4, 4) for one in clear) / searches > 0.95
        assert all(one.shares[4] > 0.99 for one in clear)


@given(data())
@settings(max_examples=30)
def test_with_all_values_the_best_has_the_best_mean(draw):
    matrix = draw.draw(arrays(float, (4, 3), elements=floats(-5, 5, width=16), unique=True))
    for sign in (1, -1):
        found = best_count(table(matrix, (2, 4, 8)), sign)
        means = sign * matrix.mean(axis=0)
        assert means[(2, 4, 8).index(found.best)] == pytest.approx(means.min(), abs=1e-9)
        assert found.low <= found.best <= found.high
        assert sum(found.shares.values()) == pytest.approx(1)


def test_holes_are_filled_by_least_squares():
    levels, effects = np.array([0.0, 3.0, -1.0, 7.0]), np.array([0.2, 0.0, 0.5])
    matrix = levels[:, None] + effects
    for hole in ((0, 1), (2, 1), (1, 0), (3, 2)):
        matrix[hole] = np.nan
    assert np.nanmean(matrix, axis=0).argmin() != 1  # means of what is there would be misled
    assert best_count(table(matrix, (2, 4, 8))).best == 4


def test_units_that_tried_one_count_compare_nothing():
    assert best_count({2: {0: 1.0}, 4: {1: 0.5}}) is None
    found = best_count({2: {0: 1.0, 1: 1.1, 2: 0.1}, 4: {0: 0.5, 1: 0.6}})
    assert (found.best, found.units) == (4, 2)
