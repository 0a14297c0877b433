"""Coverage: what is said of edges, gaps and lonely winners, and what more trials would bring."""

import itertools
import json
import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tune_mtl
from tests.reporting.rates import GRID, RANGE, searched, tell, told
from tests.reporting.stories import Story, text_of
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.problem_facts import problem_facts
from tune_mtl.problems.registry import load_problem
from tune_mtl.reporting import coverage
from tune_mtl.reporting.coverage import Coverage, Searched, expected_best, gaps_around, near, unexplored
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.settings import Settings

MORE = "tune-mtl extend made --samples"


# What was searched


@pytest.mark.parametrize(
    ("value", "edge"),
    [
        (1e-4, "lower"),
        (10**-3.86, "lower"),
        (10**-3.84, None),
        (1e-2, None),
        (10**-1.16, None),
        (10**-1.14, "upper"),
        (0.1, "upper"),
        (0.2, "upper"),
    ],
)
def test_the_outer_twentieth_of_a_range_is_its_edge_on_its_own_scale(value, edge):
    assert Searched.of(RANGE).at_edge(value) == edge
    assert Searched.of({"low": -4.0, "high": -1.0, "log": False}).at_edge(math.log10(value)) == edge


@pytest.mark.parametrize(("value", "edge"), [(1e-4, "lower"), (1e-3, None), (1e-2, None), (1e-1, "upper")])
def test_the_edge_of_a_grid_is_its_outermost_point(value, edge):
    assert Searched.of({"points": [0.01, 0.1, 0.0001, 0.001]}).at_edge(value) == edge


def test_a_side_without_trials_is_unexplored_unless_the_search_ends_there():
    whole = Searched.of(RANGE)
    assert unexplored(0.01, [0.001, 0.01], whole) == ["upper"]
    assert unexplored(0.01, [0.01, 0.02], whole) == ["lower"]
    assert unexplored(0.01, [0.001, 0.01, 0.02], whole) == []
    assert unexplored(0.1, [0.001, 0.1], whole) == []
    assert unexplored(0.01, [0.001, 0.01], Searched.of(GRID)) == ["upper"]


def test_a_gap_is_wider_than_a_factor_of_three_and_could_have_been_tried():
    whole, grid = Searched.of(RANGE), Searched.of(GRID)
    assert gaps_around(0.01, [0.0034, 0.01, 0.031], whole) == [0.031]
    assert gaps_around(0.01, [0.0034, 0.01, 0.029], whole) == []
    assert gaps_around(0.01, [0.0001, 0.003, 0.01, 0.05, 0.06], whole) == [0.003, 0.05]
    assert gaps_around(0.01, [0.01, 0.02], whole) == []
    assert gaps_around(0.01, [0.001, 0.01, 0.1], grid) == []
    assert gaps_around(0.01, [0.0001, 0.01, 0.1], grid) == [0.0001]


@pytest.mark.parametrize(
    ("best", "others", "mode", "count"),
    [
        (1.0, [1.09, 1.11, 5.0], "min", 1),
        (1.0, [1.1001, 1.2], "min", 0),
        (-1.0, [-0.96, -0.5, 0.0, 1.0], "min", 1),  # the median is -0.5
        (-1.0, [-0.94, -0.5, 0.0, 1.0], "min", 0),
        (0.9, [0.89, 0.79, 0.5, 0.2], "max", 1),  # the median is 0.79, so near is within 0.011
        (0.9, [0.88, 0.79, 0.5, 0.2], "max", 0),
        (0.0, [0.0, 1.0, 1.0], "min", 1),
        (0.7, [0.7, 0.7], "max", 2),
        (0.7, [], "max", 0),
    ],
)
def test_near_the_best_is_a_tenth_of_it_or_of_the_way_to_the_median(best, others, mode, count):
    assert near(best, others, mode) == count


# What more trials would bring


@given(
    st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=4),
    st.integers(0, 2),
    st.sampled_from(["min", "max"]),
)
def test_the_expected_best_is_the_mean_over_all_tuples(values, lost, mode):
    best, worst = (min, max) if mode == "min" else (max, min)
    pool = [*values, *[worst(values)] * lost]
    found = expected_best(values, lost=lost, mode=mode)
    assert len(found) == len(pool)
    for n, value in enumerate(found, start=1):
        assert value == pytest.approx(statistics.fmean(map(best, itertools.product(pool, repeat=n))), abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.sampled_from(["min", "max"]))
def test_more_trials_never_make_the_best_worse_and_never_better_than_it_is(values, mode):
    sign = 1 if mode == "min" else -1
    found = [sign * value for value in expected_best(values, mode=mode)]
    assert found[0] == pytest.approx(sign * statistics.fmean(values), abs=1e-6)
    assert all(later <= earlier + 1e-6 for earlier, later in itertools.pairwise(found))
    assert found[-1] >= min(sign * value for value in values) - 1e-6


