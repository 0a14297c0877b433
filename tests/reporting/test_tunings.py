"""What is said of strategies whose tuning was repeated, and what is not."""

import statistics

import pytest

from tests.reporting.stories import Imagined, fresh_seed, repeated, replicated
from tune_mtl.reporting.answer import answer
from tune_mtl.reporting.claims import Findings, check_claims
from tune_mtl.reporting.results import Results, equal_updates, poorly_tuned
from tune_mtl.reporting.statistics.comparison import Looks
from tune_mtl.reporting.tables.contents import path_table, quality_table, search_table, tunings_table, updates_table
from tune_mtl.reporting.write import tables_of
from tune_mtl.tracking import names

TEN = ("io", "ius", "sus", "uw", "dwa", "rlw", "gradnorm", "pcgrad", "mgda_ub", "mine")


def answered(story):
    search = story.search()
    results = Results.of(search)
    return answer(results), results


def test_strategies_are_told_apart_by_their_tunings():
    said, results = answered(replicated(repeated({"io": 0.3, "ius": 0.4, "sus": 0.5})))
    assert said.headline == "io is best (of io, ius, sus). Its best config: learning rate 0.01."
    assert "0.3000 ± 0.0043 over 5 tunings of 2 trials each, every choice trained anew on a fresh seed." in str(said)
    assert "Next is ius, 0.100 worse (95 % interval 0.089 to 0.111; p = 1.7e-05, corrected)." in str(said)
    assert "It is told apart from every other (t-test of the differences, paired by tuning, corrected for 3" in str(
        said
    )
    assert "would have been shown" not in str(said)
    assert all(one.told_apart for one in results.comparisons())
    assert results.units("io", "loss").keys() == set(range(5))


def test_a_difference_that_may_be_chance_is_not_said_to_be_one():
    said, results = answered(replicated(repeated({"io": 0.30, "ius": 0.31, "sus": 0.5})))
    assert said.headline.startswith("io is best on average (of io, ius, sus), but not told apart from ius.")
    assert "It is told apart from sus, which is worse (" in str(said)
    one = results.against("io")["ius"]
    assert one.detectable > one.difference
    assert f"a difference of {one.detectable:.3f} would have been shown with a chance of 80 %" in str(said)


def test_the_sentence_follows_the_sign():
    """Best on validation, another better on test, and no test tells the two apart."""
    reached = {"io": [0.30, 0.31, 0.29, 0.30], "sus": [0.40, 0.41, 0.39, 0.40]}
    tested = {"io": [0.513, 0.553, 0.493, 0.493], "sus": [0.50, 0.50, 0.50, 0.50]}
    said, results = answered(replicated(reached, tested=tested))
    assert results.against("io")["sus"].difference == pytest.approx(-0.013)
    assert said.headline.startswith("io is best on average (of io, sus), but not told apart from sus.")
    assert "Next is sus, 0.013 better (95 % interval -0.0" in str(said)


def test_a_winner_that_test_contradicts_is_said_to_be_one():
    reached = repeated({"io": 0.3, "sus": 0.4})
    said, _ = answered(replicated(reached, tested={"io": reached["sus"], "sus": reached["io"]}))
    assert said.headline.startswith("io is best on validation (of io, sus), but on test sus is better.")


def test_the_best_single_trial_of_another_strategy_is_explained():
    story = replicated({"io": [0.30, 0.31, 0.32], "sus": [0.40, 0.10, 0.41]})
    story.rerun("sus", fresh_seed(1), 0.42, replicate=1)  # what the lucky choice reaches on its fresh seed
    said, _ = answered(story)
    assert said.headline.startswith("io ")
    assert "The best single trial was one of sus (val/loss 0.1), picked from many; on fresh seeds sus is not" in str(
        said
    )
    assert "single trial" not in str(answered(replicated(repeated({"io": 0.3, "sus": 0.4})))[0])


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-9])
def test_a_difference_is_never_printed_as_nothing(gap):
    said, _ = answered(replicated({"io": [0.3, 0.5, 0.2, 0.4], "sus": [0.5 + 4 * gap, 0.2, 0.3, 0.4]}))
    (size,) = [words.split()[0] for words in str(said).split("Next is sus, ")[1:]]
    assert float(size) == pytest.approx(gap, rel=0.5)


