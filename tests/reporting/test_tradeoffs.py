"""Changes of tasks, Delta-m, fronts and hypervolume: by hand, by laws, and with the error that is stated."""

import itertools
import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, lists
from scipy import stats

import tune_mtl
from tests.reporting.stories import Imagined, Story, by_task, facts_of_tasks, replicated, usual
from tune_mtl import UserError
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics import task_front as fronts
from tune_mtl.reporting.statistics.comparison import compare_differences
from tune_mtl.reporting.statistics.significance import holm
from tune_mtl.reporting.statistics.task_front import MOST_TASKS, dominates, hypervolume, task_front
from tune_mtl.reporting.statistics.tradeoffs import trade_offs
from tune_mtl.reporting.tradeoffs import find_trade_offs, missing, plain
from tune_mtl.reporting.verdict import verdict_of

SUS = {"a": [1.0, 3.0], "b": [0.5, 0.5]}
IO = {"a": [0.5, 2.5], "b": [0.6, 0.7]}


def read(reached, **told):
    return Results.of(by_task(reached, **told).search())


def test_changes_and_delta_m_by_hand():
    found = trade_offs(read({"sus": SUS, "io": IO}))
    assert found.reference == "sus"
    changes = {one.task: one.change for one in found.changes["io"]}
    assert changes["a"].difference == pytest.approx(100 * 0.5 / 2)  # 0.5 less than a mean of 2
    assert changes["b"].difference == pytest.approx(-100 * 0.15 / 0.5)
    assert found.delta_m["io"].difference == pytest.approx((25 - 30) / 2)
    assert found.best_on == {"sus": ["b"], "io": ["a"]}
    assert found.order == ["a", "b"]


def test_where_more_is_better_the_sign_turns():
    more = trade_offs(read({"sus": SUS, "io": IO}, metric="{}/accuracy", mode="max"))
    assert {one.task: one.change.difference for one in more.changes["io"]} == pytest.approx({"a": -25.0, "b": 30.0})
    assert more.best_on == {"sus": ["a"], "io": ["b"]}


def test_single_task_networks_are_the_reference_where_they_were_trained():
    assert trade_offs(read({"sus": SUS, "io": IO, "stl": IO})).reference == "stl"
    assert trade_offs(read({"sus": SUS, "io": IO, "stl": IO}), "io").reference == "io"
    with pytest.raises(UserError, match=r"reference 'ius' has no results in search 'made': .*sus"):
        trade_offs(read({"sus": SUS, "io": IO}), "ius")


def test_tests_and_intervals_are_scipys_after_holm():
    rng = np.random.default_rng(0)
    tasks = [f"t{index}" for index in range(5)]
    sus = {task: list(1 + rng.normal(0, 0.05, 8)) for task in tasks}
    io = {task: list(np.array(sus[task]) - 0.05 * index + rng.normal(0, 0.03, 8)) for index, task in enumerate(tasks)}
    changes = {one.task: one for one in trade_offs(read({"sus": sus, "io": io})).changes["io"]}
    raw = [stats.ttest_rel(io[task], sus[task]).pvalue for task in tasks]
    for task, expected in zip(tasks, holm(raw), strict=True):
        one = changes[task].change
        assert one.p == pytest.approx(expected)
        assert (one.low > 0 or one.high < 0) is bool(expected < 0.05)
        gained = [100 * (a - b) / statistics.fmean(sus[task]) for a, b in zip(sus[task], io[task], strict=True)]
        assert one.difference == pytest.approx(statistics.fmean(gained))
        verdict = "open" if expected >= 0.05 else "gains" if one.difference > 0 else "loses"
        assert changes[task].verdict == verdict
    assert {one.verdict for one in changes.values()} == {"open", "gains"}


def test_without_a_difference_a_strategy_has_a_marked_task_in_five_percent():
    """Of 12 tasks that share a part of their luck: at most 5 % and three standard errors of 500 searches."""
    rng, wrong, alone = np.random.default_rng(1), 0, 0
    for _ in range(500):
        differences = rng.normal(0, 1, (8, 12)) + 0.5 * rng.normal(0, 1, (8, 1))
        pairs = [("sus", "io", list(column)) for column in differences.T]
        wrong += any(one.told_apart for one in compare_differences(pairs, holm))
        alone += stats.ttest_1samp(differences, 0).pvalue.min() < 0.05
    assert wrong / 500 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)
    assert alone / 500 > 0.2  # what the correction is for


