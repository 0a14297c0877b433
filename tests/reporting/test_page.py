"""The page as people see it: in a real browser, wide and narrow, light and dark."""

import re

import pytest

import tune_mtl
from tests.browser import needs_chromium, opened
from tests.reporting.stories import Story
from tune_mtl.strategies.registry import registry


def test_a_report_is_self_contained_and_its_own_colours(reported):
    page = reported[0].page.read_text()
    links = re.findall(r"""(?:src|href|xlink:href)=["']([^"']+)""", page)
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    for figure in re.findall(r"<svg [^>]*>", page):
        assert re.search(r'role="img" aria-label="[^"]{20,}"', figure)
    assert "currentColor" in page


def test_markup_in_names_is_only_text(home):
    story = Story(tasks=["<script>alert(1)</script>", "b"])
    story.trial("sus", 0.5)
    page = tune_mtl.report(story.end()).page.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (390, True)])
def test_the_page_in_a_browser(reported, width, dark):
    written = reported[0]
    complaints = []
    with opened("about:blank", width=width, dark=dark) as page:
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.goto(written.page.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for table in written.tables["made"]:
            assert page.locator(f"#table-{table.key} tbody tr").count() == len(table.rows)
            if width > 1000:
                box = page.locator(f"#table-{table.key} .scroll")
                assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
        assert page.locator("figure svg").count() == 9
        for box in page.locator("figure svg").all():
            assert box.bounding_box()["height"] > 100
            assert box.bounding_box()["width"] <= width
        assert page.locator(".claims > li").count() == 6
        ink, ground = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > sum(map(int, re.findall(r"\d+", ground)[:3]))) is dark
    assert not complaints


def crowded():
    """All strategies at once, on more tasks than a screen is wide."""
    tasks = [f"Wearing_Something_Long_{index}" for index in range(16)]
    measured = {name: 0.1 for task in tasks for name in (f"loss/{task}", f"{task}/accuracy")}
    modes = {name: "min" if name.startswith("loss") else "max" for name in measured}
    story = Story("crowded", tasks=tasks, metrics={"loss": "min", **modes})
    for index, (strategy, info) in enumerate(list(registry.items())[:12]):
        told = {
            "groups": 20 if info.has_groups else None,
            "extra": measured,
            "path": 10.0 if info.shares_trunk else None,
        }
        story.trial(strategy, 0.5 + 0.01 * index, **told)
        story.confirm(strategy, [0.5 + 0.01 * index], **told)
    return story.end()


def extreme():
    """Numbers and names as long as they get."""
    name = "a_search-with.a-name.that_goes_on-and-on." * 2
    story = Story(name, tasks=["a_b c", "x-y"], settings={"algorithm": "grid", "scheduler": "none"})
    for strategy, value in (("sus", 3e280), ("ius", 1.0), ("io", -1e-12)):
        for seed in range(2):
            story.trial(strategy, value * (1 + seed), seed=seed, lr=1e-9, groups=[["a_b c"], ["x-y"]], path=1e200)
    return story.end()


@needs_chromium
@pytest.mark.slow
def test_crowded_and_extreme_pages_stay_within_a_phone(home):
    page_file = tune_mtl.report(crowded(), extreme()).page
    complaints = []
    with opened("about:blank", width=390) as page:
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(page_file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("#table-crowded-tasks tbody tr").count() == 16
        page.emulate_media(media="print")
        assert page.locator(".files").first.is_hidden()
    assert not complaints


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_repeated_tunings_in_a_browser(repeated_search, width):
    written, search = repeated_search
    complaints = []
    with opened("about:blank", width=width) as page:
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(written.page.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        told = page.locator("section.answer").inner_text()
        assert told.startswith("io is best on average (of io, ius, sus), but not told apart from ius.")
        assert "paired by tuning" in told
        assert page.locator("#table-tunings tbody tr").count() == 3 * len(search.replicates)
        assert "4 tunings of 2 trials of every strategy" in page.locator("dl").inner_text()
        assert page.locator("section.answer").bounding_box()["y"] < 900
    assert not complaints


@needs_chromium
@pytest.mark.slow
def test_much_that_is_missing_does_not_push_results_away(repeated_search):
    written = repeated_search[0]
    with opened(written.page.as_uri(), width=390) as page:
        shown = [item.is_visible() for item in page.locator("section.missing li").all()]
        assert shown == [index < 6 for index in range(len(written.answers["tunings"].missing))]
        page.locator("section.missing summary").click()
        assert all(item.is_visible() for item in page.locator("section.missing li").all())
