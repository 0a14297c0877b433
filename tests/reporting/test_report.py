"""Reports of searches whose numbers are made up: what is written, and what it says is missing."""

import csv
import json
import shlex
import shutil
import subprocess
import sys

import pytest
from typer.main import get_command

import tune_mtl
from tests.reporting.stories import Imagined, Story, text_of, usual
from tune_mtl import UserError
from tune_mtl.cli import app, main
from tune_mtl.reporting.claims import Findings
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.search_command import search_command
from tune_mtl.reporting.write import tables_of, write_report
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.settings import PAPER
from tune_mtl.tracking import names


def test_the_usual_report(reported):
    written = reported[0]
    assert written.page.parts[-3:] == ("reports", "made", "index.html")
    assert written.confirmed
    said = written.answer
    assert "io with 2 groups at learning rate 0.01 is the best config (of io, ius, sus)." in said
    assert "loss on test: 0.3000 ± 0.0100 over 3 fresh seeds." in said
    assert "Next is ius (2 groups), 0.150 worse (95 % interval 0.121 to 0.179; p = 0.0001, corrected)." in said
    assert "This config and that of every other differ (Welch's t-test over seeds, Holm-corrected, level 0.05)" in said
    assert "whether the strategies do, one tuning of each cannot tell." in said
    assert "Given as many updates, sus reaches 0.3013 ± 0.0105, which is not told apart from it" in said
    keys = [table.key for table in written.tables["made"]]
    shown = ["quality", "losses", "equal-updates", "path-common", "path-best", "cost", "search"]
    assert keys == [*shown, "trade-offs", "task-changes-table"]
    quality = written.tables["made"][0]
    assert quality.header == ["strategy", "loss ↓", "average rank ↓", "left/accuracy ↑", "sum/mae ↓"]
    assert [row[0].text for row in quality.rows] == ["io (2 groups)", "ius (2 groups)", "sus"]
    assert [[cell.strong for cell in row[1:]] for row in quality.rows] == [[True] * 4, [False] * 4, [False] * 4]
    assert [row[2].value for row in quality.rows] == [1.0, 2.0, 3.0]
    page = text_of(written.page)
    edge, gap = "at the upper edge of what was searched (0.001 to 0.01)", "nothing between that and 0.001"
    missing = iter(written.answers["made"].missing)  # one tuning and two learning rates are few; else nothing is
    assert next(missing).startswith("Each strategy was tuned once, so configs are compared, not strategies")
    for strategy in ("io", "ius", "sus"):
        assert next(missing).startswith(f"{strategy} did best at learning rate 0.01, {edge}")
        assert next(missing).startswith(f"{strategy} did best at learning rate 0.01, and {gap}")
    assert not list(missing)
    assert "abacus" in page
    assert "9 of the best configs, 3 with as many updates as the one that takes most" in page
    for table in written.tables["made"]:
        assert table.title in page


def test_every_table_and_figure_is_a_file_and_an_artifact(reported):
    written, search = reported
    folder = written.page.parent
    files = {path.name for path in folder.iterdir()}
    for table in (*written.tables["made"], None):
        key = "claims" if table is None else table.key
        assert {f"{key}.md", f"{key}.tex", f"{key}.csv"} <= files
    figures = {"learning-rates", "coverage", "expected-best", "task-learning-rates", "learning-curves", "paths"}
    figures |= {"quality-and-cost", "task-changes", "task-front"}
    assert {f"{name}.{kind}" for name in figures for kind in ("svg", "pdf", "png")} <= files
    rows = list(csv.DictReader((folder / "quality.csv").open()))
    assert float(rows[0]["loss"]) == pytest.approx(0.3)
    attached = {artifact.path for artifact in search.client.list_artifacts(search.run_id, "report")}
    assert attached == {f"report/{name}" for name in files}


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
        (
            one_strategy,
            ["Only io was searched", "Nothing is confirmed", "is the best config in the search (no other was tried)"],
        ),
        (one_seed, ["One seed only", "On 1 seed, on test.", "One seed: no test is possible"]),
        (all_diverged, ["No trial has ended well", "No trial of sus, io ended well (diverged)", "Nothing to draw yet"]),
        (missing_metric, ["Not defined for every strategy: sum/mae"]),
        (
            still_running,
            [
                "1 of 6 trials have ended",
                "is the best config so far",
                "tune-mtl resume made goes on",
                "No trial of io ended well (running)",
            ],
        ),
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
    assert "sus at learning rate 0.01 is the best config" in tune_mtl.report(story.end()).answer


def test_several_searches_on_one_page(home, tmp_path):
    usual("first").end()
    usual("second").end()
    written = tune_mtl.report("first", "second", out=tmp_path / "both")
    page = text_of(written.page)
    assert page.count("is the best config (of io, ius, sus)") == 2
    assert (tmp_path / "both" / "second" / "quality.csv").exists()
    assert "second: IUS and IO travel further" in page


def test_a_search_named_twice_is_reported_once(home):
    written = tune_mtl.report(Story().end(), "made")
    assert written.page.parent.name == "made"
    assert list(written.answers) == ["made"]
    assert len(tune_mtl.paper_claims("made", "made")) == 6


def test_names_and_places_are_checked(home, tmp_path):
    with pytest.raises(UserError, match="there is no search 'nobody'"):
        tune_mtl.report("nobody")
    with pytest.raises(UserError, match=r"name .* cannot be used"):
        tune_mtl.report("../x")
    usual().end()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written to .*file.*another --out"):
        tune_mtl.report("made", out=tmp_path / "file")