def test_equal_strategies_are_as_good():
    said, _ = answered(replicated({"io": [0.3, 0.31, 0.29], "sus": [0.3, 0.31, 0.29]}))
    assert "Next is sus, as good (95 % interval 0 to 0; p = 1, corrected)." in str(said)
    assert "a difference of 0 would" not in str(said)


def test_the_share_of_seeds_is_said_where_it_is_known():
    told = {"io": {"lr": 0.02}, "sus": {"lr": 0.02}}
    story = replicated(repeated({"io": 0.3, "sus": 0.4}, noise=0.02), told=told)
    story.tags[names.COMMON_LR] = "0.005"
    assert "variance between tunings" not in str(answered(story)[0])
    for replicate, noise in enumerate((-0.01, 0.01)):
        for strategy in ("io", "sus"):
            story.rerun(
                strategy, fresh_seed(replicate), 0.5 + noise, role=names.COMMON_PATH, lr=0.005, replicate=replicate
            )
    said, results = answered(story)
    of_seeds = statistics.variance([0.98, 1.02])
    reached = [results.values(name, "loss") for name in ("io", "sus")]
    of_tunings = statistics.fmean(statistics.variance(x / statistics.fmean(found) for x in found) for found in reached)
    assert f"about {100 * of_seeds / of_tunings:.0f} % is that of training seeds, the rest that of what" in str(said)


def test_who_lost_a_tuning_is_not_said_to_be_better():
    reached = repeated({"io": 0.3, "sus": 0.5})
    reached["io"][2] = None
    said, results = answered(replicated(reached))
    (one,) = results.comparisons()
    assert one.significant
    assert not one.told_apart
    assert said.headline.startswith("io is best on average (of io, sus), but not told apart from sus.")
    assert "io has no result in 1 replicate: the others may flatter it, so it is not said to be better" in str(said)
    assert "It is told apart" not in str(said)
    assert "would have been shown" not in str(said)
    assert any("In 1 of 5 replicates io has no result" in text for text in said.missing)
    assert claims_of(results)[2] == "cannot tell"


def test_who_lost_a_tuning_may_be_said_to_be_worse():
    reached = repeated({"io": 0.3, "sus": 0.5})
    reached["sus"][2] = None
    said, results = answered(replicated(reached))
    assert [one.told_apart for one in results.comparisons()] == [True]
    assert said.headline.startswith("io is best (of io, sus).")
    assert claims_of(results)[2] == "holds"


def test_lost_tunings_flatter_by_the_mean_too():
    """Its mean is the worse one, since it lost the easy replicate; where both have results it is always better."""
    reached = {"io": [0.10, 0.50, 0.51, 0.52], "sus": [None, 0.40, 0.42, 0.415]}
    _, results = answered(replicated(reached))
    (one,) = results.comparisons()
    assert one.a == "io"
    assert one.difference < 0
    assert one.significant
    assert not one.told_apart


def claims_of(results):
    return [claim.verdict for claim in check_claims([Findings(results.search, results)])]


def test_a_replicate_that_was_cut_does_not_count():
    story = replicated(repeated({"io": 0.3, "sus": 0.5}, 4))
    story.settings["time_budget"] = 60.0
    story.facts["total"] = 20
    story.trial("io", 0.01, replicate=4, seed=4)
    story.trial("io", 0.02, lr=0.1, replicate=4, seed=4)
    story.trial("sus", 0.9, replicate=4, seed=4)
    for strategy, value in (("io", 0.01), ("sus", 0.9)):
        story.rerun(strategy, fresh_seed(4), value, replicate=4)
    said, results = answered(story)
    assert results.units("io", "loss").keys() == results.units("sus", "loss").keys() == set(range(4))
    assert "Replicate 5 is not complete, and does not count: strategies had unequal trials in it." in said.missing
    assert "19 of 20 trials were run: the time was up." in said.missing


