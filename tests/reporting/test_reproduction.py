"""The paper's tables, figures and claims on made-up searches, of which everybody can see what they must show."""

import re
from dataclasses import replace

import pytest

from tests.reporting.stories import Imagined, fresh_seed, text_of
from tune_mtl.reporting.claims import Findings
from tune_mtl.reporting.figures.style import looks
from tune_mtl.reporting.reproduction.figures import groups_figure, losses_figure
from tune_mtl.reporting.reproduction.places import Place
from tune_mtl.reporting.reproduction.six_claims import six_claims
from tune_mtl.reporting.reproduction.tables import distances_table, groups_table, results_table
from tune_mtl.reporting.reproduction.write import write_page
from tune_mtl.reporting.results import Results
from tune_mtl.tracking import names

SEEDS = 4
NOISE = (0.0, 0.01, -0.01, 0.004)
OTHER = (0.01, -0.004, 0.0, -0.01)
GRID = {"algorithm": "grid", "scheduler": "none", "strategies": ["sus", "ius", "io"]}
LOSSES = {"loss": "min", "loss/a": "min", "loss/b": "min"}


def made(name, problem, values, *, metrics, tasks=("a", "b"), alike, extra, equal=None):
    """A grid: ``values`` by strategy and groups, every choice trained again on a fresh seed."""
    facts = {"tasks": list(tasks), "homogeneous": alike, "metrics": {**LOSSES, **metrics}}
    story = Imagined(name, settings=GRID, total=0, **facts)
    for seed in range(SEEDS):
        best = {}
        for index, ((strategy, groups), value) in enumerate(values.items()):
            reached = value * (1 + 0.2 * (NOISE if index % 2 else OTHER)[(seed + index) % SEEDS])
            for lr, worse in ((0.01, 1.0), (0.1, 1.1)):
                told = {"groups": groups, "seed": seed, "replicate": seed, "path": 10.0 * (groups or 1) * (1 + lr)}
                more = {"without": ("left/accuracy", "sum/mae", "loss/left", "loss/sum")}
                told |= {"extra": {"loss/a": reached, "loss/b": reached, **extra(worse * reached)}, **more}
                story.trial(strategy, worse * reached, lr=lr, updates=40 * (groups or 1), **told)
            if strategy not in best or reached < best[strategy][0]:
                best[strategy] = reached, groups
        for strategy, (reached, groups) in best.items():
            told = {"groups": groups, "replicate": seed, "updates": 40 * (groups or 1), "path": 10.0 * (groups or 1)}
            told |= {"extra": extra(reached), **more}
            story.rerun(strategy, fresh_seed(seed), reached, **told)
        if equal is not None:
            value = equal * (1 + 0.2 * OTHER[seed])
            told = {"role": names.EQUAL_UPDATES, "replicate": seed, "updates": 80, **more}
            story.rerun("sus", fresh_seed(seed), value, extra=extra(value), **told)
    search = replace(story.search(), problem=problem)
    return Findings(search, Results.of(search))


def several_kinds(**changed):
    values = {("sus", None): 0.5, ("ius", 2): 0.45, ("io", 2): 0.3} | changed.pop("values", {})
    told = {"alike": False, "equal": 0.4, **changed}
    return made(
        "several", "multidigits", values, metrics={"a/accuracy": "max", "b/mae": "min"},
        extra=lambda value: {"a/accuracy": 1 - value, "b/mae": value}, **told,
    )  # fmt: skip


def one_kind(values=None):
    usual = {("sus", None): 0.52, ("ius", 2): 0.5, ("ius", 4): 0.56, ("io", 2): 0.5, ("io", 4): 0.57}
    return made(
        "forty", "glyphs", values or usual, metrics={"error": "min", "f1": "max"}, tasks="abcd", alike=True,
        extra=lambda value: {"error": value / 10, "f1": 1 - value, "a/f1": 0.5},
    )  # fmt: skip


@pytest.fixture(scope="module")
def places():
    first, second = several_kinds(), one_kind()
    return [
        Place(1, "NYUv2", "multidigits", first),
        Place(2, "Cityscapes", "multidigits", first, ("b",)),
        Place(3, "CelebA", "glyphs", second),
    ]


def test_table_one_has_a_row_per_method_and_the_metrics_of_every_task(places):
    table = results_table(places[0])
    assert table.title == "Table 1: multidigits in the place of NYUv2"
    assert table.header == ["method", "a/accuracy ↑", "b/mae ↓", "Rank ↓"]
    assert [row[0].text for row in table.rows] == ["MTL-SUS", "MTL-IUS", "MTL-IO"]
    best = table.rows[2]
    assert all(cell.strong for cell in best[1:])
    assert [row[3].text for row in table.rows] == ["3.00", "2.00", "1.00"]
    assert best[2].value.count == SEEDS
    assert best[2].value.mean == pytest.approx(0.3, rel=0.01)


def test_table_two_shows_the_part_of_the_stand_in_that_resembles_the_data_set(places):
    table = results_table(places[1])
    assert table.title == "Table 2: multidigits, b alone, in the place of Cityscapes"
    assert table.header == ["method", "b/mae ↓", "Rank ↓"]


