"""Who is best, kept while runs come in: as looking at all of them at once would say."""

import statistics

from hypothesis import example, given
from hypothesis.strategies import floats, integers, lists, none, sampled_from, tuples

from tune_mtl import Objective
from tune_mtl.tracking.ranking import Ranking, Winner, read_winners, winners_text

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


def looked_at_all(configs, objective):
    """Who wins among ``{(strategy, lr): {trial: (run, value)}}``, in the order of the configs' first runs."""
    found = {}
    for (strategy, _), ran in configs.items():
        most = max(len(others) for (other, _), others in configs.items() if other == strategy)
        mean = statistics.fmean(value for _, value in ran.values()) if ran else None
        if ran and len(ran) == most:
            held = found.get(strategy)
            if objective.better(mean, held and held.value):
                best = None
                for trial in sorted(ran):
                    if objective.better(ran[trial][1], best and best[1]):
                        best = ran[trial]
                found[strategy] = Winner(best[0], mean, len(ran))
    return sorted(found.items(), key=lambda item: item[1].value * (1 if objective.mode == "min" else -1))


told = lists(
    tuples(integers(0, 7), sampled_from(["sus", "io"]), integers(0, 2), none() | sampled_from([0.25, 0.5, 0.75])),
    max_size=30,
)


# of two strategies that are equal, the one whose config came first leads, also if that was the last to get its seeds
@example(
    told=[(0, "io", 0, 0.5), (1, "sus", 0, 0.5), (2, "io", 1, 0.5), (3, "io", 1, 0.75), (4, "io", 0, 0.5)], mode="min"
)
@given(told=told, mode=sampled_from(["min", "max"]))
def test_after_every_word_it_is_as_a_look_at_all_would_say(told, mode):
    """Runs come, come again with another value or another config, and go; means that are equal are common here."""
    objective = Objective("val/loss", mode)
    ranking, configs = Ranking(objective), {}
    for index, (number, strategy, lr, value) in enumerate(told):
        trial = f"{number:04d}"
        for config, ran in configs.items():
            if value is None or config != (strategy, lr):
                ran.pop(trial, None)
        if value is None:
            ranking.remove(trial)
        else:
            configs.setdefault((strategy, lr), {})[trial] = (f"run{index}", value)
            ranking.add(trial, f"run{index}", {"strategy": strategy, "lr": lr, "seed": number}, value)
        assert list(ranking.winners().items()) == looked_at_all(configs, objective)