def test_a_search_that_grew_is_corrected_for_looks():
    reached = repeated({"io": 0.30, "sus": 0.315}, 6)
    story = replicated(reached)
    fixed_said, fixed = answered(story)
    story.facts["looks"] = [4, 6, 8]
    said, grown = answered(story)
    (before,), (after,) = fixed.comparisons(), grown.comparisons()
    assert after.p == pytest.approx(Looks((4, 6, 8)).corrected(before.p, 6))
    assert after.p > before.p
    assert after.high - after.low > before.high - before.low
    assert "corrected for 1 comparison and up to 3 looks" in str(said)
    assert "one comparison, level 0.05" in str(fixed_said)


def test_ten_strategies():
    said, results = answered(replicated(repeated({name: 0.3 + 0.1 * place for place, name in enumerate(TEN)}, 4)))
    assert said.headline.startswith("io is best (of 10 strategies).")
    assert "corrected for 45 comparisons" in str(said)
    assert len(results.comparisons()) == 45
    assert len(tunings_table(results).rows) == 40
    assert [row[2].value for row in quality_table(results).rows] == [float(rank) for rank in range(1, 11)]


def test_where_more_is_better():
    story = Imagined(objective="val/left/accuracy:max", trials_per_tuning=2)
    said, results = answered(replicated(repeated({"sus": 0.5, "io": 0.3}), into=story))
    assert said.headline.startswith("io is best (of io, sus).")
    assert "left/accuracy on test: 0.7000" in str(said)
    assert "Next is sus, 0.200 worse (95 % interval 0.1" in str(said)
    assert results.against("io")["sus"].difference == pytest.approx(-0.2)
    assert [row[2].value for row in quality_table(results).rows] == [1.0, 2.0]


def test_unconfirmed_tunings_tell_nothing_apart():
    said, results = answered(replicated(repeated({"io": 0.3, "sus": 0.5}), confirmed=False))
    assert said.headline.startswith("io is best in the search (of io, sus).")
    assert "These are the numbers that chose the configs: they tell no strategies apart." in str(said)
    assert not any(one.told_apart for one in results.comparisons())
    assert set(claims_of(results)) == {"cannot tell"}


def test_the_rank_of_a_noisy_strategy_is_its_own():
    reached = {"io": [0.30, 0.31, 0.29, 0.30], "sus": [0.31, 0.32, 0.30, 0.31], "uw": [0.32, 0.33, 5.0, 0.35]}
    said, results = answered(replicated(reached))
    ranks = {row[0].text: row[2].value for row in quality_table(results).rows}
    assert ranks == {"io": 1.0, "sus": 2.0, "uw": 3.0}
    assert not any(one.told_apart for one in results.comparisons() if "uw" in (one.a, one.b))
    assert "uw" in said.headline.partition("not told apart from")[2]


def control(story, strategy, replicate, value, **told):
    story.rerun(
        strategy, fresh_seed(replicate), value, role=names.EQUAL_UPDATES, updates=80, replicate=replicate, **told
    )


def test_equal_updates_are_paired_by_tuning():
    told = {"io": {"updates": 80}}
    story = replicated(repeated({"io": 0.3, "sus": 0.5}), told=told)
    for replicate, value in enumerate((0.30, 0.31, 0.29)):
        control(story, "sus", replicate, value)
    said, results = answered(story)
    found = equal_updates(results)
    assert found["sus"] == {0: 0.30, 1: 0.31, 2: 0.29}
    assert found["io"].keys() == {0, 1, 2}
    assert "Given as many updates, sus reaches 0.3000 ± 0.0100, which is not told apart from it (3 tunings" in str(said)
    assert "Over 3 tunings: those in which the controls were trained." in updates_table(results).notes


@pytest.mark.parametrize("unlike", [{"batch_size": 64}, {"model_width": 32}])
def test_controls_and_paths_are_compared_like_with_like(unlike):
    alike = {"batch_size": 16, "model_width": 8}
    told = {"io": {"updates": 80, "config": alike}, "sus": {"config": alike}, "ius": {"config": {**alike, **unlike}}}
    story = replicated(repeated({"io": 0.3, "sus": 0.5, "ius": 0.4}, 3), told=told)
    for replicate in range(3):
        for strategy in ("sus", "ius"):
            control(story, strategy, replicate, 0.3, config=told[strategy]["config"])
    said, results = answered(story)
    assert equal_updates(results).keys() == {"io", "sus"}
    assert "No run with as many updates as the others: ius." in said.missing
    assert set(results.search.paths()) == {"io", "sus"}
    assert [row[0].text for row in updates_table(results).rows] == ["io", "sus"]
    assert "ius" not in {row[0].text for row in path_table(results).rows}