def test_the_command_repeats_the_search_and_hides_places(home):
    told = {
        "strategies": ["sus", "io"], "samples": 4, "lr": "1e-3:1e-1", "fixed": {"model_width": 3}, "confirm": 2,
        "tracking_uri": "http://user:secret@host", "storage": "/private", "space": "wide", "seed": 0,
    }  # fmt: skip
    story = Story(settings=told)
    story.trial("sus", 0.5)
    story.end()
    search = SearchData.read("made")
    expected = "tune-mtl search made --strategies sus,io --samples 4 --lr 1e-3:1e-1 --set model_width=3 --confirm 2"
    assert sorted(search_command(search).split()) == sorted(expected.split())
    assert "secret" not in write_report("made").page.read_text()


def test_what_the_user_brought_is_named_on_the_page_and_in_the_command_that_repeats_the_search(home):
    asked = {"strategies": ["sus"], "optimizer": "mine:Lamb", "schedule": "mine:warmup", "fixed": {"lamb_eps": 0.25}}
    story = Story(settings=asked, parts={"optimizer": {"lamb": "mine:Lamb"}, "schedule": {"step": None}})
    story.trial("sus", 0.5)
    search = SearchData.read(story.end())
    assert "--optimizer mine:Lamb --schedule mine:warmup" in search_command(search)
    page = write_report("made").page.read_text()
    assert "<dt>Optimizer</dt><dd>lamb (mine:Lamb), lamb_eps=0.25</dd><dt>Schedule</dt><dd>step</dd>" in page


def test_the_command_has_flags_that_exist(home):
    asked = {
        "problem": "made", "name": "made", "space": "paper", "strategies": ["sus", "io"], "lr": "1e-3,1e-2",
        "groups": "2",
        "fixed": {"model_width": 3, "optimizer": "sgd"}, "scheduler": "asha", "samples": 4, "budget": "seconds",
        "max_seconds": 2.5, "metric": "val/loss:min", "time_budget": 60.0, "concurrency": 2, "cpus_per_trial": 2.0,
        "seed": 3, "confirm": 0, "warm_start": "earlier",
    }  # fmt: skip
    words = shlex.split(search_command(SearchData.read(Story(settings=asked).end())))
    search = get_command(app).commands["search"]
    parameters = search.get_params(search.make_context("search", ["made"], resilient_parsing=True))
    flags = {option for parameter in parameters for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= flags
    assert words[:3] == ["tune-mtl", "search", "made"]
    for pair in ("--max-seconds 2.5", "--confirm 0", "--scheduler asha", '--set optimizer="sgd"'):
        assert pair in " ".join(words)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"algorithm": "grid", "seeds": [3, 5]}, "--algorithm grid --seeds 3,5"),
        (PAPER | {"space": "paper", "replicates": 3, "confirm": 1}, "--space paper --replicates 3"),
        (PAPER | {"space": "paper", "algorithm": "optuna"}, "--space paper --algorithm optuna"),
        ({"replicates": 8, "confirm": 1}, "--replicates 8"),
        ({"replicates": 8, "confirm": 0}, "--replicates 8 --confirm 0"),
        ({"replicates": 1, "confirm": 0, "grown": [{"replicates": [0]}]}, "--replicates 1"),
        ({"report": False, "version": "0.2.0", "format": 2, "what_there_was": 1}, ""),
    ],
)  # fmt: skip
def test_the_command_says_what_would_be_otherwise_without_it(asked, expected):
    search = Imagined(settings=asked).search()
    assert search_command(search).split() == ["tune-mtl", "search", "made", *expected.split()]


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no TeX on this machine (apt install texlive-latex-recommended)"
)
def test_all_tables_compile_in_a_paper(reported, tmp_path):
    folder = reported[0].page.parent
    inputs = "".join(path.read_text().replace("{table}", "{table*}") for path in sorted(folder.glob("*.tex")))
    document = (
        "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\n" + inputs + "\\end{document}\n"
    )
    (tmp_path / "paper.tex").write_text(document)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


def test_roles_have_names_that_say_what_they_are():
    assert names.role_of(names.rerun_id(names.EQUAL_UPDATES, "mgda_ub", 4)) == names.EQUAL_UPDATES
    assert json.dumps(names.rerun_id(names.CONFIRM, "io", 1)) == '"confirm-io-1"'


def test_only_its_own_files_go_to_mlflow(home, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "id_rsa").write_text("secret")
    usual().end()
    write_report("made", out=tmp_path / "out")
    search = SearchData.read("made")
    attached = {artifact.path for artifact in search.client.list_artifacts(search.run_id, "report")}
    assert "report/index.html" in attached
    assert "report/id_rsa" not in attached


def test_many_tasks_stand_in_rows(home):
    tasks = [f"task_{index}" for index in range(12)]
    measured = {f"{task}/accuracy": 0.5 for task in tasks} | {f"loss/{task}": 0.5 for task in tasks}
    modes = {name: "min" if name.startswith("loss") else "max" for name in measured}
    story = Story(tasks=tasks, metrics={"loss": "min", **modes})
    for strategy in ("sus", "io"):
        story.trial(strategy, 0.5, extra=measured)
    search = SearchData.read(story.end())
    tables = {table.key: table for table in tables_of(Findings(search, Results.of(search)))}
    assert tables["quality"].header[:3] == ["strategy", "loss ↓", "average rank ↓"]
    assert "task_0/accuracy ↑" not in tables["quality"].header
    assert [row[0].text for row in tables["tasks"].rows] == [f"{task}/accuracy ↑" for task in tasks]
    assert tables["tasks"].header[1:] == ["sus", "io"]
    assert [row[0].text for row in tables["losses"].rows] == ["mean loss", *tasks]
