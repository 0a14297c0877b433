"""How a search is measured: by what its choice is worth on average, not by the value that chose it."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.peers import FAIR, PEERS, POLICIES, story
from benchmarks.regret import JUDGES, Truth, epochs_to, regrets, settled
from benchmarks.stand_in import Epoch


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    """A table of two strategies at three learning rates with two seeds; io with 4 groups at 1e-2 is best: 0.2."""
    path = tmp_path_factory.mktemp("table") / "curves.jsonl"
    lines = []
    for name, groups, level in (("sus", 0, 2.0), ("io", 2, 1.5), ("io", 4, 1.0)):
        for lr, factor in ((1e-3, 4.0), (1e-2, 1.0), (1e-1, 9.0)):
            for seed, luck in ((0, 0.9), (1, 1.1)):
                curve = [0.2 * level * factor * luck * fall for fall in (3.0, 2.0, 1.5, 1.0)]
                lines.append(json.dumps({"key": [name, groups, lr, seed], "curve": curve, "outcome": "completed"}))
    path.write_text("\n".join(lines))
    return Truth(Table.read(path), ("sus", "io"))


@pytest.mark.parametrize(
    ("config", "regret", "own"),
    [
        ({"strategy": "io", "groups": 4, "lr": 1e-2}, 0.0, 0.0),
        ({"strategy": "io", "groups": 2, "lr": 1e-2}, 0.5, 0.5),
        ({"strategy": "sus", "lr": 1e-2}, 1.0, 0.0),
        ({"strategy": "sus", "lr": 1e-3}, 7.0, 3.0),
        ({"strategy": "io", "groups": 4, "lr": math.sqrt(1e-5)}, 1.0, 1.0),  # half-way: 2 = sqrt(4 x 1) times
    ],
)
def test_a_config_is_judged_by_its_mean_over_seeds(truth, config, regret, own):
    assert truth.regret(config) == pytest.approx(regret)
    assert truth.regret(config, config["strategy"]) == pytest.approx(own)


def test_the_grid_has_every_arm_at_six_rates(truth):
    assert truth.grid_epochs == 3 * 6 * 4


def test_a_lucky_value_chooses_and_is_not_believed(truth):
    lucky, good = {"strategy": "sus", "lr": 1e-2}, {"strategy": "io", "groups": 4, "lr": 1e-2}
    told = [Epoch("a", good, 1, 0.5), Epoch("b", lucky, 1, 0.1), Epoch("a", good, 2, 0.3), Epoch("a", good, 3, 0.05)]
    assert regrets(truth, told) == pytest.approx([0.0, 1.0, 1.0, 0.0])
    assert regrets(truth, told, among="sus") == pytest.approx([math.inf, 0.0, 0.0, 0.0])
    curve = regrets(truth, told)
    assert (epochs_to(curve, 0.05, 4), settled(curve, 0.05, 4)) == (1, 4)
    assert settled(curve[:3], 0.05, 4) == math.inf
    assert epochs_to(np.array([1.0, 0.2]), 0.05, 4) == math.inf


def test_values_of_epochs_are_judged_as_asked():
    values = [3.0, 1.0, 2.0]
    assert (JUDGES["best"](values), JUDGES["last"](values)) == (1.0, 2.0)
    assert JUDGES["smoothed"](values) == pytest.approx(math.sqrt(3.0))
    assert JUDGES["smoothed"]([*values, 1.0, 1.0]) == pytest.approx(2.0 ** (1 / 3))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_tells_epochs_in_order_and_is_the_same_each_time(truth, policy):
    def told(seed):
        world = World(truth.table, {name: Contestant(name) for name in truth.strategies}, seed=seed)
        return story(policy, world, seed, truth.grid_epochs)

    found = told(3)
    assert 16 <= len(found) <= truth.grid_epochs
    reached = dict.fromkeys((one.trial for one in found), 0)
    for one in found:
        reached[one.trial] += 1
        assert one.epoch == reached[one.trial] <= truth.table.epochs
    assert [(one.trial, one.value) for one in found] == [(one.trial, one.value) for one in told(3)]
    others = [told(seed) for seed in (4, 5, 6)]
    assert [one.value for one in found] != [one.value for one in others[0]]
    curves = [regrets(truth, its) for its in (found, *others)]
    assert sum(curve[-1] for curve in curves) < sum(curve[0] for curve in curves)


@pytest.mark.parametrize("policy", ["thaw", *PEERS])
def test_a_fair_policy_gives_every_strategy_as_many_epochs(truth, policy):
    world = World(truth.table, {name: Contestant(name) for name in truth.strategies}, seed=3)
    spent = dict.fromkeys(truth.strategies, 0)
    assert policy in FAIR
    for one in story(policy, world, 3, truth.grid_epochs):
        spent[one.config["strategy"]] += 1
        whole_grid = spent["sus"] >= 24  # six rates; io has groups besides, and goes on
        assert whole_grid or abs(spent["sus"] - spent["io"]) <= 2  # two trials at once
    assert min(spent.values()) >= 16


def test_a_free_policy_may_give_one_strategy_more(truth):
    world = World(truth.table, {name: Contestant(name) for name in truth.strategies}, seed=3)
    found = Counter(one.config["strategy"] for one in story("thaw, free", world, 3, truth.grid_epochs))
    assert found["io"] > found["sus"] + 2
