"""Cosines, conflicts and spreads against a few lines that compute them from the gradients themselves."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import floats, integers

from tune_mtl.training.diagnosis.agreement import Agreement, as_lists


def agreement(*gradients, weights=None):
    rows = torch.tensor(gradients, dtype=torch.float64)
    ones = torch.ones(len(rows), dtype=torch.float64)
    return Agreement.of(rows @ rows.T, ones if weights is None else torch.tensor(weights, dtype=torch.float64))


def test_what_can_be_computed_by_hand():
    seen = agreement([3.0, 0.0], [0.0, 4.0], [-5.0, 0.0], [1.0, 1.0])
    half = math.sqrt(0.5)
    expected = [[0.0, -1.0, half], [0.0, 0.0, half], [-1.0, 0.0, -half], [half, half, -half]]
    found = [[value for value in row if not math.isnan(value)] for row in seen.cosines.tolist()]
    assert np.allclose(found, expected)
    assert all(math.isnan(value) for value in seen.cosines.diagonal().tolist())
    assert seen.conflict_share == pytest.approx(2 / 6)
    assert seen.mean_cosine == pytest.approx((-1 + half) / 6)
    assert seen.norm_spread == pytest.approx(5 / math.sqrt(2))
    norms = [3, 4, 5, math.sqrt(2)]
    assert seen.norm_variation == pytest.approx(np.std(norms) / np.mean(norms))


@given(arrays(np.float64, (5, 7), elements=floats(-10, 10).filter(lambda x: x == 0 or abs(x) > 1e-3)), integers(0, 4))
def test_numbers_equal_their_definitions_and_what_has_no_direction_is_left_out(rows, lost):
    rows[lost] = 0
    directed = [row for row in rows if np.any(row)]
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in combinations(directed, 2)]
    seen = agreement(*rows.tolist())
    if cosines:
        clear = [cosine for cosine in cosines if abs(cosine) > 1e-12]  # whether 1e-17 is a conflict is rounding's
        share = seen.conflict_share * len(cosines)
        assert sum(cosine < 0 for cosine in clear) <= round(share) <= len(cosines) - sum(cosine > 0 for cosine in clear)
        assert seen.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-9)
    else:
        assert math.isnan(seen.conflict_share)
        assert math.isnan(seen.mean_cosine)
    norms = [np.linalg.norm(row) for row in directed]
    if norms:
        assert seen.norm_spread == pytest.approx(max(norms) / min(norms))
        assert seen.norm_variation == pytest.approx(np.std(norms) / np.mean(norms), abs=1e-9)
    else:
        assert math.isnan(seen.norm_spread)


def test_weights_of_tasks_scale_norms_but_turn_no_gradient():
    plain, weighted = agreement([1.0, 0.0], [1.0, 1.0]), agreement([1.0, 0.0], [1.0, 1.0], weights=[4.0, 0.0])
    assert torch.equal(plain.cosines.nan_to_num(9), weighted.cosines.nan_to_num(9))
    assert weighted.norms.nan_to_num(-1).tolist() == [4.0, -1.0]
    assert weighted.norm_spread == 1.0


def test_what_is_not_finite_is_left_out():
    gramian = torch.tensor([[1.0, -0.5, math.nan], [-0.5, 1.0, math.inf], [math.nan, math.inf, math.inf]]).double()
    seen = Agreement.of(gramian, torch.ones(3).double())
    assert (seen.conflict_share, seen.mean_cosine, seen.norm_spread) == (1.0, -0.5, 1.0)
    assert as_lists(seen.cosines) == [[None, -0.5, None], [-0.5, None, None], [None, None, None]]
