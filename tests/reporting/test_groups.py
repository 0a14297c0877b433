"""Groups, understood: the best number with its interval, and whose luck the draw is, on the page and for programs."""

import json
import math

import numpy as np
import pytest

import tune_mtl
from tests.reporting.stories import Imagined, Story, text_of
from tune_mtl.reporting.groups import best_counts, group_findings_of, lucks, missing_factorial
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.tables.groups import best_count_table, luck_table
from tune_mtl.reporting.verdict import verdict_of
from tune_mtl.tracking import names

TASKS = ["a", "b", "c", "d"]


def crossed(story=None, effects=(0.0, 0.1, 0.2), seeds=(0.0, 0.01), strategy="io", **told):
    """A search whose best config of io has 2 groups of 4 tasks, crossed: draw and seed add up."""
    story = story or Imagined(settings={"strategies": ["sus", "io"]}, tasks=TASKS)
    story.trial("sus", 0.5)
    story.trial(strategy, 0.3, groups=2)
    for draw, effect in enumerate(effects):
        for seed, luck in enumerate(seeds):
            story.cross(strategy, draw, seed, 0.3 + effect + luck, **told)
    return story


def test_runs_of_a_factorial_are_never_ranked_nor_results():
    story = crossed(effects=(-0.2, -0.1, 0.0))
    search = story.search()
    assert {name: best.value for name, best in search.winners.items()} == {"io": 0.3, "sus": 0.5}
    results = Results.of(search)
    assert {run.trial_id for runs in results.runs.values() for run in runs} == {"0000", "0001"}
    assert len(search.trials) == 2
    assert not search.reruns


def test_the_sentence_says_whose_luck_it_is():
    (luck,) = lucks(crossed().search())
    parts = luck.parts
    effects, seeds = np.array([0.0, 0.1, 0.2]), np.array([0.0, 0.01])
    assert parts.draw.variance == pytest.approx(effects.var())  # of all draws there are: no sample
    assert parts.seed.variance == pytest.approx(seeds.var(ddof=1))
    assert parts.rest.variance == pytest.approx(0, abs=1e-15)
    share = 100 * effects.var() / (effects.var() + seeds.var(ddof=1))
    assert luck.sentence.startswith(f"Of the variance between runs of io (2 groups), {share:.0f} % [")
    assert luck.sentence.endswith("which draw suits which seed (3 draws, all there are, x 2 seeds).")
    assert luck.metric == "test/loss"


def test_a_factorial_of_a_config_that_does_not_win_any_more_does_not_count():
    story = crossed()
    story.trial("io", 0.2, groups=2, lr=0.003)
    assert lucks(story.search()) == []
    other = crossed()
    other.trial("io", 0.2, groups=4)
    assert [luck.layout.groups for luck in lucks(other.search())] == [2]  # the best with 2 groups is the same still


def test_what_did_not_end_well_leaves_its_seed_out():
    story = crossed(seeds=(0.0, 0.01, 0.03))
    story.cross("io", 1, 2, 9.0, outcome="diverged")
    story.cross("io", 2, 2, 9.0, outcome="diverged")
    (luck,) = lucks(story.search())
    assert (luck.layout.draws, luck.layout.seeds, luck.layout.lost) == ([0, 1, 2], [0, 1], 2)
    assert "2 runs did not end well" in luck_table(story.search()).markdown()


def test_too_few_runs_are_not_split():
    (luck,) = lucks(crossed(effects=(0.0,)).search())
    assert luck.parts is None
    assert luck.sentence.startswith("Too few runs of io (2 groups) ended well")
    (same,) = lucks(crossed(effects=(0.0, 0.0), seeds=(0.0, 0.0)).search())
    assert same.sentence.startswith("Runs of io (2 groups) do not differ at all")
    json.dumps(verdict_of(Results.of(crossed(effects=(0.0,)).search())), allow_nan=False)


def test_without_a_factorial_a_line_says_how_to_get_it_where_groups_are_drawn():
    story = Imagined(tasks=TASKS)
    story.trial("sus", 0.5)
    assert missing_factorial(story.search()) == []
    story.trial("ius", 0.4, groups=4)
    assert missing_factorial(story.search()) == []
    story.trial("io", 0.3, groups=2)
    (line,) = missing_factorial(story.search())
    assert "luck of io is" in line
    assert f"tune-mtl factorial {story.name}" in line
    assert missing_factorial(story.search(state="running")) == []
    assert missing_factorial(crossed().search()) == []


