"""Who is said to be best, how sure that is, and on which runs it rests."""

import pandas as pd
import pytest

import tune_mtl
from tests.reporting.stories import Story, usual
from tune_mtl.reporting.answer import answer
from tune_mtl.reporting.results import Results, equal_updates
from tune_mtl.reporting.tables.contents import path_table, quality_table
from tune_mtl.reporting.write import write_report
from tune_mtl.results.search_data import SearchData
from tune_mtl.tracking import names


def answered(story):
    story.end()
    search = SearchData.read(story.name)
    results = Results.of(search)
    return answer(results), results


def test_the_winner_is_chosen_on_validation_not_on_test(home):
    story = Story()
    story.trial("sus", 0.5)
    story.trial("io", 0.4, groups=2)
    story.confirm("sus", [0.50, 0.51])
    story.confirm("io", [0.40, 0.41], groups=2, without=["loss"])
    story.end()
    results = Results.of(SearchData.read("made"))
    assert results.values("io", "loss") == []
    said = write_report("made").answers["made"]
    assert "loss" in " ".join(said.missing)
    assert "Too few results to compare with: sus" not in str(said)


def test_strategies_without_enough_seeds_are_not_said_to_be_worse(home):
    story = Story()
    for strategy in ("io", "ius", "sus"):
        story.trial(strategy, 0.5)
    story.confirm("io", [0.30, 0.31, 0.29])
    story.confirm("ius", [0.50, 0.51, 0.49])
    story.confirm("sus", [0.51])
    said, results = answered(story)
    assert "every other" not in str(said)
    assert "This config and that of ius differ" in str(said)
    assert "Too few results to compare with: sus." in str(said)
    assert results.count_text == "1 to 3 seeds"
    assert "Strategies have results on unequal numbers of seeds." in said.missing


def test_confirming_runs_that_diverged_are_counted(home):
    story = Story()
    for strategy in ("io", "sus"):
        story.trial(strategy, 0.5)
        story.confirm(strategy, [0.30, 0.31])
    story.rerun("io", 3, 9.0, outcome="diverged")
    said, _ = answered(story)
    assert "over 2 fresh seeds" in str(said)
    assert "Of 3 confirming runs of io, 1 diverged: its numbers are those of the others." in said.missing


def test_a_strategy_with_fewer_seeds_is_still_ranked(home):
    story = Story(settings={"algorithm": "grid", "scheduler": "none"})
    for seed in range(3):
        story.trial("sus", 0.5, seed=seed)
    for seed in range(2):
        story.trial("io", 0.3, seed=seed)
    said, _ = answered(story)
    assert said.headline.startswith("io ")
    assert tune_mtl.best("made").config["strategy"] == "io"


def test_the_objectives_own_direction_decides(home):
    story = Story(objective="val/seg/iou/0:max", metrics={"seg/iou": "max", "loss": "min"}, tasks=["seg"])
    for strategy, value in (("io", 0.9), ("sus", 0.5)):
        story.trial(strategy, value, extra={"seg/iou/0": value})
        story.confirm(strategy, [value, value + 0.01], extra={"seg/iou/0": value})
    said, results = answered(story)
    assert said.headline.startswith("io ")
    assert results.not_told_from_best("seg/iou/0") == {"io"}
    assert results.against("io")["sus"].difference < 0
    assert "seg/iou/0" in results.judged


def test_whoever_has_no_control_is_left_out_of_equal_updates(home):
    story = Story()
    for strategy, updates in (("io", 80), ("ius", 40), ("sus", 40)):
        story.trial(strategy, 0.5, updates=updates)
        story.confirm(strategy, [0.4, 0.41], updates=updates)
    story.confirm("sus", [0.39, 0.40], role=names.EQUAL_UPDATES, updates=80)
    said, results = answered(story)
    assert equal_updates(results).keys() == {"io", "sus"}
    assert "No run with as many updates as the others: ius." in said.missing


def test_a_quality_of_zero_everywhere_is_no_error(home):
    story = Story()
    story.trial("sus", 0.0)
    story.trial("io", 0.0)
    assert tune_mtl.report(story.end()).answer


def test_runs_that_confirmed_an_earlier_winner_are_left_out(home):
    story = Story()
    story.trial("sus", 0.5, lr=0.001)
    story.confirm("sus", [0.5, 0.51], lr=0.001)
    story.trial("sus", 0.2, lr=0.1)
    said, results = answered(story)
    assert not results.confirmed
    assert "learning rate 0.1 is the best config in the search" in said.headline
    assert any("2 confirming runs are of configs that do not win any more" in text for text in said.missing)


def test_paths_are_compared_on_seeds_that_all_have(home):
    story = Story(settings={"algorithm": "grid", "scheduler": "none"})
    for seed in range(3):
        story.trial("sus", 0.5, seed=seed)
        story.trial("io", 0.4, seed=seed, outcome="diverged" if seed == 0 else "completed")
    story.end()
    found = SearchData.read("made").paths()
    assert {name: [run.config["seed"] for run in runs] for name, runs in found.items()} == {"sus": [1, 2], "io": [1, 2]}


def test_only_confirming_runs_decide_and_each_role_is_kept_apart(reported):
    search = reported[1]
    results = Results.of(search)
    assert results.confirmed
    assert results.prefix == "test/"
    assert results.values("sus", "loss") == [0.50, 0.51, 0.49]
    assert equal_updates(results) == {
        "io": {1: 0.30, 2: 0.31, 3: 0.29},
        "ius": {1: 0.45, 2: 0.46, 3: 0.44},
        "sus": {1: 0.301, 2: 0.312, 3: 0.291},
    }
    assert search.common_lr == 0.01
    assert {name: len(runs) for name, runs in search.paths().items()} == {
        "sus": 3,
        "ius (2 groups)": 3,
        "io (2 groups)": 3,
    }


