"""The MLflow UI, as a newcomer finds it: every page is reached by an address that ``tune-mtl ui`` prints."""

import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

import tune_mtl
from tests.browser import needs_chromium, opened
from tests.experiment.records import check_records
from tests.tracking.postgres import free_port
from tune_mtl.tracking import names

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def printed(tmp_path_factory, empty_store):
    """The addresses that ``tune-mtl ui`` prints for a search, by title, while it serves them.

    At the end it is asked to stop, and no process of its own may stay behind. It takes two: a search may be running.
    """
    folder = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as patched:
        (folder / "home").mkdir()
        shutil.copy(empty_store, folder / "home" / "mlflow.db")
        patched.setenv("TUNE_MTL_HOME", str(folder / "home"))
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        tune_mtl.search("tests.trainables.fixtures:problem", name="shown", samples=3, max_epochs=2)
        output = folder / "printed.txt"
        with output.open("w") as file:
            command = [sys.executable, "-m", "tune_mtl.cli", "ui", "--port", str(free_port())]
            server = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            for _ in range(480):
                if "Ctrl-C ends it" in output.read_text():
                    break
                assert server.poll() is None
                time.sleep(0.5)
            found = re.findall(r"^  (\S.*?)  +(http\S+)$", output.read_text(), re.MULTILINE)
            yield dict(found)
        finally:
            started = psutil.Process(server.pid).children(recursive=True)
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 143
        _, alive = psutil.wait_procs(started, timeout=10)
        assert len(started) == 2
        assert not alive


def text_of(address: str, *awaited: str) -> str:
    """What a page shows once it shows all that is ``awaited``."""
    with opened(address, width=1900) as page:
        for words in awaited:
            page.wait_for_selector(f"text={words}", state="attached", timeout=60_000)
        page.wait_for_timeout(1500)
        return page.inner_text("body")


def test_the_trials_are_there_sorted_with_their_outcome(printed):
    _, children = check_records("shown", trials=3)
    by_value = sorted(children, key=lambda run: run.data.metrics["best/val/loss"])
    labels = [run.info.run_name for run in by_value]
    text = text_of(printed["trials, best first"], *labels)
    assert sorted(labels, key=text.index) == labels
    for words in ("best/val/loss", "strategy", "lr", *(run.data.tags["tune_mtl.outcome"] for run in children)):
        assert words in text


def test_the_charts_show_the_objective_first_and_fold_the_rest(printed):
    text = text_of(printed["their charts"], "The search")
    charts = text[text.index("The search") :]
    assert charts.index("val/loss") < charts.index("best/val")


def test_the_winners_are_side_by_side(printed):
    chosen = tune_mtl.best("shown")
    text = text_of(printed["the best of each strategy"], "Comparing", chosen.run_id)
    plot = text[: text.index("Run details")]
    assert "strategy" in plot
    assert names.BEST_SO_FAR in plot
    assert names.NOW not in plot


def test_the_search_says_what_it_found_and_how_it_went(printed):
    text = text_of(printed["the answer, how it went"], "best_so_far/")
    headline = tune_mtl.report("shown").answers["shown"].headline
    for words in (headline, "The whole report", "How to read", "search/trials_ended", "objective"):
        assert words in text