def test_nothing_is_marked_where_nothing_was_confirmed_or_lost_tunings_flatter():
    better = {task: [value / 2 + 0.01 * index for index, value in enumerate([1.0] * 5)] for task in "ab"}
    same = {task: [1.0 + 0.01 * (index % 3) for index in range(5)] for task in "ab"}
    sure = trade_offs(read({"sus": same, "io": better}))
    assert sure.tasks("io", "gains") == ["a", "b"]
    chosen = trade_offs(read({"sus": same, "io": better}, confirmed=False))
    assert chosen.tasks("io", "open") == ["a", "b"]
    lost = by_task({"sus": same, "io": better})
    lost.trial("io", 1.0, seed=5, replicate=5, outcome="diverged")
    lost.trial("sus", 1.0, seed=5, replicate=5)
    lost.rerun("sus", 1005, 1.0, replicate=5)
    assert trade_offs(Results.of(lost.search())).tasks("io", "gains") == []


def test_one_tuning_of_each_compares_seeds_of_configs(home):
    name = usual().end()
    found = tune_mtl.verdict(name)["trade_offs"]
    left = found["changes"]["io"]["left"]
    io, sus = [0.7, 0.69, 0.71], [0.5, 0.49, 0.51]
    assert left["change"] == pytest.approx(100 * (0.7 - 0.5) / 0.5)
    assert left["p"] == pytest.approx(min(1, 2 * stats.ttest_ind(io, sus, equal_var=False).pvalue), rel=1e-6)
    assert left["verdict"] == "gains"


def test_a_reference_of_zero_has_no_relative_change():
    results = read({"sus": {"a": [0.0, 0.0], "b": [1.0, 2.0]}, "io": {"a": [0.1, 0.2], "b": [1.0, 1.0]}})
    found = find_trade_offs(results)
    assert [one.task for one in found.changes.changes["io"]] == ["b"]
    assert found.changes.delta_m == {}
    assert "Task a has no relative change: the mean loss/a of sus is 0." in missing(found)
    assert "So there is no Δm: it is the mean over all tasks." in missing(found)


def test_a_strategy_without_a_value_of_a_task_is_named():
    story = by_task({"sus": SUS, "io": IO})
    for replicate in range(2):
        more = {"extra": {"loss/b": 0.5}, "without": ["loss/left", "loss/sum", "left/accuracy", "sum/mae"]}
        story.trial("ius", 1.0, seed=replicate, replicate=replicate, **more)
        story.rerun("ius", 1000 + replicate, 1.0, replicate=replicate, **more)
    found = find_trade_offs(Results.of(story.search()))
    assert [one.task for one in found.changes.changes["ius"]] == ["b"]
    assert set(found.changes.delta_m) == {"io"}
    assert missing(found)[0] == "ius has no change of a, as it has no value there; so it has no Δm."


def test_the_page_says_what_is_missing():
    alone = find_trade_offs(read({"io": IO}))
    assert missing(alone) == ["Only io has results: there is nothing to compare it with, task by task."]
    neither = find_trade_offs(read({"ius": IO, "io": SUS}))
    assert "Neither stl nor sus has results" in missing(neither)[0]
    assert missing(neither)[0].endswith("--reference io takes another.") or "--reference ius" in missing(neither)[0]
    assert plain(find_trade_offs(Results.of(Imagined().search())))["missing"] == []


# Fronts


def test_the_front_and_its_hypervolume_by_hand():
    """Scaled: a at (0, 1), b at (1, 0), c at (0.5, 0.5), d at (0.75, 0.75), which c beats."""
    points = {"io": (1.0, 3.0), "sus": (3.0, 1.0), "ius": (2.0, 2.0), "mr": (2.5, 2.5)}
    reached = {name: {"x": [x, x], "y": [y, y]} for name, (x, y) in points.items()}
    front = task_front(read(reached))
    assert set(front.members) == {"io", "sus", "ius"}
    assert front.beaten_by == {"mr": ["ius"]}
    pytest.importorskip("moocore")
    whole = 0.1 * 1.1 + 0.1 * 1.1 - 0.01 + 0.5 * 0.5  # two strips, their corner once, and a square up to them
    assert front.hypervolume.value == pytest.approx(whole / 1.21)
    without_c = 0.1 * 1.1 + 0.1 * 1.1 - 0.01 + 0.25 * 0.25  # then d has a square of its own
    assert front.hypervolume.contributions["ius"] == pytest.approx((whole - without_c) / 1.21)
    assert front.hypervolume.contributions["mr"] == 0.0
    assert front.hypervolume.reference == pytest.approx({"x": 3.2, "y": 3.2})


