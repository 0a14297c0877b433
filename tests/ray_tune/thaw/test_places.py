"""Where configs lie, as laws."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, sampled_from

from search_spaces import Choice, IntRange, LogRange, Range, Space
from tune_mtl.ray_tune.thaw.places import Places, share_of

NUMERIC = (Range(-2.0, 3.0), LogRange(1e-4, 1e-1), IntRange(1, 8), IntRange(1, 64, log=True), IntRange(3, 3))


@given(sampled_from(NUMERIC), floats(0, 1))
def test_shares_give_numbers_and_numbers_their_shares(dimension, share):
    value = dimension.at(share)
    found = share_of(dimension, value)
    assert 0 <= found <= 1
    if isinstance(dimension, Range):
        assert found == pytest.approx(share, abs=1e-9)
    elif dimension.low < dimension.high:
        assert abs(found - share) <= 1 / (2 if dimension.log else 7) + 1e-9


def test_a_choice_has_no_share():
    with pytest.raises(TypeError):
        share_of(Choice((1, 2)), 1)


SPACE = Space(
    name="s",
    strategies=("sus", "io"),
    dimensions={"lr": LogRange(1e-4, 1e-1), "optimizer": Choice(("adam", "sgd")), "adam_eps": LogRange(1e-9, 1e-3)},
    per_strategy={"io": {"groups": Choice((2, 4))}},
)


def test_a_dimension_that_a_config_does_not_have_is_the_same_for_all_such_configs():
    places = Places(SPACE, ("io",))
    with_sgd = places.of("io", {"lr": 1e-2, "optimizer": "sgd", "groups": 2})
    assert with_sgd == places.of("io", {"lr": 1e-2, "optimizer": "sgd", "groups": 2, "unknown": 3})
    assert with_sgd.codes != places.of("io", {"lr": 1e-2, "optimizer": "sgd", "groups": 4}).codes
    assert len(with_sgd.shares) == 2


def test_a_place_survives_json():
    places = Places(Space(name="s", strategies=("sus",), dimensions={"lr": Choice(((1, 2), (3, 4)))}), ("sus",))
    assert places.of("sus", {"lr": (3, 4)}) == places.of("sus", json.loads(json.dumps({"lr": (3, 4)})))


def test_strategies_share_the_draws_of_the_dimensions_that_they_share():
    found = {}
    for strategy in SPACE.strategies:
        places = Places(SPACE, (strategy,))
        seeds = {name: np.random.default_rng(sum(name.encode())) for name in places.dimensions}
        found[strategy] = list(places.drawn(seeds, 20))
    for (_, ours, _), (_, theirs, _) in zip(found["sus"], found["io"], strict=True):
        assert ours.items() <= theirs.items()
    shares = sorted(share_of(SPACE.dimensions["lr"], values["lr"]) for _, values, _ in found["sus"])
    assert all(index / 20 <= share <= (index + 1) / 20 for index, share in enumerate(shares))
    assert all(("adam_eps" in values) == (values["optimizer"] == "adam") for _, values, _ in found["sus"])


def test_where_strategies_are_searched_too_they_have_places_apart():
    places = Places(SPACE, SPACE.strategies)
    same = {"lr": 1e-2, "optimizer": "sgd"}
    assert places.of("sus", same).codes != places.of("io", same).codes