def test_table_three_has_every_number_of_groups(places):
    table = groups_table(places[2])
    assert table.header == [
        "method", "validation/error ↓", "validation/f1 ↑", "test, fresh seeds/error ↓", "test, fresh seeds/f1 ↑",
        "Rank ↓",
    ]  # fmt: skip
    assert [row[0].text for row in table.rows] == [
        "MTL-SUS", "MTL-IUS (2 groups)", "MTL-IUS (4 groups)", "MTL-IUS (count tuned)", "MTL-IO (2 groups)",
        "MTL-IO (4 groups)", "MTL-IO (count tuned)",
    ]  # fmt: skip
    of = {row[0].text: row for row in table.rows}
    assert of["MTL-IUS (4 groups)"][1].value.mean == pytest.approx(0.056, rel=0.01)
    assert of["MTL-IUS (count tuned)"][1].value == of["MTL-IUS (2 groups)"][1].value  # 2 groups won in every tuning
    assert [cell.text for cell in of["MTL-IO (4 groups)"][3:]] == ["-", "-", "-"]
    assert of["MTL-SUS"][5].text == "3.00"


def test_table_four_has_all_distances_of_every_search_once(places):
    table = distances_table(places)
    assert table.header == ["dataset", "model", "Total covered dist.", "Shortest path", "Ratio"]
    named = [(row[0].text, row[1].text) for row in table.rows]
    assert named == [
        ("multidigits", "SUS"), ("multidigits", "IUS (2 groups)"), ("multidigits", "IO (2 groups)"),
        ("glyphs", "SUS"), ("glyphs", "IUS (2 groups)"), ("glyphs", "IUS (4 groups)"), ("glyphs", "IO (2 groups)"),
        ("glyphs", "IO (4 groups)"),
    ]  # fmt: skip
    sus, ius = table.rows[0], table.rows[1]
    assert ius[2].value.mean == pytest.approx(2 * sus[2].value.mean)


def test_figures_are_the_papers(places):
    styles = looks(["sus", "ius", "io"])
    first, second = losses_figure(places[0], styles), losses_figure(places[1], styles)
    assert len(first.figure.axes) == 4  # the average, two tasks, and an empty place
    assert [axes.get_title() for axes in second.figure.axes] == ["b"]
    assert "MTL-IO" in first.alternative
    third = groups_figure(places[2], styles)
    left, right = third.figure.axes
    assert left.get_legend_handles_labels()[1] == ["MTL-SUS", "MTL-IUS, 2 groups", "MTL-IUS, 4 groups"]
    assert right.get_legend_handles_labels()[1] == ["MTL-SUS", "MTL-IO, 2 groups", "MTL-IO, 4 groups"]
    assert third.key == "figure-3"


def verdicts(*found):
    return [claim.verdict for claim in six_claims(found)]


def test_six_claims_have_one_verdict_each():
    found = six_claims([several_kinds(), one_kind()])
    assert [claim.verdict for claim in found] == ["holds"] * 6
    assert {part.partition(":")[0] for part in found[0].numbers.split("; ")} == {"multidigits", "glyphs"}
    assert "multidigits: needs whole runs with several group counts" in found[1].numbers  # glyphs has them, and decides
    assert "glyphs" not in found[2].numbers  # which of several kinds is best is asked of such tasks alone


def test_one_search_can_refute_what_the_other_supports():
    backwards = {("sus", None): 0.3, ("ius", 2): 0.4, ("io", 2): 0.5}
    assert verdicts(several_kinds(values=backwards), one_kind())[2] == "does not hold"
    few_are_worse = {("sus", None): 0.5, ("ius", 2): 0.6, ("ius", 4): 0.5, ("io", 2): 0.6, ("io", 4): 0.5}
    assert verdicts(several_kinds(), one_kind(few_are_worse))[3] == "does not hold"


def test_what_cannot_be_told_says_how_many_tunings_would():
    near = {("sus", None): 0.3002, ("ius", 2): 0.3001, ("io", 2): 0.3}
    claim = six_claims([several_kinds(values=near), one_kind()])[2]
    assert claim.verdict == "cannot tell"
    assert claim.needed > SEEDS
    last = claim.numbers.split("; ")[-1]
    assert re.search(r"about \d+ tunings, each with a seed of its own, would tell$|more than 1000 tunings", last)


def test_an_advantage_that_is_none_does_not_survive():
    backwards = {("sus", None): 0.3, ("ius", 2): 0.4, ("io", 2): 0.5}
    claim = six_claims([several_kinds(values=backwards, equal=0.3), one_kind()])[4]
    assert claim.verdict == "does not hold"
    assert claim.numbers.startswith("there is no significant advantage to begin with")


def test_the_page_is_one_file_with_all_of_it(places, tmp_path):
    written = write_page(places, ["left out: <b>"], "tune-mtl reproduce --quick", tmp_path / "deep" / "page.html")
    assert [path.name for path in written.page.parent.iterdir()] == ["page.html"]
    page = written.page.read_text()
    links = re.findall(r"""(?:src|href|xlink:href)=["']([^"']+)""", page)
    assert all(link.startswith(("#", "data:")) for link in links)
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert page.count("<svg ") == 3
    text = text_of(written.page)
    for words in ("Table 1", "Table 2", "Table 3", "Table 4", "Figure 1", "Figure 2", "Figure 3", "left out: <b>"):
        assert words in text
    assert "tune-mtl reproduce --quick" in text
    assert len(written.claims) == 6
    for claim in written.claims:
        assert re.search(rf"{claim.verdict}\s+{re.escape(claim.text)}", text)
    assert "Of the paper's 6 claims, 6 hold on these data, 0 do not, and 0 cannot be told." in text