def covered(points, edge=1.1):
    """The hypervolume by inclusion and exclusion."""
    total = 0.0
    for size in range(1, len(points) + 1):
        for chosen in itertools.combinations(points, size):
            total -= (-1) ** size * math.prod(edge - max(column) for column in zip(*chosen, strict=True))
    return total / edge ** len(points[0])


@given(integers(2, 5).flatmap(lambda n: lists(lists(floats(0, 1), min_size=n, max_size=n), min_size=1, max_size=5)))
@settings(max_examples=40)
def test_the_hypervolume_is_that_of_inclusion_and_exclusion(points):
    pytest.importorskip("moocore")
    assert hypervolume(points) == pytest.approx(covered(points), abs=1e-9)


@given(lists(lists(integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=6))
def test_nobody_on_the_front_is_beaten_and_everybody_else_by_someone_on_it(points):
    front = [p for p in points if not any(dominates(q, p) for q in points)]
    assert front
    for point in points:
        assert point in front or any(dominates(q, point) for q in front)
        assert not dominates(point, point)


def test_of_many_tasks_there_is_no_hypervolume_and_the_report_says_so():
    tasks = [f"t{index}" for index in range(MOST_TASKS + 1)]
    found = find_trade_offs(
        read({name: {task: [1.0, value] for task in tasks} for name, value in (("io", 2), ("sus", 3))})
    )
    assert found.front.hypervolume is None
    assert any(f"not computed for {MOST_TASKS + 1} tasks" in said and "up to 10" in said for said in missing(found))


def test_a_missing_library_costs_a_number_not_the_report(monkeypatch):
    def gone(_):
        raise ImportError

    monkeypatch.setattr(fronts, "hypervolume", gone)
    front = task_front(read({"sus": SUS, "io": IO}))
    assert front.hypervolume is None
    assert "pip install moocore" in front.why_not
    assert front.members


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (["a", "b", "c", "d"], "front=a,b,c,d names 4 tasks: a front is drawn of 2 or 3"),
        (["a"], "names 1 task:"),
        (["a", "a"], "names 1 task:"),
        (["a", "left"], "search 'made' has no task 'left'"),
    ],
)
def test_fronts_that_cannot_be_drawn(tasks, said):
    with pytest.raises(UserError, match=said):
        find_trade_offs(read({"sus": {task: [1.0, 2.0] for task in "abcd"}}), front=tasks)


def test_programs_get_what_the_page_says(home):
    reached = {"sus": SUS, "io": IO}
    settings_ = {"strategies": list(reached)}
    story = Story("told", settings=settings_, ranked_by="single trials", trials_per_tuning=1, **facts_of_tasks("ab"))
    written = tune_mtl.report(by_task(reached, into=story).end(), front=["a", "b"])
    found = tune_mtl.verdict("told")["trade_offs"]
    assert found == written.trade_offs["told"]
    json.dumps(found, allow_nan=False)
    table = next(table for table in written.tables["told"] if table.key == "trade-offs")
    by_name = {row[0].text: row[1].value for row in table.rows}
    assert by_name["io"] == found["delta_m"]["io"]["change"] == pytest.approx(-2.5)
    assert by_name["sus"] is None
    page = written.page.read_text()
    for said in found["missing"]:
        assert said in page
    assert (written.page.parent / "task-changes.svg").exists()
    assert (written.page.parent / "task-front.pdf").exists()
    with pytest.raises(UserError, match="reference 'mr' has no results"):
        tune_mtl.report("told", reference="mr")


def test_undefined_values_and_extremes_are_none_and_never_nan():
    reached = {"sus": [1e299, -1e299], "io": [1e-300, 5e298], "uw": [-1e299, 1e299]}
    json.dumps(verdict_of(Results.of(replicated(reached).search())), allow_nan=False)