def test_controls_on_seeds_that_nobody_else_has_make_no_table():
    story = replicated(repeated({"io": 0.3, "sus": 0.5}, 3), told={"io": {"updates": 80}})
    story.rerun("sus", 2000, 0.3, role=names.EQUAL_UPDATES, updates=80)
    _, results = answered(story)
    assert equal_updates(results) == {}
    assert updates_table(results) is None
    assert "quality" in {table.key for table in tables_of(Findings(results.search, results))}


def test_every_searched_dimension_is_a_column():
    story = Imagined(trials_per_tuning=2)
    for replicate in range(2):
        for strategy, value in (("io", 0.3), ("sus", 0.5)):
            for batch, width in ((16, 8), (64, 32)):
                config = {"batch_size": batch, "model_width": width, "weight_decay": 0.1}
                story.trial(strategy, value + batch / 1000, seed=replicate, replicate=replicate, config=config)
    _, results = answered(story)
    for table in (tunings_table(results), search_table(results.search)):
        assert {"lr", "groups", "batch_size", "model_width"} <= set(table.header)
        assert "weight_decay" not in table.header
        assert {row[list(table.header).index("batch_size")].value for row in table.rows} == {16}


def test_tunings_are_told_with_their_choice_and_what_became_of_it():
    reached = repeated({"io": 0.3, "sus": 0.5}, 3)
    reached["sus"][1] = None
    _, results = answered(replicated(reached))
    table = tunings_table(results)
    rows = {(row[0].value, row[1].value): row for row in table.rows}
    assert rows.keys() == {(name, place) for name in ("io", "sus") for place in (1, 2, 3)}
    assert [rows["io", 1][index].value for index in (2, 3)] == [2, 0.01]
    assert rows["io", 2][-1].value == reached["io"][1]
    assert rows["sus", 2][-1].value is None
    assert tunings_table(answered(replicated(repeated({"io": 0.3, "sus": 0.5}, 1)))[1]) is None


def test_a_poorly_tuned_strategy_is_named():
    story = replicated(repeated({"io": 0.3, "sus": 0.5}), told={"sus": {"lr": 0.1}})
    story.tags[names.COMMON_LR] = "0.01"
    for replicate in range(3):
        story.rerun("sus", fresh_seed(replicate), 0.25, role=names.COMMON_PATH, replicate=replicate)
    said, results = answered(story)
    (found,) = poorly_tuned(results)
    assert (found.strategy, found.lr, found.seeds) == ("sus", 0.01, 3)
    assert found.there == pytest.approx(0.25)
    assert any(
        text.startswith("sus was poorly tuned: at the common learning rate 0.01 it reaches 0.25")
        for text in said.missing
    )
    quality = {row[0].text: row[1].value.mean for row in path_table(results).rows}
    assert quality["sus"] == pytest.approx(0.25)


def test_a_strategy_that_its_own_choices_suit_is_not_called_poorly_tuned():
    story = replicated(repeated({"io": 0.3, "sus": 0.5}), told={"sus": {"lr": 0.1}})
    story.tags[names.COMMON_LR] = "0.01"
    story.rerun("sus", fresh_seed(0), 0.55, role=names.COMMON_PATH, replicate=0)
    assert poorly_tuned(answered(story)[1]) == []


def test_a_choice_at_the_common_rate_with_other_groups_takes_no_seed_from_the_comparison():
    story = replicated(repeated({"io": 0.3, "sus": 0.5}), told={"io": {"groups": 2}})
    story.trial("io", 0.31, seed=9, groups=4, replicate=5)
    story.trial("io", 0.9, lr=0.001, seed=9, groups=4, replicate=5)
    story.trial("sus", 0.5, seed=9, replicate=5)
    story.trial("sus", 0.9, lr=0.001, seed=9, replicate=5)
    story.rerun("io", fresh_seed(5), 0.31, groups=4, replicate=5)
    found = story.search().paths()
    assert {name: len(runs) for name, runs in found.items()} == {"sus": 5, "io (2 groups)": 5}