def test_lost_trials_count_as_the_worst_finite_value():
    assert expected_best([1.0, 3.0], lost=1) == expected_best([1.0, 3.0, math.inf]) == expected_best([1.0, 3.0, 3.0])
    assert expected_best([1.0, math.nan], mode="max") == [1.0, 1.0]
    assert expected_best([], lost=3) == expected_best([math.inf]) == []


# What is said


def test_a_best_at_the_edge_asks_for_a_wider_range(home):
    search = told({0.02: 0.29, 0.05: 0.21, 0.0998: 0.2})
    assert coverage.warnings(search) == [
        "sus did best at learning rate 0.0998, at the upper edge of what was searched (0.0001 to 0.1): widen --lr."
    ]


def test_a_best_at_the_end_of_an_own_range_asks_for_a_wider_one(home):
    search = told({0.02: 0.29, 0.05: 0.2})
    search.facts["dimensions"]["sus"]["batch_size"] = {"low": 8, "high": 64, "log": True}
    search.winners["sus"].config["batch_size"] = 64
    assert not [line for line in coverage.warnings(search) if "batch_size" in line]
    search.settings["vary"] = {"batch_size": "8:64:log"}
    [line] = [line for line in coverage.warnings(search) if "batch_size" in line]
    assert line == (
        "sus did best at batch_size 64, at the upper edge of what was searched (8 to 64): widen --search batch_size."
    )
    search.winners["sus"].config["batch_size"] = 20
    assert not [line for line in coverage.warnings(search) if "batch_size" in line]


def test_a_best_with_nothing_beyond_it_asks_for_more_trials(home):
    search = told({0.004: 0.29, 0.01: 0.21, 0.02: 0.2})
    assert coverage.warnings(search) == [
        f"sus did best at learning rate 0.02, the highest of its trials, though 0.0001 to 0.1 was searched: {MORE} 3"
        " tries more."
    ]


def test_a_gap_beside_the_best_is_said_and_diverged_trials_fill_it(home):
    values = {0.002: 0.21, 0.005: 0.2, 0.08: 0.4}
    assert coverage.warnings(told(values, name="made")) == [
        f"sus did best at learning rate 0.005, and nothing between that and 0.08 (a factor of 16) was tried: {MORE} 3"
        " tries more."
    ]
    assert coverage.warnings(told({**values, 0.012: None}, name="filled")) == []


def test_a_lonely_best_is_said_with_the_next(home):
    search = told({0.005: 0.3, 0.01: 0.2, 0.02: 0.25, 0.05: None})
    assert coverage.warnings(search) == [
        "Only one of 4 trials of sus came within 10 % of its best, 0.2 (the next reached 0.25): what it can reach is"
        f" not settled; {MORE} 4 tries more."
    ]


def test_a_lonely_best_where_more_is_better_and_where_all_else_diverged(home):
    accuracies = {0.005: 0.4, 0.01: 0.1, 0.02: 0.15, 0.03: 0.4}  # the story says 1 minus these
    said = coverage.warnings(told(accuracies, objective="val/left/accuracy:max"))
    assert said == [
        "Only one of 4 trials of sus came near its best, 0.9 (within 10 % of the way to its median; the next reached"
        f" 0.85): what it can reach is not settled; {MORE} 4 tries more."
    ]
    said = coverage.warnings(told({0.005: None, 0.01: 0.2, 0.02: None}, name="other"))
    assert len(said) == 1
    assert "Only one of 3 trials of sus came within 10 % of its best, 0.2 (no other ended well)" in said[0]


def test_a_grid_has_no_gaps_and_is_made_finer_not_longer(home):
    grid = {"settings": {"algorithm": "grid"}, "dimensions": searched(GRID)}
    values = {1e-4: 0.9, 1e-3: 0.4, 1e-2: 0.2, 1e-1: 0.7}
    assert coverage.warnings(told(values, **grid)) == [
        "Only one of 4 trials of sus came within 10 % of its best, 0.2 (the next reached 0.4): what it can reach is not"
        " settled; add values to --lr."
    ]
    said = coverage.warnings(told({**values, 1e-1: 0.1}, name="edge", **grid))
    assert said[0].endswith("learning rate 0.1, at the upper edge of what was searched (0.0001 to 0.1): widen --lr.")


def test_configs_on_several_seeds_count_once_with_their_mean(home):
    story = Story(settings={"algorithm": "grid"}, dimensions=searched(GRID))
    for seed in range(3):
        tell(story, "sus", {1e-4: 0.9, 1e-3: 0.4, 1e-2: 0.2 + 0.01 * seed, 1e-1: 0.7}, seed=seed)
    said = coverage.warnings(SearchData.read(story.end()))
    assert len(said) == 1
    assert said[0].startswith("Only one of 4 configs of sus came within 10 % of its best, 0.21 (the next reached 0.4)")


