"""The MLflow UI shows what people come for: runs, parameters and metrics, side by side."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest

import tune_mtl
from tests.browser import needs_chromium, opened
from tests.search.records import check_records
from tune_mtl.tracking import names
from tune_mtl.tracking.names import best_metric

pytestmark = [pytest.mark.slow, needs_chromium]
KEEP = os.environ.get("TUNE_MTL_SCREENSHOTS")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A search's store, served by ``tune-mtl ui``: (address, search's name)."""
    home = tmp_path_factory.mktemp("ui-home")
    given = os.environ.get("TUNE_MTL_SCREENSHOT_HOME")
    if given:
        shutil.copytree(given, home, dirs_exist_ok=True)
    patched = pytest.MonkeyPatch()
    patched.setenv("TUNE_MTL_HOME", str(home))
    if not given:
        tune_mtl.search("tests.trainables.fixtures:problem", name="shown", samples=3, max_epochs=2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "tune_mtl.cli", "ui", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{address}/health", timeout=1)
            break
        except OSError:
            time.sleep(0.5)
    yield address
    os.killpg(server.pid, 15)
    server.wait(30)
    patched.undo()


def the_search():
    from tune_mtl.searching.manage import summaries

    (found,) = summaries()
    parent, children = check_records(found.name, trials=sum(found.counts.values()))
    return parent, children


def keep(page, name):
    if KEEP:
        Path(KEEP).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(KEEP) / name))


def test_the_table_of_runs_shows_parameters_and_metrics(store):
    parent, children = the_search()
    metric = best_metric(parent.data.tags[names.OBJECTIVE].partition(":")[0])
    trials = quote(f"tags.`{names.KIND}` = 'trial'")
    order = quote(f"metrics.`{metric}`")
    experiment = f"{store}/#/experiments/{parent.info.experiment_id}"
    with opened(f"{experiment}/runs?searchFilter={trials}&orderByKey={order}&orderByAsc=true") as page:
        for run in children:
            page.wait_for_selector(f"text={run.info.run_name}", state="attached", timeout=60_000)
        page.get_by_text("Columns", exact=True).first.click()
        for column in ("Dataset", "Source", "Models", metric, "path/best_total", "strategy", "lr", "groups"):
            page.get_by_text(column, exact=True).last.click()
        page.keyboard.press("Escape")
        page.get_by_label("Close").last.click()
        page.wait_for_timeout(1500)
        keep(page, "mlflow-runs.png")
        text = page.inner_text("body")
    best = tune_mtl.best(parent.data.tags[names.SEARCH])
    assert re.search(rf"{best.trial_id} {best.config['strategy']}", text)
    for column in (metric, "strategy", "lr"):
        assert column in text
    assert str(round(best.config["lr"], 5))[:6] in text
    assert f"{best.value:.3f}"[:5] in text


def test_trials_can_be_compared(store):
    parent, children = the_search()
    chosen = children[:4]
    ids = ",".join(f"%22{run.info.run_id}%22" for run in chosen)
    with opened(f"{store}/#/compare-runs?runs=[{ids}]&experiments=[%22{parent.info.experiment_id}%22]") as page:
        page.wait_for_selector("text=Comparing", timeout=60_000)
        for run in chosen:
            page.wait_for_selector(f"text={run.info.run_name}", state="attached", timeout=60_000)
        page.get_by_label("Close").last.click()
        page.wait_for_timeout(1500)
        keep(page, "mlflow-compare.png")
        text = page.inner_text("body")
    for word in ("strategy", "lr", "best/val", *(run.data.params["strategy"] for run in chosen)):
        assert word in text
