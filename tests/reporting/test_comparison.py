"""Pairs of strategies: against scipy, by hand, by laws, and by the errors of simulated searches."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis.strategies import dictionaries, floats, integers, lists, sampled_from
from scipy import stats

from tune_mtl.experiment.planning.replication import looks as looks_of
from tune_mtl.reporting.statistics.comparison import (
    Looks,
    Variation,
    _compared,
    compare_configs,
    compare_strategies,
    rank_in_every_unit,
)
from tune_mtl.reporting.statistics.significance import ALPHA, difference, holm, shaffer
from tune_mtl.results.settings import Settings

AUTO = Looks(looks_of(Settings(problem="made", name="made", replicates="auto")))
"""Of a search that grows by itself."""
SEARCHES = 600
numbers = floats(-1e3, 1e3).map(lambda x: round(x, 3))
units = dictionaries(integers(0, 9), numbers, min_size=1, max_size=8)
strategies = dictionaries(sampled_from("abcdef"), units, min_size=2, max_size=5)


def by_unit(values):
    return dict(enumerate(values))


def shared(values, one):
    both = sorted(values[one.a].keys() & values[one.b].keys())
    return [values[one.a][unit] for unit in both], [values[one.b][unit] for unit in both]


def spread(values, one):
    first, second = shared(values, one)
    return len(first) < 2 or np.std(np.subtract(second, first)) > 1e-3


@given(strategies)
def test_paired_p_values_are_scipys(values):
    found = compare_strategies(values)
    assume(all(spread(values, one) for one in found))
    raw = []
    for one in found:
        first, second = shared(values, one)
        assert one.units == len(first)
        raw.append(stats.ttest_rel(second, first).pvalue if len(first) > 1 else math.nan)
        if first:
            assert one.difference == pytest.approx(np.mean(second) - np.mean(first), rel=1e-6, abs=1e-9)
    assert [one.p for one in found] == pytest.approx(shaffer(raw, len(values)), rel=1e-6, nan_ok=True)
    assert [{one.a, one.b} for one in found] == [set(pair) for pair in combinations(order(values), 2)]


def order(values):
    return sorted(values, key=lambda name: math.fsum(values[name].values()) / len(values[name]))


def test_all_pairs_corrected_by_hand():
    values = {"a": by_unit([1, 2, 3, 4]), "b": by_unit([2, 4, 4, 6]), "c": by_unit([9, 9, 12, 11])}
    raw = {
        pair: stats.ttest_rel(list(values[pair[1]].values()), list(values[pair[0]].values())).pvalue
        for pair in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    smallest, middle, largest = sorted(raw, key=raw.__getitem__)
    expected = {smallest: 3 * raw[smallest]}
    expected[middle] = max(expected[smallest], raw[middle])  # if two differ, one of the other pairs may be equal
    expected[largest] = max(expected[middle], raw[largest])
    assert {(one.a, one.b): one.p for one in compare_strategies(values)} == pytest.approx(expected)


@given(strategies, sampled_from([None, AUTO, Looks((2, 3, 5))]), sampled_from([1, -1]))
def test_the_interval_excludes_zero_just_where_the_test_is_significant(values, looks, sign):
    for one in compare_strategies(values, sign, looks):
        if math.isnan(one.p):
            assert one.units < 2
            assert math.isnan(one.low)
            assert math.isnan(one.high)
            assert not one.told_apart
            continue
        assert one.low <= one.difference <= one.high
        assert one.told_apart == (one.p < ALPHA) == (one.low > 0 or one.high < 0)
        assert one.detectable >= (one.high - one.low) / 2


def test_the_interval_of_one_comparison_is_the_usual_one():
    first, second = [0.30, 0.33, 0.31, 0.35], [0.36, 0.35, 0.40, 0.39]
    (one,) = compare_strategies({"a": by_unit(first), "b": by_unit(second)})
    expected = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert (one.low, one.high) == pytest.approx((expected.low, expected.high))
    three = compare_strategies({"a": by_unit(first), "b": by_unit(second), "c": by_unit([0.34, 0.32, 0.36, 0.33])})
    wider = next(each for each in three if {each.a, each.b} == {"a", "b"})
    assert wider.low < one.low
    assert wider.high > one.high
    (looked,) = compare_strategies({"a": by_unit(first), "b": by_unit(second)}, looks=AUTO)
    assert looked.low < one.low
    assert looked.p > one.p


@given(strategies)
def test_turning_round_changes_signs_and_nothing_else(values):
    for one in compare_strategies(values):
        assert one.of(one.a) is one
        turned = one.of(one.b)
        assert (turned.a, turned.b, turned.p, turned.told_apart) == pytest.approx(
            (one.b, one.a, one.p, one.told_apart), nan_ok=True
        )
        assert (turned.difference, turned.low, turned.high) == pytest.approx(
            (-one.difference, -one.high, -one.low), nan_ok=True
        )
        assert turned.of(one.a).difference == pytest.approx(one.difference, nan_ok=True)


@pytest.mark.parametrize(
    ("second", "p", "apart"),
    [([1.0, 2.0, 3.0], 1.0, False), ([2.0, 3.0, 4.0], 0.0, True), ([1.5, math.nan, math.nan], math.nan, False)],
)
def test_differences_without_spread_and_without_pairs(second, p, apart):
    values = {"a": by_unit([1.0, 2.0, 3.0]), "b": {unit: x for unit, x in enumerate(second) if not math.isnan(x)}}
    (one,) = compare_strategies(values)
    assert one.p == pytest.approx(p, nan_ok=True)
    assert one.told_apart is apart
    assert one.low == pytest.approx(math.nan if math.isnan(p) else one.difference, nan_ok=True)


def test_strategies_without_a_replicate_in_common_are_not_compared():
    (one,) = compare_strategies({"a": {0: 1.0, 1: 2.0}, "b": {2: 5.0, 3: 6.0}})
    assert one.units == 0
    assert math.isnan(one.difference)
    assert math.isnan(one.p)
    assert not one.told_apart


@given(lists(numbers, min_size=3, max_size=6), lists(numbers, min_size=3, max_size=6), sampled_from([1e-300, 1e290]))
def test_comparisons_do_not_depend_on_the_unit(first, second, unit):
    pairs = list(zip(first, second, strict=False))
    assume(np.std([b - a for a, b in pairs]) > 1e-3)
    scales = ({"a": by_unit([unit * a for a, _ in pairs]), "b": by_unit([unit * b for _, b in pairs])}, unit)
    (one,) = compare_strategies({"a": by_unit([a for a, _ in pairs]), "b": by_unit([b for _, b in pairs])})
    (other,) = compare_strategies(scales[0])
    other = other.of(one.a)
    assert other.p == pytest.approx(one.p, rel=1e-6)
    found = (other.difference / unit, other.low / unit, other.high / unit)
    assert found == pytest.approx((one.difference, one.low, one.high), rel=1e-5, abs=1e-6)


def test_where_more_is_better_the_first_has_more():
    values = {"low": by_unit([0.1, 0.2, 0.15]), "high": by_unit([0.8, 0.9, 0.95])}
    (less,), (more,) = compare_strategies(values, 1), compare_strategies(values, -1)
    assert (less.a, more.a) == ("low", "high")
    assert less.difference == pytest.approx(-more.difference)


def test_configs_are_never_told_apart_as_strategies():
    (one,) = compare_configs({"a": [0.1, 0.11, 0.12], "b": [0.9, 0.91, 0.92]})
    assert one.significant
    assert not one.told_apart
    assert one.p == pytest.approx(stats.ttest_ind([0.1, 0.11, 0.12], [0.9, 0.91, 0.92], equal_var=False).pvalue)


def test_configs_are_corrected_for_all_pairs_too():
    values = {"a": [0.1, 0.12, 0.11], "b": [0.13, 0.15, 0.16], "c": [0.9, 0.91, 0.95]}
    found = compare_configs(values)
    raw = [difference(values[one.a], values[one.b]).p_value for one in found]
    assert [one.p for one in found] == pytest.approx(holm(raw))
    nearest = next(one for one in found if {one.a, one.b} == {"a", "b"})
    assert nearest.p == pytest.approx(raw[found.index(nearest)])  # the largest of three: not multiplied
    assert [one.p > p for one, p in zip(found, raw, strict=True)] == [one is not nearest for one in found]


@pytest.mark.parametrize(("p", "nominal"), [(0.049, 1e-9), (0.051, 0.999)])
def test_rounding_does_not_let_interval_and_test_disagree(p, nominal):
    one = _compared("a", "b", [0.1, 0.2, 0.3], p, nominal, ALPHA)
    assert one.told_apart == (one.low > 0 or one.high < 0) == (p < ALPHA)


def equal_searches(count, units, strategies=2):
    """Return results of strategies between which there is no difference, replicates sharing some of their luck."""
    drawn = np.random.default_rng(1)
    return drawn.normal(size=(count, strategies, units)) + drawn.normal(size=(count, 1, units))


def stops(differences, looks, level):
    """Return which searches, growing from look to look, tell two equal strategies apart at one of them."""
    told = np.zeros(len(differences), dtype=bool)
    for size in looks.sizes:
        told |= stats.ttest_1samp(differences[:, :size], 0.0, axis=1).pvalue < level(size)
    return told


def test_looking_often_costs_no_more_than_it_says():
    searches = equal_searches(20_000, AUTO.sizes[-1])
    differences = searches[:, 1] - searches[:, 0]
    error = math.sqrt(ALPHA * (1 - ALPHA) / len(differences))
    corrected = stops(differences, AUTO, lambda size: AUTO.level(ALPHA, size)).mean()
    careless = stops(differences, AUTO, lambda _: ALPHA).mean()
    assert 0.03 <= corrected <= ALPHA + 2 * error
    assert careless > 0.08


def test_the_corrected_p_value_and_the_level_are_one_rule():
    for size in AUTO.sizes:
        level = AUTO.level(ALPHA, size)
        assert AUTO.corrected(0.98 * level, size) < ALPHA
        assert AUTO.corrected(1.02 * level, size) > ALPHA
        assert level < ALPHA
    levels = [AUTO.level(ALPHA, size) for size in AUTO.sizes]
    assert levels == sorted(levels)
    assert AUTO.level(ALPHA, 9) == AUTO.level(ALPHA, 8)


@given(floats(0, 1), floats(0, 1), sampled_from(AUTO.sizes))
def test_a_correction_for_looks_keeps_the_order_and_only_adds(first, second, size):
    low, high = sorted((first, second))
    assert low <= AUTO.corrected(low, size) <= AUTO.corrected(high, size) <= 1


def test_one_look_costs_nothing():
    only = Looks((8,))
    assert only.level(ALPHA, 8) == pytest.approx(ALPHA, rel=0.03)
    assert only.corrected(0.2, 8) == pytest.approx(0.2, rel=0.03)


def test_four_equal_strategies_are_seldom_told_apart():
    searches = equal_searches(SEARCHES, 8, strategies=4)
    told = 0
    for search in searches:
        found = compare_strategies({name: by_unit(row) for name, row in zip("abcd", search, strict=True)})
        told += any(one.told_apart for one in found)
    pairs = combinations(range(4), 2)
    uncorrected = [stats.ttest_rel(searches[:, a], searches[:, b], axis=1).pvalue < ALPHA for a, b in pairs]
    error = math.sqrt(ALPHA * (1 - ALPHA) / SEARCHES)
    assert told / SEARCHES <= ALPHA + 2 * error
    assert np.any(uncorrected, axis=0).mean() > 0.12


@settings(max_examples=30)
@given(integers(0, 2**31))
def test_a_noisy_strategy_that_is_always_worse_ranks_last(seed):
    drawn = np.random.default_rng(seed)
    metrics = []
    for sign in (1, -1, 1):
        good = {name: by_unit(drawn.normal(0.5, 0.01, 4)) for name in ("a", "b")}
        worst = [max(sign * good[name][unit] for name in good) for unit in range(4)]
        noise = [0.001, 0.02, 5.0, 0.003]
        good["noisy"] = {unit: sign * (worst[unit] + noise[unit]) for unit in range(4)}
        told = [one for one in compare_strategies(good, sign) if "noisy" in (one.a, one.b)]
        assert not any(one.told_apart for one in told)
        metrics.append((good, sign))
    ranks = rank_in_every_unit(metrics)
    assert ranks["noisy"] == 3.0
    assert ranks["a"] + ranks["b"] == pytest.approx(3.0)


def test_ranks_are_shared_by_equals_and_need_everybody():
    first = {"a": {0: 1.0, 1: 1.0}, "b": {0: 1.0, 1: 2.0}}
    assert rank_in_every_unit([(first, 1)]) == {"a": 1.25, "b": 1.75}
    assert rank_in_every_unit([(first, -1)]) == {"a": 1.75, "b": 1.25}
    assert rank_in_every_unit([({**first, "c": {1: 0.5}}, 1)]) == {"a": 2.0, "b": 3.0, "c": 1.0}
    assert rank_in_every_unit([({**first, "c": {}}, 1)]) == {}
    assert rank_in_every_unit([]) == {}


def test_the_share_of_seeds_is_the_ratio_of_variances():
    seeds, tunings = [[0.9, 1.1]], [[0.8, 1.2], [8.0, 12.0]]
    assert Variation(seeds, tunings).share_of_seeds == pytest.approx(0.25)
    assert Variation(tunings, seeds).share_of_seeds == 1.0
    assert Variation([[1.0]], tunings).share_of_seeds is None
    assert Variation(seeds, [[1.0, 1.0]]).share_of_seeds is None