def test_page_and_programs_say_the_same(home):
    name = crossed(Story(settings={"strategies": ["sus", "io"]}, tasks=TASKS)).end()
    written = tune_mtl.report(name)
    page, found = text_of(written.page), tune_mtl.group_findings(name)
    (luck,) = found.luck
    assert luck.sentence in page
    assert luck.sentence in written.answer
    assert "Whose luck is it" in page
    told = tune_mtl.verdict(name)["groups"]
    assert told == json.loads(json.dumps(found.plain(), allow_nan=False))
    assert told["luck"][0]["parts"]["draw"]["share"] == luck.parts.draw.share
    assert told["luck"][0]["possible_draws"] == 3
    assert len(tune_mtl.trials(name, kind="factorial")) == 6
    assert names.CROSSING in tune_mtl.results.searches.find_search(name, None)[2].data.tags


def grid(effects, noise, seeds=6, **told):
    story = Imagined(settings={"strategies": ["io"], "algorithm": "grid", "scheduler": "none"}, tasks=list("abcdefgh"))
    random = np.random.default_rng(3)
    for replicate in range(seeds):
        level = random.normal(0, 0.2)
        for count, effect in effects.items():
            for lr in (0.001, 0.01):
                value = 1 + level + effect + (0.5 if lr < 0.01 else 0) + random.normal(0, noise)
                story.trial("io", value, groups=count, lr=lr, seed=replicate, replicate=replicate, **told)
    return story


def test_a_clear_optimum_is_found_and_a_flat_curve_tells_nothing():
    clear = best_counts(grid({1: 0.2, 2: 0.1, 4: 0.0, 8: 0.2}, 0.005).search())["io"]
    assert clear.text == "4 [4, 4]"
    assert clear.shares[4] == 1.0
    flat = best_counts(grid({1: 0.0, 2: 0.0, 4: 0.0, 8: 0.0}, 0.1).search())["io"]
    assert (flat.low, flat.high) == (1, 8)
    assert sum(flat.shares.values()) == pytest.approx(1)
    table = best_count_table(grid({1: 0.2, 2: 0.1, 4: 0.0, 8: 0.2}, 0.005).search())
    assert [cell.text for cell in table.rows[0]] == ["io", "4 [4, 4]", "1: 0 %, 2: 0 %, 4: 100 %, 8: 0 %", "6"]


def test_of_a_grid_whole_runs_alone_count():
    story = grid({2: 0.0, 4: 0.1}, 0.005)
    for replicate in range(6):
        story.trial("io", 0.0, groups=4, seed=replicate, replicate=replicate, outcome="stopped_early")
    assert best_counts(story.search())["io"].best == 2


def test_one_count_or_one_tuning_says_little():
    story = Imagined(tasks=TASKS)
    story.trial("io", 0.3, groups=2)
    assert best_counts(story.search()) == {}
    assert best_count_table(story.search()) is None
    story.trial("io", 0.4, groups=4)
    found = best_counts(story.search())["io"]
    assert (found.text, found.shares, found.units) == ("2 [2, 4]", {}, 1)


def test_figures_say_in_words_what_they_show():
    story = grid({2: 0.0, 4: 0.1}, 0.005)
    drawn = {drawing.key: drawing for drawing in figures(story.search())}
    assert "io is best with" in drawn["group-counts"].alternative
    story = crossed()
    drawn = {drawing.key: drawing for drawing in figures(story.search())}
    assert drawn["group-luck"].alternative == lucks(story.search())[0].sentence
    assert "group-counts" not in drawn


def figures(search):
    from tune_mtl.reporting.figures.groups import best_counts_drawn, lucks_drawn
    from tune_mtl.reporting.figures.style import looks

    results, styles = Results.of(search), looks(search.strategies)
    return [drawing for make in (best_counts_drawn, lucks_drawn) if (drawing := make(results, styles))]


def test_findings_are_plain_values():
    found = group_findings_of(grid({2: 0.0, 4: 0.1}, 0.005).search()).plain()
    assert found["best"]["io"]["groups"] == 2
    assert set(found["best"]["io"]["means"]) == {"2", "4"}
    assert found["luck"] == []
    assert math.isclose(sum(found["best"]["io"]["shares"].values()), 1)