def test_each_strategy_is_judged_by_its_own_range(home):
    story = Story(dimensions={"sus": {"lr": {"low": 0.001, "high": 0.01, "log": True}}, **searched(RANGE, "io")})
    for strategy in ("sus", "io"):
        tell(story, strategy, {0.004: 0.21, 0.01: 0.2, 0.015: 0.205})
    search = SearchData.read(story.end())
    said = coverage.warnings(search)
    assert len(said) == 1
    assert said[0].startswith("sus did best at learning rate 0.01, at the upper edge of what was searched (0.001 to")


def test_a_single_learning_rate_is_not_judged(home):
    story = Story(dimensions={"sus": {}, "io": {"groups": {"points": [2, 4]}}})
    tell(story, "sus", {0.01: 0.5})
    for groups, value in ((2, 0.2), (4, 0.5)):
        tell(story, "io", {0.01: value}, groups=groups)
    said = coverage.warnings(SearchData.read(story.end()))
    assert len(said) == 1
    assert said[0].startswith("Only one of 2 trials of io came within 10 %")


def test_one_trial_of_a_range_says_only_that(home):
    assert coverage.warnings(told({0.01: 0.2})) == [
        f"Only one learning rate of sus was tried, 0.01, of 0.0001 to 0.1: {MORE} 1 tries more."
    ]


def test_a_search_that_runs_is_not_judged_and_unended_trials_do_not_count(home):
    story = Story(dimensions=searched())
    tell(story, "sus", {0.01: 0.2, 0.02: 0.4})
    story.trial("sus", 0.2, lr=0.005, outcome="running")
    running = SearchData.read("made")
    assert coverage.warnings(running) == []
    assert [run.lr for run in Coverage.of(running, "sus").ended] == [0.01, 0.02]
    said = coverage.warnings(SearchData.read(story.end()))
    assert "the lowest of its trials" in said[0]


def test_older_searches_are_judged_by_what_any_strategy_tried(home):
    story = Story()
    tell(story, "sus", {0.004: 0.21, 0.01: 0.2})
    tell(story, "io", {0.01: 0.2, 0.02: 0.205, 0.004: 0.21, 0.05: None})
    search = SearchData.read(story.end())
    assert "dimensions" not in search.facts
    assert coverage.searched_rates(search, "sus") == Searched(0.004, 0.05)
    said = coverage.warnings(search)
    assert len(said) == 1
    assert "sus did best at learning rate 0.01, the highest of its trials, though 0.004 to 0.05 was searched" in said[0]
    grid = replace(search, settings={"algorithm": "grid"})
    assert coverage.searched_rates(grid, "sus").points == (0.004, 0.01, 0.02, 0.05)


def test_page_and_answer_say_it(home):
    story = Story(dimensions=searched(RANGE, "sus"))
    tell(story, "sus", {0.02: 0.29, 0.05: 0.21, 0.0998: 0.2})
    written = tune_mtl.report(story.end())
    sentence = (
        "sus did best at learning rate 0.0998, at the upper edge of what was searched (0.0001 to 0.1): widen --lr."
    )
    assert sentence in written.answers["made"].missing
    assert sentence in text_of(written.page)
    assert {"coverage.svg", "expected-best.png"} <= {path.name for path in written.page.parent.iterdir()}


# What a search writes down


@pytest.mark.parametrize(
    ("asked", "lr"),
    [
        ({"lr": "1e-3:1e-1"}, {"low": 0.001, "high": 0.1, "log": True}),
        ({"lr": "1e-3,1e-1,1e-2"}, {"points": [0.001, 0.1, 0.01]}),
        ({"lr": "1e-2:1e-1", "algorithm": "grid", "scheduler": "none"}, {"points": [0.01, 0.02, 0.05, 0.1]}),
        ({"lr": "1e-3"}, None),
    ],
)
def test_a_search_writes_down_what_it_searches(asked, lr):
    settings = Settings(problem="quadratics", name="x", strategies=("sus", "gradnorm", "io"), groups="2", **asked)
    facts = problem_facts(Plan.make(load_problem("quadratics", {}), settings))
    written = json.loads(json.dumps(facts))["dimensions"]
    assert list(written) == ["sus", "gradnorm", "io"]
    assert all(extents.get("lr") == lr for extents in written.values())
    assert "groups" not in written["io"]
    assert written["sus"].keys() <= {"lr"}
    if asked.get("algorithm") != "grid":
        assert written["gradnorm"]["gradnorm_alpha"] == {"low": 0.1, "high": 3.0, "log": True}
