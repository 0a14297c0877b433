"""What a verdict may never do, and what it must be able to do: hundreds of searches replayed on recorded curves.

The long form, with all designs, is `benchmarks/verdicts.py`; its tables are in docs/statistics.md.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.replay import AUTO, Design, replay
from benchmarks.verdicts import (
    TABLE,
    Match,
    Shares,
    any_significant,
    null_matches,
)

ALPHA, SEARCHES = 0.05, 400
BOUND = ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / SEARCHES)
"""A share that a true error of 5 % exceeds in one of forty checks; the searches are the same every time."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def table():
    return Table.read(TABLE)


@pytest.fixture(scope="module")
def shares():
    with ProcessPoolExecutor(1) as pool:
        yield Shares(TABLE, SEARCHES, pool)


@pytest.mark.parametrize(
    "equal",
    [
        "one under two names",
        "best rates 3x apart",
        "best rates 10x apart",
        "seeds' luck 3x larger",
        "one under four names",
    ],
)
def test_equally_good_strategies_are_told_apart_no_more_often_than_stated(equal, table, shares):
    assert shares.of(null_matches(table)[equal], Design()) <= BOUND


@pytest.mark.parametrize("design", [Design(replicates=3), Design(trials=8, replicates=3), AUTO])
def test_so_they_are_at_other_budgets(design, table, shares):
    assert shares.of(null_matches(table)["one under two names"], design) <= BOUND


THAW = Design(scheduler="thaw", trials=8, replicates=4)


def test_so_they_are_where_trials_pause(table, shares):
    few = replace(shares, searches=60)
    bound = ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / few.searches)
    assert few.of(null_matches(table)["one under two names"], THAW) <= bound


def test_sus_and_io_are_told_apart_with_half_the_replicates_where_trials_pause(shares):
    few = replace(shares, searches=20)
    assert few.of(Match({name: Contestant(name) for name in ("sus", "io")}), THAW) >= 0.6


def test_a_search_with_one_tuning_of_each_never_tells_strategies_apart(shares):
    once = Design(replicates=1, trials=8, fresh=3)
    few = replace(shares, searches=50)
    real = Match({name: Contestant(name) for name in ("sus", "io")})
    assert few.of(real, once, any_significant) > 0.5
    assert few.of(real, once) == 0


def test_sus_and_io_are_told_apart_at_the_default_budget(shares):
    few = replace(shares, searches=200)
    assert few.of(Match({name: Contestant(name) for name in ("sus", "io")}), Design()) >= 0.8


def test_without_replication_or_common_draws_they_are(table, shares):
    nulls = null_matches(table)
    once = Design(replicates=1, trials=8, fresh=3)
    few = replace(shares, searches=200)
    bound = ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / few.searches)
    assert few.of(nulls["best rates 3x apart"], once, any_significant) > bound  # one tuning of each
    assert few.of(nulls["one under two names"], replace(once, common_draws=False), any_significant) > bound


def test_a_replay_is_the_same_every_time(table):
    contestants = {"sus": Contestant("sus"), "io": Contestant("io")}
    first, second, other = (replay(World(table, contestants, seed=seed), Design(replicates=3)) for seed in (5, 5, 6))
    values = [{name: found.results.units(name, "loss") for name in contestants} for found in (first, second, other)]
    assert values[0] == values[1] != values[2]
    assert first.epochs == second.epochs


def test_recorded_curves_come_back_at_recorded_rates(table):
    arm = table.arms["sus", 0]
    lr = math.exp(float(arm.rates[6]))
    found = {
        World(table, {"sus": Contestant("sus")}, seed=seed).run({"strategy": "sus", "lr": lr, "seed": 0})[1]
        for seed in range(60)
    }
    best = math.exp(float(arm.means[6].min()))
    assert min(found) < best < max(found)
    assert all(abs(math.log(value / best)) < 0.5 for value in found)
    assert len(found) == 9  # three seeds at each of the three nearest learning rates
