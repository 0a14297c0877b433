"""What a verdict costs by design: tunings that spend what they may, and looks that hold their level."""

import json
import math

import numpy as np
import pytest

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.designs import CHOICES, Design, Tunings, decided, replayed
from benchmarks.replay import LEARNING_RATES
from benchmarks.verdicts import Match

MATCH = Match({"sus": Contestant("sus"), "io": Contestant("io")}, LEARNING_RATES)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of two strategies, of which io with 4 groups at 1e-2 is best, with a seed's luck of a tenth."""
    lines = []
    for name, groups, level in (("sus", 0, 2.0), ("io", 2, 1.5), ("io", 4, 1.0)):
        for lr, factor in ((1e-3, 4.0), (1e-2, 1.0), (1e-1, 9.0)):
            for seed, luck in ((0, 0.9), (1, 1.1)):
                curve = [0.2 * level * factor * luck * (1 + 2 / (1 + epoch)) for epoch in range(12)]
                lines.append(json.dumps({"key": [name, groups, lr, seed], "curve": curve, "test": curve[-1] * 1.1}))
    path = tmp_path_factory.mktemp("table") / "curves.jsonl"
    path.write_text("\n".join(lines))
    return Table.read(path)


def test_every_tuning_spends_what_it_may_and_chooses_one_of_its_own(table):
    found = Tunings(World(table, MATCH.contestants, seed=5), MATCH, Design(10), 2)
    for tuning in (("sus", 0), ("io", 0), ("sus", 1), ("io", 1)):
        assert found.spent(tuning) == 10
        for choose in CHOICES.values():
            chosen = choose(found, tuning)
            assert (chosen["strategy"], chosen["seed"]) == tuning
    assert 3e-3 < found.by_best_epoch(("io", 0))["lr"] < 3e-2


def test_values_are_of_fresh_seeds_and_the_same_each_time(table):
    found, spent = replayed(MATCH, table, Design(8), [1, 2, 3], 2)
    again, _ = replayed(MATCH, table, Design(8), [1, 2, 3], 2)
    assert spent == 8
    for choice, values in found.items():
        assert values.shape == (3, 2, 2)
        assert (values == again[choice]).all()
        assert len(np.unique(values)) > 6


@pytest.mark.parametrize("looks", [(4,), (3, 4, 5), (3, 4, 5, 6)])
def test_looks_find_nothing_in_normal_luck_more_often_than_stated(looks):
    luck = np.random.default_rng(3).standard_normal((4000, 6))
    assert decided(luck, looks)[0] == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 4000))


def test_who_differs_clearly_is_decided_at_the_first_looks():
    share, ended = decided(np.random.default_rng(3).standard_normal((400, 6)) + 8.0, (3, 4, 5, 6))
    assert share == 1.0
    assert ended < 3.5
