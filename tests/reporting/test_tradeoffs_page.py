"""The trade-offs of few and of many tasks as people see them: in a real browser, wide and narrow."""

from itertools import pairwise

import numpy as np
import pytest

import tune_mtl
from tests.browser import needs_chromium, opened
from tests.reporting.conftest import use_home
from tests.reporting.stories import Story, by_task, facts_of_tasks

FEW, MANY = 4, 40


def told(tasks):
    rng, names = np.random.default_rng(0), [f"Wearing_Something_{index}" for index in range(tasks)]
    strategies = ["sus", "io", "ius"]
    reached = {
        strategy: {task: list(1 + 0.1 * rng.normal() * place + 0.01 * rng.normal(size=2)) for task in names}
        for place, strategy in enumerate(strategies)
    }
    story = Story(
        f"tasks{tasks}", settings={"strategies": strategies}, ranked_by="single trials", trials_per_tuning=1,
        **facts_of_tasks(names),
    )  # fmt: skip
    return by_task(reached, into=story).end()


@pytest.fixture(scope="module")
def written(tmp_path_factory, empty_store):
    with pytest.MonkeyPatch.context() as patched:
        use_home(tmp_path_factory.mktemp("tradeoffs"), empty_store, patched)
        return tune_mtl.report(told(FEW), told(MANY))


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_few_and_many_tasks_fit_the_screen(written, width):
    complaints = []
    with opened("about:blank", width=width) as page:
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(written.page.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("h3", has_text="Trade-offs between tasks").count() == 2
        for tasks in (FEW, MANY):
            drawn = page.locator(f'figure:has([id^="tasks{tasks}-task-changes-"])').first
            rows = drawn.locator("text", has_text="Wearing_Something_")
            assert rows.count() == tasks
            boxes = sorted((row.bounding_box() for row in rows.all()), key=lambda box: box["y"])
            assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
            assert all(below["y"] - above["y"] >= 9 for above, below in pairwise(boxes))
            assert min(box["height"] for box in boxes) >= 8
        text = page.locator("main").inner_text()
        assert f"not computed for {MANY} tasks" in text
        folded = page.locator("details", has_text="More of it").first
        assert folded.locator("table").first.is_hidden()
        folded.locator("summary").click()
        assert folded.locator("table").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not complaints
