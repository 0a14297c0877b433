"""Values of any objective become levels of which less is better, whatever they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists, sampled_from

from tune_mtl.ray_tune.thaw.levels import WORST, levels

VALUES = lists(floats(-100, 100), min_size=2, max_size=20).filter(lambda values: np.ptp(values) > 1e-3)


@given(VALUES, sampled_from(["min", "max"]))
def test_levels_have_the_order_of_values(values, mode):
    found = levels(values, mode, [False] * len(values))
    order = np.argsort(values if mode == "min" else np.negative(values), kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert np.isfinite(found).all()
    assert np.ptp(found) <= WORST + 1e-9


@given(lists(floats(1e-3, 10), min_size=2, max_size=20), floats(0.01, 100))
def test_the_unit_of_a_loss_does_not_matter(values, unit):
    none = [False] * len(values)
    ours, theirs = levels(values, "min", none), levels([value * unit for value in values], "min", none)
    assert theirs - ours == pytest.approx(np.log(unit), abs=1e-6)


def test_what_diverged_or_is_undefined_is_at_the_worst_level():
    found = levels([0.1, 5.0, np.nan, np.inf, 0.05], "min", [False, False, False, False, True])
    assert found == pytest.approx(np.log(0.1) + np.array([0, WORST, WORST, WORST, WORST]))


@pytest.mark.parametrize(
    ("values", "mode"), [([], "min"), ([np.nan], "min"), ([-1.0, -1.0], "min"), ([0.5, 0.5], "max")]
)
def test_where_there_is_nothing_to_compare_it_says_so(values, mode):
    with pytest.raises(np.linalg.LinAlgError):
        levels(values, mode, [False] * len(values))
