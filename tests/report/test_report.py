"""Reports of searches whose numbers are made up: what the page says, and what it says is missing."""

import csv
import html
import json
import re
import shutil
import subprocess
import sys

import pytest

import tune_mtl
from tests.browser import needs_chromium, opened
from tests.report.conftest import use_home
from tests.report.stories import Story, usual
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.report.answer import answer
from tune_mtl.report.drawing import looks, style
from tune_mtl.report.evidence import Evidence
from tune_mtl.report.figures import learning_rates
from tune_mtl.report.results import Results, equal_updates
from tune_mtl.report.write import search_command, write_report
from tune_mtl.strategies.registry import registry
from tune_mtl.tracking import names


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL)))


@pytest.fixture(scope="module")
def reported(tmp_path_factory, empty_store):
    """The usual search with its report, once for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("reported")
    with pytest.MonkeyPatch.context() as patched:
        use_home(folder, empty_store, patched)
        written = tune_mtl.report(usual().end())
        return written, Evidence.read("made")


def test_the_usual_report(reported):
    written = reported[0]
    assert written.page.parts[-3:] == ("reports", "made", "index.html")
    assert written.confirmed
    said = written.answer
    assert "io with 2 groups at learning rate 0.01 is best (of io, ius, sus)." in said
    assert "loss on test: 0.3000 ± 0.0100 over 3 fresh seeds." in said
    assert "Next is ius (2 groups), 0.15 worse" in said
    assert "The difference to every other strategy is significant" in said
    assert "Given as many updates, sus reaches 0.3013 ± 0.0105, which is not told apart from it" in said
    keys = [table.key for table in written.tables["made"]]
    assert keys == ["quality", "losses", "equal-updates", "path-common", "path-best", "cost", "search"]
    quality = written.tables["made"][0]
    assert quality.header == ["strategy", "loss ↓", "average rank ↓", "left/accuracy ↑", "sum/mae ↓"]
    assert [row[0].text for row in quality.rows] == ["io (2 groups)", "ius (2 groups)", "sus"]
    assert [[cell.strong for cell in row[1:]] for row in quality.rows] == [[True] * 4, [False] * 4, [False] * 4]
    assert [row[2].value for row in quality.rows] == [1.0, 2.0, 3.0]
    page = text_of(written.page)
    for words in ("What is missing", "abacus"):
        assert (words in page) is (words == "abacus")
    for table in written.tables["made"]:
        assert table.title in page


def test_every_table_and_figure_is_a_file_and_an_artifact(reported):
    written, evidence = reported
    folder = written.page.parent
    files = {path.name for path in folder.iterdir()}
    for table in (*written.tables["made"], None):
        key = "claims" if table is None else table.key
        assert {f"{key}.md", f"{key}.tex", f"{key}.csv"} <= files
    figures = {"learning-rates", "task-learning-rates", "learning-curves", "paths", "quality-and-cost"}
    assert {f"{name}.{kind}" for name in figures for kind in ("svg", "pdf", "png")} <= files
    rows = list(csv.DictReader((folder / "quality.csv").open()))
    assert float(rows[0]["loss ↓"]) == pytest.approx(0.3)
    attached = {artifact.path for artifact in evidence.client.list_artifacts(evidence.run_id, "report")}
    assert attached == {f"report/{name}" for name in files}


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


def test_only_confirming_runs_decide_and_each_role_is_kept_apart(reported):
    evidence = reported[1]
    results = Results.of(evidence)
    assert results.confirmed
    assert results.prefix == "test/"
    assert results.values("sus", "loss") == [0.50, 0.51, 0.49]
    assert equal_updates(results) == {"io": [0.30, 0.31, 0.29], "ius": [0.45, 0.46, 0.44], "sus": [0.301, 0.312, 0.291]}
    assert evidence.common_lr == 0.01
    assert {name: len(runs) for name, runs in evidence.paths().items()} == {
        "sus": 3,
        "ius (2 groups)": 3,
        "io (2 groups)": 3,
    }


def test_the_winner_is_chosen_on_validation_not_on_test(home):
    story = Story()
    story.trial("sus", 0.5)
    story.trial("io", 0.4, groups=2)
    story.confirm("sus", [0.50, 0.51])
    story.confirm("io", [0.40, 0.41], groups=2, without=["loss"])
    story.end()
    results = Results.of(Evidence.read("made"))
    assert results.values("io", "loss") == []
    said = write_report("made").answers["made"]
    assert "loss" in " ".join(said.missing)
    assert "Too few results to compare with: sus" not in str(said)


def test_single_task_networks_give_delta_m(home):
    story = usual(strategies=["sus", "ius", "io", "stl"])
    story.trial("stl", 0.4, path=None)
    story.confirm("stl", [0.40, 0.41, 0.39], path=None)
    tables = {table.key: table for table in tune_mtl.report(story.end()).tables["made"]}
    quality = tables["quality"]
    assert quality.header[3] == "Δm % ↑"
    gains = {row[0].text: row[3].value for row in quality.rows}
    accuracy, error = (0.7 - 0.6) / 0.6, (0.4 - 0.3) / 0.4
    assert gains["io (2 groups)"] == pytest.approx(100 * (accuracy + error) / 2)
    assert gains["stl"] is None
    assert "stl" not in {row[0].text for row in tables["path-common"].rows}


def one_strategy(story):
    story.trial("io", 0.3, groups=2)
    story.end()


def one_seed(story):
    story.trial("sus", 0.5)
    story.trial("io", 0.3, groups=2)
    story.confirm("sus", [0.5])
    story.confirm("io", [0.3], groups=2)
    story.end()


def all_diverged(story):
    story.trial("sus", 9.0, outcome="diverged")
    story.trial("io", 9.0, outcome="diverged")
    story.end()


def missing_metric(story):
    story.trial("sus", 0.5, without=["sum/mae"])
    story.trial("io", 0.3, groups=2)
    story.end()


def still_running(story):
    story.trial("sus", 0.5)
    story.trial("io", 0.3, groups=2, outcome="running")


def nothing_yet(story):
    pass


def all_failed(story):
    story.trial("io", 0.3, groups=2, path=None, outcome="failed")
    story.end()


@pytest.mark.parametrize(
    ("tell", "says"),
    [
        (one_strategy, ["Only io was searched", "Nothing is confirmed"]),
        (one_seed, ["One seed only", "One seed: no test is possible"]),
        (all_diverged, ["No trial has ended well", "No trial of sus, io ended well (diverged)", "Nothing to draw yet"]),
        (missing_metric, ["Not defined for every strategy: sum/mae"]),
        (still_running, ["1 of 6 trials have ended", "No trial of io ended well (running)"]),
        (nothing_yet, ["No trial has ended well", "The search is still running"]),
        (all_failed, ["(failed)"]),
    ],
)
def test_what_is_missing_is_said(home, tell, says, capsys, monkeypatch):
    tell(Story())
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "report", "made"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    assert "the whole report: " in capsys.readouterr().out
    page = text_of(home / "reports" / "made" / "index.html")
    for words in says:
        assert words in page


def test_older_searches_without_facts_have_a_report_too(home):
    story = Story(tasks=[], metrics={})
    story.trial("sus", 0.5)
    assert "sus at learning rate 0.01 is best" in tune_mtl.report(story.end()).answer


def test_several_searches_on_one_page(home, tmp_path):
    usual("first").end()
    usual("second").end()
    written = tune_mtl.report("first", "second", out=tmp_path / "both")
    page = text_of(written.page)
    assert page.count("is best (of io, ius, sus)") == 2
    assert (tmp_path / "both" / "second" / "quality.csv").exists()
    assert "second: IUS and IO travel further" in page


def test_names_and_places_are_checked(home, tmp_path):
    with pytest.raises(UserError, match="there is no search 'nobody'"):
        tune_mtl.report("nobody")
    with pytest.raises(UserError, match=r"name .* cannot be used"):
        tune_mtl.report("../x")
    usual().end()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written to .*file.*--out"):
        tune_mtl.report("made", out=tmp_path / "file")


def test_markup_in_names_is_only_text(home):
    story = Story(tasks=["<script>alert(1)</script>", "b"])
    story.trial("sus", 0.5)
    page = tune_mtl.report(story.end()).page.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_command_repeats_the_search_and_hides_places(home):
    told = {
        "strategies": ["sus", "io"], "samples": 4, "lr": "1e-3:1e-1", "fixed": {"model_width": 3}, "confirm": 2,
        "tracking_uri": "http://user:secret@host", "storage": "/private", "space": "wide", "seed": 0,
    }  # fmt: skip
    story = Story(settings=told)
    story.trial("sus", 0.5)
    story.end()
    evidence = Evidence.read("made")
    expected = "tune-mtl search made --strategies sus,io --samples 4 --lr 1e-3:1e-1 --set model_width=3 --confirm 2"
    assert sorted(search_command(evidence).split()) == sorted(expected.split())
    assert "secret" not in write_report("made").page.read_text()


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no TeX on this machine (apt install texlive-latex-recommended)"
)
def test_all_tables_compile_in_a_paper(reported, tmp_path):
    folder = reported[0].page.parent
    inputs = "".join(path.read_text().replace("{table}", "{table*}") for path in sorted(folder.glob("*.tex")))
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + inputs + "\\end{document}\n"
    (tmp_path / "paper.tex").write_text(document)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


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
        assert page.locator("figure svg").count() == 5
        for box in page.locator("figure svg").all():
            assert box.bounding_box()["height"] > 100
        assert page.locator(".claims li").count() == 6
        ink, ground = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > sum(map(int, re.findall(r"\d+", ground)[:3]))) is dark
    assert not complaints


def test_roles_have_names_that_say_what_they_are():
    assert names.role_of(names.rerun_id(names.EQUAL_UPDATES, "mgda_ub", 4)) == names.EQUAL_UPDATES
    assert json.dumps(names.rerun_id(names.CONFIRM, "io", 1)) == '"confirm-io-1"'


def answered(story):
    story.end()
    evidence = Evidence.read(story.name)
    results = Results.of(evidence)
    return answer(evidence, results), results


def test_only_its_own_files_go_to_mlflow(home, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "id_rsa").write_text("secret")
    usual().end()
    write_report("made", out=tmp_path / "out")
    evidence = Evidence.read("made")
    attached = {artifact.path for artifact in evidence.client.list_artifacts(evidence.run_id, "report")}
    assert "report/index.html" in attached
    assert "report/id_rsa" not in attached


def test_strategies_without_enough_seeds_are_not_said_to_be_worse(home):
    story = Story()
    for strategy in ("io", "ius", "sus"):
        story.trial(strategy, 0.5)
    story.confirm("io", [0.30, 0.31, 0.29])
    story.confirm("ius", [0.50, 0.51, 0.49])
    story.confirm("sus", [0.51])
    said, results = answered(story)
    assert "every other strategy" not in str(said)
    assert "Too few results to compare with: sus." in str(said)
    assert results.seeds_text == "1 to 3 seeds"
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
    assert results.standings("seg/iou/0")["io"].best
    assert "seg/iou/0" in results.judged


def test_where_more_is_better_the_best_stays_in_the_picture(home):
    story = Story(objective="val/left/accuracy:max")
    for index, value in enumerate((0.1, 0.11, 0.1, 0.12, 0.95)):
        story.trial("sus", value, lr=0.01 * (index + 1))
    story.end()
    evidence = Evidence.read("made")
    with style():
        drawing = learning_rates(evidence, Results.of(evidence))
    (axes,) = drawing.figure.axes
    low, high = axes.get_ylim()
    values = [run.metrics["best/val/left/accuracy"] for run in evidence.trials]
    assert high >= max(values)
    assert low > min(values)


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
    assert "learning rate 0.1 is best" in said.headline
    assert any("2 confirming runs are of configs that do not win any more" in text for text in said.missing)


def test_paths_are_compared_on_seeds_that_all_have(home):
    story = Story(settings={"algorithm": "grid", "scheduler": "none"})
    for seed in range(3):
        story.trial("sus", 0.5, seed=seed)
        story.trial("io", 0.4, seed=seed, outcome="diverged" if seed == 0 else "completed")
    story.end()
    found = Evidence.read("made").paths()
    assert {name: [run.config["seed"] for run in runs] for name, runs in found.items()} == {"sus": [1, 2], "io": [1, 2]}


def test_looks_differ_for_every_strategy():
    found = looks(list(registry))
    assert len({(look.color, look.marker) for look in found.values()}) == len(registry)
