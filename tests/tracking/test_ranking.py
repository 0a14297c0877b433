"""Who is best, kept while runs come in: as looking at all of them at once would say."""

import statistics

from hypothesis import given
from hypothesis.strategies import floats, integers, lists, sampled_from, tuples

from tune_mtl import Objective
from tune_mtl.tracking.ranking import Ranking, read_winners, winners_text

runs = lists(
    tuples(sampled_from(["sus", "io"]), integers(0, 2), integers(0, 3), floats(0, 1)),
    unique_by=lambda run: run[:3],
    max_size=12,
)


@given(runs=runs, mode=sampled_from(["min", "max"]))
def test_winners_are_those_of_the_mean_over_seeds(runs, mode):
    ranking = Ranking(Objective("val/loss", mode))
    for index, (strategy, lr, seed, value) in enumerate(runs):
        ranking.add(f"{index:04d}", f"run{index}", {"strategy": strategy, "lr": lr, "seed": seed}, value)
    winners = ranking.winners()
    assert winners.keys() == {strategy for strategy, *_ in runs}
    choose = min if mode == "min" else max
    for strategy, winner in winners.items():
        configs: dict[int, list[float]] = {}
        for name, lr, _, value in runs:
            if name == strategy:
                configs.setdefault(lr, []).append(value)
        most = max(map(len, configs.values()))
        best = choose(statistics.fmean(values) for values in configs.values() if len(values) == most)
        assert winner.value == best
        assert winner.seeds == most
        chosen = runs[int(winner.run_id.removeprefix("run"))]
        assert statistics.fmean(configs[chosen[1]]) == best
        assert chosen[3] == choose(configs[chosen[1]])
    values = [winner.value for winner in winners.values()]
    assert values == sorted(values, reverse=mode == "max")
    assert read_winners(winners_text(winners)) == winners


def test_a_trial_that_was_redone_counts_no_more():
    ranking = Ranking(Objective())
    ranking.add("0000", "old", {"strategy": "io", "lr": 1, "seed": 0}, 0.1)
    ranking.remove("0000")
    assert ranking.winners() == {}
    ranking.add("0000", "new", {"strategy": "io", "lr": 2, "seed": 0}, 0.5)
    assert ranking.winners()["io"].run_id == "new"
