"""Coverage in pictures: every trial with its sign, every winner marked, the expected best of more trials."""

import math
from dataclasses import replace

import pytest

from tests.reporting.rates import RANGE, searched, tell, told
from tests.reporting.stories import Story
from tune_mtl.reporting import coverage
from tune_mtl.reporting.coverage import Coverage, expected_best
from tune_mtl.reporting.figures.coverage import expected_bests, what_was_tried
from tune_mtl.reporting.figures.plots import draw_all
from tune_mtl.reporting.figures.style import looks, style
from tune_mtl.reporting.results import Results
from tune_mtl.results.search_data import SearchData
from tune_mtl.strategies.registry import registry


def drawn(make, search):
    with style():
        return make(Results.of(search), looks(search.strategies))


def lines(axes, **wanted):
    found = [line for line in axes.get_lines() if len(line.get_xdata())]
    return [line for line in found if all(getattr(line, f"get_{key}")() == value for key, value in wanted.items())]


def test_every_trial_has_its_sign(home):
    story = Story(dimensions=searched(RANGE, "sus", "io"))
    tell(story, "sus", {0.001: 0.4, 0.01: 0.2, 0.05: None})
    story.trial("sus", 0.6, lr=0.0005, outcome="stopped_early")
    story.trial("sus", 0.6, lr=0.08, outcome="failed")
    tell(story, "io", {0.003: 0.1, 0.01: 0.3})
    drawing = drawn(what_was_tried, SearchData.read(story.end()))
    assert (drawing.key, drawing.title) == ("coverage", "What was tried")
    sus, io = drawing.figure.axes
    assert [axes.get_title() for axes in (sus, io)] == ["sus", "io"]
    (crosses,) = lines(sus, marker="x")
    assert list(crosses.get_xdata()) == [0.05, 0.08]
    assert set(crosses.get_ydata()) == {1.06}
    assert not lines(io, marker="x")
    (early,) = lines(sus, marker="o", markerfacecolor="none", markersize=4.5)
    assert list(early.get_xdata()) == [0.0005]
    (rest,) = lines(sus, markeredgewidth=0)
    assert list(rest.get_xdata()) == [0.001, 0.01]
    (ring,) = lines(sus, markersize=8.5)
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([0.01], [0.2])
    assert [line.get_xdata()[0] for line in lines(sus, marker="None")] == [1e-4, 1e-1]
    shown = {text.get_text() for text in drawing.figure.legends[0].get_texts()}
    assert shown == {"trial", "stopped early", "diverged or failed", "best", "edges of the search"}
    assert "sus: 5 trials, 2 of them diverged or failed, searched from 0.0001 to 0.1, the best 0.2 at 0.01" in (
        drawing.alternative
    )


def test_the_winner_of_every_tuning_is_marked(home, monkeypatch):
    search = told({0.001: 0.4, 0.002: 0.25, 0.01: 0.2, 0.02: 0.3})
    assert len(Coverage.of(search, "sus").winners()) == 1
    tuning = {0.001: 0, 0.002: 0, 0.01: 1, 0.02: 1}
    monkeypatch.setattr(coverage, "_replicate", lambda run: tuning[run.lr])
    assert [run.lr for run in Coverage.of(search, "sus").winners()] == [0.002, 0.01]
    drawing = drawn(what_was_tried, search)
    (thin,) = lines(drawing.figure.axes[0], markersize=7)
    assert list(thin.get_xdata()) == [0.002, 0.01]
    assert "best of each tuning" in {text.get_text() for text in drawing.figure.legends[0].get_texts()}


def test_the_expected_best_is_a_line_per_strategy_with_diverged_ones_as_worst(home):
    story = Story()
    tell(story, "sus", {0.001: 0.4, 0.01: 0.2, 0.05: None})
    tell(story, "io", {0.001: 0.1, 0.01: 0.3})
    tell(story, "ius", {0.001: None})
    drawing = drawn(expected_bests, SearchData.read(story.end()))
    assert (drawing.key, drawing.title) == ("expected-best", "Expected best against number of trials")
    found = {line.get_label(): line for line in drawing.figure.axes[0].get_lines()}
    assert list(found) == ["sus", "io"]
    assert list(found["sus"].get_xdata()) == [1, 2, 3]
    assert found["sus"].get_ydata() == pytest.approx(expected_best([0.4, 0.2], lost=1))
    assert "io from 0.2 with one trial to 0.15 with 2" in drawing.alternative


