"""Tests, ranks and improvements: against scipy, by hand, and by laws."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis.strategies import dictionaries, floats, integers, lists, sampled_from, text
from scipy import stats

from tune_mtl.reporting.statistics.significance import (
    Sample,
    average_ranks,
    difference,
    holm,
    larger,
    shaffer,
    standings,
    welch,
)

values = lists(floats(-1e3, 1e3).map(lambda x: round(x, 3)), min_size=2, max_size=6)
p_values = lists(floats(0, 1), min_size=1, max_size=8)
KNOWN = ([27.5, 21.0, 19.0, 23.6, 17.0, 17.9], [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8])


@given(values, values)
def test_welch_is_scipys(first, second):
    assume(np.std(first) > 1e-3 and np.std(second) > 1e-3)
    expected = stats.ttest_ind(first, second, equal_var=False).pvalue
    assert welch(Sample.of(first), Sample.of(second)) == pytest.approx(expected, rel=1e-6)


@given(values, values, sampled_from([1e-300, 1e-170, 1e160, 1e290]))
def test_tests_do_not_depend_on_the_unit(first, second, unit):
    assume(np.std(first) > 1e-3 and np.std(second) > 1e-3)
    scaled = [[unit * value for value in found] for found in (first, second)]
    assert welch(*map(Sample.of, scaled)) == pytest.approx(welch(Sample.of(first), Sample.of(second)), rel=1e-6)
    one, other = difference(first, second), difference(*scaled)
    assert other.p_value == pytest.approx(one.p_value, rel=1e-6)
    assert (other.low / unit, other.high / unit) == pytest.approx((one.low, one.high), rel=1e-6, abs=1e-9)


def test_on_known_data():
    first, second = KNOWN
    by_hand = 2 * stats.t.sf(2 / math.sqrt(5 / 3), (5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2))
    assert welch(Sample.of([1, 2, 3]), Sample.of([2, 4, 6])) == pytest.approx(by_hand)
    gap = difference(first, second)
    interval = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((interval.low, interval.high))
    assert gap.value == pytest.approx(statistics.fmean(second) - statistics.fmean(first))


def partitions(names):
    """Every way to put ``names`` into groups."""
    if not names:
        yield []
        return
    for groups in partitions(names[1:]):
        yield [[names[0]], *groups]
        for index, group in enumerate(groups):
            yield [*groups[:index], [names[0], *group], *groups[index + 1 :]]


@given(integers(2, 6), lists(floats(0, 1), min_size=15, max_size=15))
def test_shaffer_counts_the_pairs_that_can_be_equal_together(strategies, found):
    found = found[: math.comb(strategies, 2)]
    equal = {sum(math.comb(len(group), 2) for group in groups) for groups in partitions(list(range(strategies)))}
    expected, highest = {}, 0.0
    for position, (p, index) in enumerate(sorted((p, index) for index, p in enumerate(found))):
        most = max(count for count in equal if count <= len(found) - position)
        highest = max(highest, min(1.0, most * p))
        expected[index] = highest
    adjusted = shaffer(found, strategies)
    assert adjusted == [expected[index] for index in range(len(found))]
    assert all(own <= by_holm + 1e-12 for own, by_holm in zip(adjusted, holm(found), strict=True))


def test_without_spread_or_without_seeds():
    same, other, single = Sample(1.0, 0.0, 3), Sample(2.0, 0.0, 3), Sample(1.0, math.nan, 1)
    assert welch(same, same) == 1.0
    assert welch(same, other) == 0.0
    assert math.isnan(welch(same, single))
    assert difference([1.0], [2.0, 3.0]) is None


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    adjusted = holm([0.01, math.nan, 0.02])
    assert adjusted[0] == pytest.approx(0.02)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.02)


@given(p_values)
def test_holm_lies_between_nothing_and_bonferroni(found):
    adjusted = holm(found)
    for raw, corrected in zip(found, adjusted, strict=True):
        assert raw <= corrected <= min(1.0, len(found) * raw) + 1e-12
    order = np.argsort(found, kind="stable")
    assert all(np.diff(np.array(adjusted)[order]) >= -1e-12)


def test_ranks_follow_the_means_whatever_the_deviations():
    samples = {
        "best": Sample(0.10, 0.01, 3),
        "as good": Sample(0.105, 0.01, 3),
        "worse": Sample(0.30, 0.01, 3),
        "as bad": Sample(0.31, 0.01, 3),
        "last": Sample(0.90, 5.0, 3),
    }
    found = standings(samples, "min")
    assert {name: place.rank for name, place in found.items()} == {
        "best": 1,
        "as good": 2,
        "worse": 3,
        "as bad": 4,
        "last": 5,
    }
    assert [name for name, place in found.items() if place.equivalent] == ["best", "as good", "last"]
    assert found["best"].best
    assert not found["as good"].best
    turned = standings({name: Sample(-s.mean, s.deviation, s.count) for name, s in samples.items()}, "max")
    assert {name: place.rank for name, place in turned.items()} == {name: place.rank for name, place in found.items()}


def test_one_seed_gives_ranks_but_no_equivalence():
    found = standings({"a": Sample(1.0, math.nan, 1), "b": Sample(1.001, math.nan, 1)}, "min")
    assert [place.rank for place in found.values()] == [1, 2]
    assert not found["b"].equivalent
    assert math.isnan(found["b"].p_value)


@given(
    dictionaries(text("abcdef", min_size=1, max_size=2), floats(0, 1), min_size=1, max_size=6),
    floats(0.01, 0.5),
    sampled_from(["min", "max"]),
    integers(2, 5),
)
def test_ranks_are_those_of_a_competition(means, deviation, mode, count):
    found = standings({name: Sample(mean, deviation, count) for name, mean in means.items()}, mode)
    ranks = sorted(place.rank for place in found.values())
    assert ranks[0] == 1
    for position, rank in enumerate(ranks, start=1):
        assert rank <= position
        assert sum(other < rank for other in ranks) == rank - 1
    assert sum(place.best for place in found.values()) == 1


def test_average_rank_is_over_metrics_that_all_have():
    first = standings({"a": Sample(1, 0, 2), "b": Sample(2, 0, 2)}, "min")
    second = standings({"a": Sample(1, 0, 2), "b": Sample(2, 0, 2), "c": Sample(3, 0, 2)}, "max")
    assert average_ranks([first, second]) == {"a": 2.0, "b": 2.0}
    assert average_ranks([]) == {}


def test_larger_is_scipys_paired_test_on_logarithms():
    first, second = [1.0, 2.0, 3.0], [2.0, 5.0, 6.5]
    expected = stats.ttest_rel(np.log(second), np.log(first), alternative="greater").pvalue
    assert larger(first, second) == pytest.approx(expected)
    assert larger(second, first) == pytest.approx(1 - expected)
    assert larger([1.0, 2.0], [2.0, 4.0]) == 0.0
    assert larger([1.0, 2.0], [1.0, 2.0]) == 0.5
    assert math.isnan(larger([1.0], [2.0]))
