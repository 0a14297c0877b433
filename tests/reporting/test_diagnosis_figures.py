"""What was diagnosed is on the page, readable on a phone with 40 tasks; what was not leaves no trace there."""

import json

import numpy as np
import pytest

import tune_mtl
from tests.browser import needs_chromium, opened
from tests.reporting.stories import Story, text_of
from tune_mtl.reporting.figures.diagnosis import Affinities
from tune_mtl.tracking import names

HEADING = "Gradients of the tasks"


def diagnosed(tasks):
    """Two strategies that were diagnosed, and stl, which cannot be."""
    story = Story("diagnosed", tasks=tasks)
    random = np.random.default_rng(0)
    for index, strategy in enumerate(("sus", "io", "stl")):
        each = {
            "diagnosis/conflict_share": 0.25,
            "diagnosis/norm_spread": 3.0,
            "path/layer/0": 1.0,
            "path/layer/10": 9.0,
        }
        alone = {"each": None, "path": None} if strategy == "stl" else {"each": each}
        story.trial(strategy, 0.5 - 0.1 * index, groups=2 if strategy == "io" else None, **alone)
        if strategy == "stl":
            continue
        cosines = {}
        for epoch in range(1, 5):
            drawn = random.uniform(-0.3, 0.3, (len(tasks), len(tasks)))
            drawn = (drawn + drawn.T) / 2
            np.fill_diagonal(drawn, np.nan)
            cosines[str(epoch)] = [[None if np.isnan(value) else value for value in row] for row in drawn.tolist()]
        content = json.dumps({"tasks": tasks, "cosines": cosines})
        story.runs["trial"].note(f"{index:04d}", content, names.DIAGNOSIS_FILE)
    return story.end()


def test_the_mean_over_epochs_leaves_out_what_was_not_defined():
    seen = {
        "tasks": ["a", "b", "c"],
        "cosines": {
            "2": [[None, 0.5, None], [0.5, None, None], [None, None, None]],
            "10": [[None, -0.1, 0.4], [-0.1, None, None], [0.4, None, None]],
        },
    }
    found = Affinities.of("io", seen)
    assert found.last[0, 1] == -0.1  # epoch 10 comes after epoch 2
    assert found.mean[0, 1] == pytest.approx(0.2)
    assert found.mean[0, 2] == 0.4
    assert np.isnan(found.mean[1, 2])
    assert (found.joined[0, 1], found.joined[1, 0]) == (-0.1, pytest.approx(0.2))
    assert "0.2 (b and a) to 0.4 (c and a)" in found.in_words()
    assert Affinities.of("io", {}) is None


def test_few_tasks_share_a_figure_and_stl_is_named(home):
    report = tune_mtl.report(diagnosed(["left", "sum", "third"]))
    text = text_of(report.page)
    assert HEADING in text
    assert "stl: no shared trunk" in text
    assert "sus 25% of pairs" in report.page.read_text()
    assert {path.name for path in report.page.parent.glob("*.svg")} >= {
        "affinities.svg", "conflicts.svg", "layer-paths.svg"
    }  # fmt: skip


def test_a_search_that_was_not_diagnosed_has_no_section(reported):
    assert HEADING not in text_of(reported[0].page)


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_forty_tasks_are_readable_without_scrolling(home, width):
    tasks = [f"Wearing_Thing_{index}" for index in range(40)]
    page_file = tune_mtl.report(diagnosed(tasks)).page
    with opened(page_file.as_uri(), width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for strategy in ("sus", "io"):
            figure = page.locator(f"figure:has(#diagnosed-affinities-{strategy}-axes_1) svg")
            box = figure.bounding_box()
            assert box["width"] <= width
            labels = figure.locator("text").filter(has_text="Wearing_Thing_")
            assert labels.count() == 40
            places = sorted(label.bounding_box()["y"] for label in labels.all())
            assert min(np.diff(places)) >= 7  # pixels from one line to the next