def test_crosses_stand_where_the_worst_is(home):
    search = told({0.001: 0.4, 0.01: 0.2, 0.05: None}, objective="val/left/accuracy:max")
    (crosses,) = lines(drawn(what_was_tried, search).figure.axes[0], marker="x")
    assert set(crosses.get_ydata()) == {0.05}
    assert drawn(expected_bests, search).figure.axes[0].get_lines()[0].get_ydata()[-1] > 0.7


def nothing(story):
    pass


def one_trial(story):
    tell(story, "sus", {0.01: 0.2})


def all_diverged(story):
    tell(story, "sus", {0.01: None, 0.02: None})


@pytest.mark.parametrize("happens", [nothing, one_trial, all_diverged])
def test_without_anything_to_compare_there_is_no_figure(home, happens):
    story = Story(dimensions=searched())
    happens(story)
    search = SearchData.read(story.end())
    assert drawn(what_was_tried, search) is drawn(expected_bests, search) is None


def test_one_learning_rate_has_an_expected_best_but_no_coverage(home):
    story = Story(dimensions={"io": {"groups": {"points": [2, 4]}}})
    for groups in (2, 4):
        tell(story, "io", {0.01: 0.1 * groups}, groups=groups)
    search = SearchData.read(story.end())
    assert drawn(what_was_tried, search) is None
    assert drawn(expected_bests, search) is not None


def copies(search, strategies, count):
    """The only trial again, with many learning rates and of many strategies."""
    (one,) = search.trials
    made = []
    for index in range(count):
        strategy, lr = strategies[index % len(strategies)], 10 ** (-4 + 3 * index / count)
        value = (-1.0) ** index * (1 + abs(math.log10(lr / 0.01)))
        outcome = ("completed", "stopped_early", "completed", "diverged")[index // len(strategies) % 4]
        config = {**one.config, "strategy": strategy, "lr": lr}
        run_id = f"{one.run_id}-{index}"
        made.append(
            replace(one, run_id=run_id, config=config, outcome=outcome, metrics={**one.metrics, "best/val/loss": value})
        )
    return replace(search, trials=made, winners=dict.fromkeys(strategies, search.winners["sus"]))


@pytest.mark.parametrize(("strategies", "count"), [(10, 40), (2, 1000), (1, 3)])
def test_many_and_few_are_drawn_and_judged(home, strategies, count):
    names = list(registry)[:strategies]
    search = copies(told({0.01: 0.2}), names, count)
    tried, expected = drawn(what_was_tried, search), drawn(expected_bests, search)
    assert sum(axes.get_visible() for axes in tried.figure.axes) == strategies
    assert len(expected.figure.axes[0].get_lines()) == strategies
    for drawing in (tried, expected):
        assert drawing.file("png").startswith(b"\x89PNG")
        assert "nan" not in drawing.alternative
    assert isinstance(coverage.warnings(search), list)


def test_a_best_that_is_cut_off_has_no_ring_outside_of_the_picture(home):
    story = Story(dimensions=searched(RANGE, "sus", "io"))
    tell(story, "sus", {0.001 * (index + 1): 0.1 + 0.001 * index for index in range(6)})
    tell(story, "io", {0.001: 1e6, 0.002: 1e7})
    drawing = drawn(what_was_tried, SearchData.read(story.end()))
    sus, io = drawing.figure.axes
    assert lines(sus, markersize=8.5)
    assert not lines(io, markersize=8.5)


def test_the_figures_follow_the_learning_rates(home):
    search = told({0.001: 0.4, 0.01: 0.2})
    keys = [drawing.key for drawing in draw_all(Results.of(search))]
    assert keys[:3] == ["learning-rates", "coverage", "expected-best"]