def test_single_task_networks_give_delta_m(home):
    story = usual(strategies=["sus", "ius", "io", "stl"])
    story.trial("stl", 0.4, path=None)
    story.confirm("stl", [0.40, 0.41, 0.39], path=None)
    _, results = answered(story)
    quality = quality_table(results)
    assert quality.header[3] == "Δm % ↑"
    gains = {row[0].text: row[3].value for row in quality.rows}
    accuracy, error = (0.7 - 0.6) / 0.6, (0.4 - 0.3) / 0.4
    assert gains["io (2 groups)"] == pytest.approx(100 * (accuracy + error) / 2)
    assert gains["stl"] is None
    assert "stl" not in {row[0].text for row in path_table(results).rows}


def test_who_is_not_told_apart_is_in_the_sentence(home):
    story = Story()
    for strategy, values in (("io", [0.30, 0.31, 0.29]), ("ius", [0.30, 0.32, 0.29]), ("sus", [0.50, 0.51, 0.49])):
        story.trial(strategy, values[0])
        story.confirm(strategy, values)
    said, _ = answered(story)
    assert said.headline.endswith(
        "is the best config on average (of io, ius, sus), but not told apart from that of ius."
    )
    assert "This config and that of sus differ (Welch's t-test over seeds, Holm-corrected, level 0.05)" in str(said)
    assert "whether the strategies do, one tuning of each cannot tell" in str(said)


def test_a_winner_that_test_does_not_bear_out_is_said_to_be_one(home):
    story = Story()
    story.trial("io", 0.4)
    story.trial("sus", 0.5)
    for seed in (1, 2, 3):
        story.rerun("io", seed, 0.4, tested={"loss": 0.60 + 0.01 * seed})
        story.rerun("sus", seed, 0.5, tested={"loss": 0.50 + 0.01 * seed})
    said, _ = answered(story)
    assert said.headline.endswith("is the best config on validation (of io, sus), but on test that of sus is better.")
    assert "Next is sus, 0.100 better (95 % interval 0.077 to 0.123" in str(said)


def test_where_more_is_better_less_is_worse(home):
    story = Story(objective="val/left/accuracy:max")
    for strategy, value in (("io", 0.3), ("sus", 0.5)):
        story.trial(strategy, value)
        story.confirm(strategy, [value, value + 0.01, value - 0.01])
    said, _ = answered(story)
    assert said.headline.startswith("io ")
    assert "Next is sus, 0.200 worse (95 % interval 0.177 to 0.223" in str(said)


def test_lost_controls_are_counted_and_prove_nothing(home):
    story = Story()
    story.trial("sus", 0.5)
    story.trial("io", 0.3, updates=80)
    story.confirm("sus", [0.50, 0.51, 0.49])
    story.confirm("io", [0.30, 0.31, 0.29], updates=80)
    story.rerun("sus", 1, 0.3, role=names.EQUAL_UPDATES, updates=80)
    story.rerun("sus", 2, 9.0, role=names.EQUAL_UPDATES, updates=80, outcome="diverged")
    said, _ = answered(story)
    assert "Given as many updates, sus reaches 0.3000, on too few seeds to compare (no test)." in str(said)
    assert "Of 2 runs with as many updates of sus, 1 diverged: its numbers are those of the others." in said.missing
    claims = {claim.text: claim.verdict for claim in tune_mtl.paper_claims("made")}
    assert claims["The advantage over SUS survives equal updates (which the paper did not ask)"] == "cannot tell"


def test_trials_that_lack_what_decides_are_told_from_those_that_failed(home):
    story = Story()
    story.trial("io", 0.3)
    story.trial("ius", 0.3, without=["loss"])
    story.trial("sus", 0.3, outcome="failed")
    said, _ = answered(story)
    assert "No trial of sus ended well (failed)." in said.missing
    assert "No trial of ius has val/loss, which decides." in said.missing


def test_single_task_networks_alone_have_no_common_learning_rate(home):
    story = Story()
    story.trial("stl", 0.5, path=None)
    story.confirm("stl", [0.5, 0.51], path=None)
    for runs in story.runs.values():
        runs.close_search(complete=True, tags={names.COMMON_LR: "None"}, table=pd.DataFrame(), best=None)
    assert SearchData.read("made").common_lr is None
    assert write_report("made").answer.startswith("stl at learning rate 0.01 is the best config")


def test_strategies_of_other_versions_are_reported_too(home):
    story = Story()
    for strategy, value in (("mine", 0.4), ("sus", 0.5)):
        story.trial(strategy, value)
        story.confirm(strategy, [value, value + 0.01])
    assert write_report(story.end()).answer.startswith("mine at learning rate 0.01 is the best config")


def test_metrics_without_a_direction_are_shown_and_judge_nothing(home):
    story = Story(metrics={"loss": "min", "left/accuracy": "max", "sum/mae": None})
    for strategy, value in (("io", 0.3), ("sus", 0.5)):
        story.trial(strategy, value, path=None)
        story.confirm(strategy, [value, value + 0.01], path=None)
    _, results = answered(story)
    assert results.judged == ["left/accuracy", "loss/sum"]
    quality = quality_table(results)
    assert quality.header[3:] == ["left/accuracy ↑", "sum/mae", "loss/sum ↓"]
    assert not any(row[4].strong for row in quality.rows)
    assert [row[5].strong for row in quality.rows] == [True, False]
