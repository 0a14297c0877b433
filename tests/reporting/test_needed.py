"""How many units would tell: the power that is promised is the power that tests have, by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers
from scipy import stats

from tune_mtl.reporting.claims import Part, together
from tune_mtl.reporting.statistics.comparison import compare_strategies
from tune_mtl.reporting.statistics.needed import MOST_UNITS, Effect, units_to_tell
from tune_mtl.reporting.statistics.significance import Sample, larger

RUNS = 4000
SLACK = 4 * math.sqrt(0.8 * 0.2 / RUNS)
"""Four standard errors of a share of so many simulated runs."""


def shown(effect, units, seed=0):
    """The share of simulated searches whose paired t-test shows the effect in its own direction."""
    drawn = np.random.default_rng(seed).normal(effect.mean, effect.deviation, (RUNS, units))
    found = stats.ttest_1samp(drawn, 0.0, axis=1)
    p = found.pvalue if effect.sides == 2 else stats.t.sf(found.statistic, units - 1)
    return float(np.mean((p < effect.level) & (found.statistic > 0)))


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("mean", [0.5, 1.0, 3.0])
def test_so_many_pairs_show_the_effect_and_one_less_does_not(mean, sides):
    effect = Effect(mean, 1.0, sides)
    units = effect.units()
    assert shown(effect, units) >= 0.8 - SLACK
    if units > 2:
        assert shown(effect, units - 1) < 0.8 + SLACK
        assert effect.power(units - 1) < 0.8 <= effect.power(units)


def test_so_many_units_of_each_side_show_a_difference_of_independent_samples():
    less, more = Sample(0.1, 0.02, 3), Sample(0.2, 0.08, 3)
    units = Effect.between(less, more).units()
    rng = np.random.default_rng(1)
    drawn = [rng.normal(one.mean, one.deviation, (RUNS, units)) for one in (less, more)]
    share = np.mean(stats.ttest_ind(*drawn, axis=1, equal_var=False).pvalue < 0.05)
    assert 0.8 - SLACK <= share < 0.8 + 0.1


def test_a_claim_of_several_parts_holds_with_the_promised_chance():
    truth = [Effect(1.0, 0.6), Effect(0.8, 0.7), Effect(1.2, 0.5)]
    units = units_to_tell(truth)
    rng, held = np.random.default_rng(2), 0
    runs = 300
    for _ in range(runs):
        parts = []
        for effect in truth:
            drawn = rng.normal(effect.mean, effect.deviation, units)
            (gap,) = compare_strategies({"a": dict.fromkeys(range(units), 0.0), "b": dict(enumerate(drawn))})
            gap = gap.of("a")
            parts.append(Part("", *((gap.p, 1.0) if gap.difference > 0 else (1.0, gap.p))))
        held += together("claim", parts).verdict == "holds"
    assert held / runs >= 0.8 - 4 * math.sqrt(0.8 * 0.2 / runs)


def test_a_claim_with_a_part_the_other_way_round_is_refuted_with_the_promised_chance():
    truth = [Effect(1.0, 1.0, 1), Effect(-0.7, 0.6, 1)]
    units = units_to_tell(truth)
    rng, refuted = np.random.default_rng(3), 0
    runs = 300
    for _ in range(runs):
        parts = []
        for effect in truth:
            ratios = np.exp(rng.normal(effect.mean, effect.deviation, units))
            ones = [1.0] * units
            parts.append(Part("", larger(ones, list(ratios)), larger(list(ratios), ones)))
        refuted += together("claim", parts).verdict == "does not hold"
    assert refuted / runs >= 0.8 - 4 * math.sqrt(0.8 * 0.2 / runs)


@given(mean=floats(0.05, 5), deviation=floats(0.05, 5), units=integers(2, 200))
def test_more_units_and_larger_effects_never_have_less_power(mean, deviation, units):
    effect = Effect(mean, deviation)
    power = effect.power(units)
    assert 0 <= power <= 1
    assert effect.power(units + 1) >= power - 1e-9
    assert Effect(1.1 * mean, deviation).power(units) >= power - 1e-9
    assert Effect(-mean, deviation).power(units) == power


def test_what_nobody_can_tell_has_an_end():
    assert Effect(0.0, 1.0).units() == MOST_UNITS + 1
    assert Effect(1e-6, 1.0).units() == MOST_UNITS + 1
    assert Effect(1.0, 0.0).units() == 2
    assert Effect(0.0, 0.0).units() == MOST_UNITS + 1
    assert units_to_tell([Effect(1.0, 0.1), None]) is None
    assert units_to_tell([]) is None
    assert Effect.paired([1.0]) is None
    assert Effect.between(Sample.of([1.0]), Sample.of([1.0, 2.0])) is None


def test_an_undecided_claim_asks_for_more_units_than_it_had():
    rng = np.random.default_rng(4)
    for _ in range(200):
        found = rng.normal(0.5, 1.0, 4)
        (gap,) = compare_strategies({"a": dict.fromkeys(range(4), 0.0), "b": dict(enumerate(found))})
        gap = gap.of("a")
        assert gap.deviation == pytest.approx(np.std(found, ddof=1), rel=1e-6)
        if gap.p >= 0.05:
            assert Effect(gap.difference, gap.deviation).units() > 4
