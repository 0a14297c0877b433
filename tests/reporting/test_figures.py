"""Figures: colours for everybody, axes that show what matters, points that stand for all seeds."""

import itertools

import pytest
from matplotlib.figure import Figure

import tune_mtl
from tests.reporting.stories import Story, usual
from tune_mtl.reporting.figures.plots import learning_rates
from tune_mtl.reporting.figures.style import PALETTE, fit_values, label_points, looks, style
from tune_mtl.reporting.page import STYLE
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.pareto import pareto, quality_and_cost
from tune_mtl.results.search_data import SearchData
from tune_mtl.strategies.registry import registry


def test_where_more_is_better_the_best_stays_in_the_picture(home):
    story = Story(objective="val/left/accuracy:max")
    for index, value in enumerate((0.1, 0.11, 0.1, 0.12, 0.95)):
        story.trial("sus", value, lr=0.01 * (index + 1))
    story.end()
    search = SearchData.read("made")
    with style():
        drawing = learning_rates(Results.of(search), looks(search.strategies))
    (axes,) = drawing.figure.axes
    low, high = axes.get_ylim()
    values = [run.metrics["best/val/left/accuracy"] for run in search.trials]
    assert high >= max(values)
    assert low > min(values)


def test_looks_differ_for_every_strategy():
    found = looks(list(registry))
    assert len({(look.color, look.marker) for look in found.values()}) == len(registry)


def luminance(color):
    parts = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("ground", ["#ffffff", "#14181c"])
def test_every_colour_stands_out_from_light_and_dark_pages(ground):
    assert ground == "#ffffff" or f"--page: {ground}" in STYLE
    for color in PALETTE:
        low, high = sorted((luminance(color), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3, color


def test_a_strategy_has_one_colour_on_a_page_of_several_searches(home):
    few = Story("few", tasks=[])
    for strategy in ("sus", "io"):
        few.trial(strategy, 0.5, path=None)
    few.end()
    usual("more", tasks=[]).end()
    written = tune_mtl.report("few", "more")
    color = looks(["sus", "ius", "io"])["io"].color
    for search in ("few", "more"):
        assert color.lower() in (written.page.parent / search / "learning-rates.svg").read_text().lower()
    assert looks(["sus", "ius"])["ius"].color not in (written.page.parent / "few" / "learning-rates.svg").read_text()


def test_quality_against_cost_shows_means_over_seeds_not_the_luckiest(home):
    story = Story(settings={"algorithm": "grid", "scheduler": "none"})
    for seed, (lucky, steady) in enumerate(((0.1, 0.4), (0.9, 0.4), (0.8, 0.4))):
        story.trial("sus", lucky, lr=0.1, seed=seed)
        story.trial("sus", steady, lr=0.01, seed=seed)
        story.trial("io", 0.5, groups=2, seed=seed)
    story.confirm("sus", [0.45, 0.47])
    story.end()
    search = SearchData.read("made")
    with style():
        drawing = quality_and_cost(Results.of(search), looks(search.strategies))
    (axes,) = drawing.figure.axes
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert drawn["sus"].get_ydata()[0] == pytest.approx(0.46)
    assert drawn["io"].get_ydata()[0] == pytest.approx(0.5)
    assert drawn["io"].get_markerfacecolor() == "none"
    assert drawn["sus"].get_markerfacecolor() != "none"
    assert [text.get_text() for text in axes.texts] == ["2 gr."]


def test_the_front_holds_whom_nobody_beats_in_both():
    assert pareto([(3, 1), (1, 3), (2, 2), (2, 4), (4, 1), (1, 3)]) == [(1, 3), (2, 2), (3, 1)]


@pytest.mark.parametrize(
    ("values", "sign", "scale", "cut"),
    [
        ([0.1, 0.12, 0.2, 1.1], 1, "log", False),
        ([0.1, 0.12, 0.14, 0.2], 1, "linear", False),
        ([0.1, 0.12, 0.14, 5e9], 1, "log", True),
        ([0.9, 0.88, 0.87, 0.1], -1, "linear", True),
        ([-1.0, 0.1, 0.2, 0.3], 1, "linear", False),
        ([-1.0, -0.9, -0.8, 50.0], 1, "linear", True),
    ],
)
def test_axes_show_the_good_ones_apart(values, sign, scale, cut):
    axes = Figure().subplots()
    axes.plot(range(len(values)), values)
    fit_values([axes], sign)
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    best = min(values, key=lambda value: sign * value)
    assert low <= best <= high
    assert any(not low <= value <= high for value in values) is cut
    assert any("cut off" in text.get_text() for text in axes.texts) is cut


def test_labels_do_not_cover_each_other():
    figure = Figure(figsize=(4.8, 2.9))
    axes = figure.subplots()
    points = [(1.0 + 0.01 * index, 1.0, f"{index} groups") for index in range(4)]
    axes.plot([0, 2], [0, 2])
    label_points(axes, points)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
