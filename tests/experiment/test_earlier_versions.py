"""A search that an earlier version began: it is read, listed and removed; whoever would go on with it is told."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest

from tests.reporting.conftest import home  # noqa: F401 - a store for every test
from tests.reporting.stories import replicated, usual
from tune_mtl.cli import main
from tune_mtl.core.errors import UserError
from tune_mtl.core.version import VERSION
from tune_mtl.experiment.confirm import confirm_search
from tune_mtl.experiment.formats import RECORDED
from tune_mtl.experiment.manage import saved_settings
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.problems.registry import load_problem
from tune_mtl.ray_tune.trials import Trials
from tune_mtl.results.searches import find_search
from tune_mtl.results.settings import FORMAT
from tune_mtl.tracking import names

SAVED = {
    "problem": "multidigits", "name": "old", "space": "wide", "strategies": ["sus", "ius", "io"], "lr": None,
    "groups": None, "fixed": {}, "algorithm": "optuna", "scheduler": "asha", "balance": "strategy", "samples": 6,
    "replicates": 1, "max_replicates": None, "grown": [], "max_epochs": 4, "budget": "epochs", "max_updates": None,
    "max_seconds": None, "seed": 0, "seeds": None, "metric": None, "time_budget": None, "concurrency": None,
    "cpus_per_trial": 1.0, "gpus_per_trial": 0.0, "address": None, "storage": None, "tracking_uri": None,
    "warm_start": None, "confirm": 3, "report": True, "export": False,
}  # fmt: skip
"""The file search.json as version 0.1.0 wrote it."""


LINE = (
    f"error: search 'old' was begun by tune-mtl 0.1.0 (format 1), and this is tune-mtl {VERSION} (format {FORMAT}),"
    " which cannot go on with it: best, report, list and rm work on it; a new search under another --name repeats it.\n"
)


@pytest.fixture
def old(home):  # noqa: F811
    """The folder of such a search."""
    folder = home / "ray" / "old"
    (folder / "tracking" / "trial").mkdir(parents=True)
    (folder / "tracking" / "trial" / "tracking.jsonl").write_text("{}\n")
    (folder / "snapshot.zip").write_bytes(b"pickled classes that have other names now")
    (folder / names.SETTINGS_FILE).write_text(json.dumps(SAVED, indent=1) + "\n")
    return folder


@pytest.fixture
def run(monkeypatch, capsys):
    """A command in this process: exit code, and all that it printed."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsys.readouterr()
        return exited.value.code, printed.out + printed.err

    return call


def contents(folder):
    """Return what is there, and when it was written."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def told():
    """Return all tags and states of the search's runs in the store."""
    _, of, parent = find_search("old", None)
    runs = of.search_runs([parent.info.experiment_id])
    return {run.info.run_id: (run.info.status, run.data.tags) for run in runs}


def test_who_would_go_on_with_it_is_told_in_a_line_and_nothing_changes(old, run):
    usual(**SAVED).end()
    before, runs = contents(old), told()
    commands = (["resume", "old"], ["extend", "old", "--samples", "3"])
    for words in commands:
        assert run(*words) == (2, LINE)
    assert contents(old) == before
    assert told() == runs
    shutil.rmtree(old)  # the run in the store has the settings too
    for words in commands:
        assert run(*words, "--storage", str(old.parent)) == (2, LINE)


def test_it_is_read_listed_and_removed(old, run):
    usual(**SAVED).end()
    assert find_search("old", None)[2].data.tags["tune_mtl.search"] == "old", "the tag that its runs have"
    for words, said in ((["list"], "old"), (["best", "old"], "io"), (["report", "old"], "io"), (["rm", "old"], "old")):
        code, printed = run(*words)
        assert code == 0, printed
        assert said in printed
    assert not old.exists()
    assert "old" not in run("list")[1]


@pytest.mark.parametrize("changed", [{"format": FORMAT + 1, "version": "9.9.9"}, {"format": None}, {"format": []}])
def test_a_format_that_is_not_known_is_refused_whatever_else_it_says(old, run, changed):
    (old / names.SETTINGS_FILE).write_text(json.dumps({**SAVED, **changed, "what_there_will_be": 1}))
    for words in (["resume", "old"], ["confirm", "old"]):
        code, said = run(*words)
        assert (code, said.count("\n")) == (2, 1)
        assert f"(format {changed['format']})" in said


def test_its_confirmation_begun_by_that_version_is_not_gone_on_with(old, monkeypatch):
    settings = saved_settings("old", formats=RECORDED)
    assert (settings.format, settings.version) == (1, "0.1.0")
    plan = Plan.make(load_problem("multidigits"), settings)
    search = replicated({"sus": [0.5], "io": [0.3]}).search()
    rerun = SimpleNamespace(trial_id="confirm-io-1", config={})
    monkeypatch.setattr("tune_mtl.experiment.confirm.SearchData.read", lambda *_: search)
    monkeypatch.setattr("tune_mtl.experiment.confirm.plan_confirmation", lambda *_: [rerun])
    monkeypatch.setattr("tune_mtl.experiment.confirm.plan_controls", lambda *_: [])
    monkeypatch.setattr(Trials, "exist", lambda _: True)
    with pytest.raises(UserError, match=r"^search 'old' was begun by tune-mtl 0\.1\.0 \(format 1\)"):
        confirm_search(plan, 1)
