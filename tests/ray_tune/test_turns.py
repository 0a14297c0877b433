"""The turns of trials and the seeds of replicates, as laws."""

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis.strategies import booleans, composite, integers, lists, sampled_from

from search_spaces import Choice, LogRange, Space
from tune_mtl.ray_tune.turns import (
    Growth,
    equal_shares,
    fresh_seeds,
    grid_turns,
    guided_turns,
    interleaved_grid,
)

NAMES = ("sus", "ius", "io", "stl", "adatask")


def space_of(strategies, **more) -> Space:
    return Space(name="s", strategies=tuple(strategies), dimensions={"lr": LogRange(1e-4, 1.0)}, **more)


@composite
def growing(draw):
    """A space, its trials and replicates, and what is added: trials in all tunings, or replicates of some."""
    strategies = NAMES[: draw(integers(1, 5))]
    replicates = draw(integers(1, 6))
    samples = draw(integers(len(strategies) * replicates, 60))
    grown, so_far = [], replicates
    for _ in range(draw(integers(0, 3))):
        added = draw(integers(1, 4))
        some = tuple(name for name in strategies if draw(booleans())) or strategies
        its = tuple(range(so_far, so_far + added))
        grown.append(Growth(replicates=its, strategies=some, trials=added * len(some) * draw(integers(1, 4))))
        so_far += added
    return space_of(strategies), samples, replicates, tuple(grown)


@given(growing())
def test_a_guided_search_has_all_trials_asked_for_and_tunings_have_as_many_within_one(drawn):
    space, samples, replicates, grown = drawn
    turns = guided_turns(space, samples, replicates, grown, balanced=True)
    assert len(turns) == samples + sum(growth.trials for growth in grown)
    first = Counter((turn.strategy, turn.replicate) for turn in turns if turn.replicate < replicates)
    assert len(first) == len(space.strategies) * replicates
    assert max(first.values()) - min(first.values()) <= 1
    for growth in grown:
        its = Counter((turn.strategy, turn.replicate) for turn in turns if turn.replicate in growth.replicates)
        assert set(its) == {(name, replicate) for name in growth.strategies for replicate in growth.replicates}
        assert len(set(its.values())) == 1


@given(growing())
def test_strategies_alternate_within_a_replicate_and_replicates_follow_each_other(drawn):
    space, samples, replicates, grown = drawn
    turns = guided_turns(space, samples, replicates, grown, balanced=True)
    order = [replicate for replicate, _ in groupby(turn.replicate for turn in turns)]
    assert order == sorted(set(order))
    for replicate in order:
        names = [turn.strategy for turn in turns if turn.replicate == replicate]
        period = len(set(names))
        assert all(first == second for first, second in zip(names, names[period:], strict=False))
        assert len(set(names[:period])) == period


@given(growing(), lists(integers(1, 20), max_size=4))
def test_growth_keeps_what_was_and_goes_on_with_whose_turn_it_is(drawn, more):
    space, samples, replicates, grown = drawn
    before = guided_turns(space, samples, replicates, grown, balanced=True)
    added = tuple(Growth(replicates=(0,), strategies=space.strategies, trials=count) for count in more)
    after = guided_turns(space, samples, replicates, grown + added, balanced=True)
    assert after[: len(before)] == before
    spent = Counter(turn.strategy for turn in after if turn.replicate == 0)
    assert max(spent.values()) - min(spent.values()) <= 1


@given(growing())
def test_without_balance_nobody_has_a_turn_of_its_own(drawn):
    space, samples, *_ = drawn
    turns = guided_turns(space, samples, 1, balanced=False)
    assert {(turn.strategy, turn.replicate) for turn in turns} == {(None, 0)}
    assert len(turns) == samples


@given(
    strategies=integers(1, 3),
    seeds=lists(integers(0, 50), min_size=1, max_size=4, unique=True),
    some=sampled_from([None, 1, 5, 1000]),
)
def test_a_grid_is_tried_on_the_seed_of_every_replicate(strategies, seeds, some):
    space = space_of(NAMES[:strategies], per_strategy={"ius": {"groups": Choice((2, 4))}})
    by_replicate = dict(enumerate(seeds))
    turns = grid_turns(space, some, by_replicate)
    whole = interleaved_grid(space_of(space.strategies, per_strategy=space.per_strategy, seeds=tuple(seeds)))
    assert [turn.config for turn in turns] == whole[:some]
    assert all(turn.config["seed"] == by_replicate[turn.replicate] for turn in turns)
    assert all(turn.config["strategy"] == turn.strategy for turn in turns)
    if some is None:
        counts = Counter((turn.strategy, turn.replicate) for turn in turns)
        assert all(counts[name, index] == counts[name, 0] for name in space.strategies for index in by_replicate)


def test_a_grown_grid_has_the_new_replicates_of_those_that_are_left():
    space = space_of(NAMES[:3])
    seeds = {0: 0, 1: 1, 2: 2, 3: 3}
    before = grid_turns(space, None, {0: 0, 1: 1})
    after = grid_turns(space, None, seeds, [Growth(replicates=(2, 3), strategies=("sus", "io"))])
    assert after[: len(before)] == before
    added = Counter((turn.strategy, turn.replicate, turn.config["seed"]) for turn in after[len(before) :])
    assert added == {(name, index, index): 13 for name in ("sus", "io") for index in (2, 3)}


@given(total=integers(0, 500), parts=integers(1, 40))
def test_equal_shares_are_whole_and_differ_by_at_most_one(total, parts):
    shares = list(equal_shares(total, parts))
    assert (len(shares), sum(shares)) == (parts, total)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


@given(
    training=lists(integers(0, 5000), min_size=1, max_size=30, unique=True)
    | integers(0, 2**31).flatmap(lambda seed: integers(1, 100).map(lambda count: list(range(seed, seed + count)))),
    count=integers(1, 12),
)
def test_no_seed_is_both_trained_and_fresh_and_none_is_fresh_twice(training, count):
    found = fresh_seeds(training, count)
    every = [seed for seeds in found.values() for seed in seeds]
    assert list(found) == training
    assert len(set(every)) == len(every) == count * len(training)
    assert not set(every) & set(training)


@given(seed=integers(0, 2**31), first=integers(2, 50), more=integers(0, 50), count=integers(1, 5))
def test_replicates_and_seeds_that_are_added_leave_the_fresh_seeds_of_others_as_they_were(seed, first, more, count):
    before = fresh_seeds(range(seed, seed + first), count)
    after = fresh_seeds(range(seed, seed + first + more), count + 1)
    assert all(after[key][:count] == before[key] for key in before)
