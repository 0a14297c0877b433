"""Spaces as stock Ray Tune has them, and the trainables under a stock tuner."""

import pytest
from ray import tune
from ray.tune.search.sample import Categorical, Float, Integer

from search_spaces import Choice, IntRange, LogRange, Range, Space
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.training.config import resolve

SPACE = Space(
    name="mine",
    strategies=("sus", "io"),
    dimensions={"lr": LogRange(1e-4, 1e-1), "batch_size": Choice((8, 16)), "adam_eps": Range(1e-8, 1e-6)},
    per_strategy={"io": {"groups": IntRange(1, 3), "optimizer": Choice(("adam",))}},
)


def test_every_dimension_has_its_counterpart():
    drawn = SPACE.to_ray("io")
    assert drawn["strategy"] == "io"
    assert drawn["optimizer"] == "adam"  # nothing to choose
    assert drawn["seed"] == 0
    assert isinstance(drawn["lr"], Float)
    assert isinstance(drawn["lr"].get_sampler(), tune.search.sample.LogUniform)
    assert isinstance(drawn["batch_size"], Categorical)
    assert isinstance(drawn["groups"], Integer)
    assert {drawn["groups"].sample() for _ in range(60)} == {1, 2, 3}
    assert "groups" not in SPACE.to_ray("sus")
    with pytest.raises(UserError, match="unknown strategy 'iq'"):
        SPACE.to_ray("iq")


def test_what_ray_draws_is_a_config():
    drawn = {key: value.sample() if hasattr(value, "sample") else value for key, value in SPACE.to_ray("io").items()}
    config = resolve(toy_problem(), drawn)
    assert 1e-4 <= config.lr <= 1e-1
    assert config.groups in (1, 2, 3)


def test_keys_of_a_mapping_stay_together():
    space = Space(
        name="w",
        strategies=("scalar",),
        dimensions={"lr": LogRange(1e-3, 1e-2)},
        per_strategy={"scalar": {"scalar_weights.t0": LogRange(0.1, 10.0)}},
    )
    assert list(space.to_ray("scalar")["scalar_weights"]) == ["t0"]
