"""Nobody gets in who should not: what others made is read without running it, names stay in the home, passwords are
told to nobody, and servers listen to this machine alone."""

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

import tune_mtl
from tests.experiment.processes import fresh_environment
from tests.reporting.conftest import home  # noqa: F401 - a store for every test
from tests.reporting.stories import FACTS, Story
from tests.toys import toy_problem
from tests.tracking.postgres import free_port
from trainables.base import MTLTrainable
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.results.searches import find_search
from tune_mtl.tracking import names
from tune_mtl.training import checkpoint
from tune_mtl.training.trial import CHECKPOINT, RESULT

SECRET = "geheim-81c2"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def run(monkeypatch, capsys):
    """A command in this process: exit code, and all that it printed."""

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsys.readouterr()
        return int(exited.value.code or 0), printed.out + printed.err

    return call


# What others made


class Trap:
    """Whoever unpickles it makes a file."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self._marker),)


@pytest.fixture(params=["pickle", "torch", "torch with weights"])
def trap(request, tmp_path):
    """A file that does something if it is loaded carelessly, and what is there then."""
    path, marker = tmp_path / "trap.pt", tmp_path / "sprung"
    if request.param == "pickle":
        path.write_bytes(pickle.dumps(Trap(marker)))
        pickle.loads(path.read_bytes())
    else:
        content = {"weights": {"a": torch.zeros(2)}} if request.param == "torch with weights" else {}
        torch.save({"format": 1, "digest": "", "content": {**content, "trap": Trap(marker)}}, path)
        torch.load(path, weights_only=False)
    assert marker.exists(), "the trap works"
    marker.rmdir()
    return path, marker


def test_a_foreign_artifact_is_not_executed(trap):
    path, marker = trap
    story = Story()
    story.trial("io", 0.3)
    name = story.end()
    best = tune_mtl.best(name)
    planted = path.rename(path.with_name(BEST_WEIGHTS))
    best.client.log_artifact(best.run_id, str(planted))
    with pytest.raises(UserError, match="cannot be read as weights and numbers"):
        checkpoint.load(best.checkpoint)
    config = {**best.config, "problem": "tests.trainables.fixtures:problem"}
    best.client.set_tag(best.run_id, names.CONFIG, json.dumps(config))
    with pytest.raises(UserError, match="cannot be read as weights and numbers"):
        tune_mtl.best(name).load_model()
    assert not marker.exists()


def test_a_foreign_checkpoint_is_not_executed(trap, tmp_path):
    path, marker = trap
    config = {"strategy": "io", "lr": 1e-2, "epochs": 1}
    tune_mtl.train(toy_problem(4), config, out=tmp_path / "run")
    (tmp_path / "run" / RESULT).unlink()
    for planted in (tmp_path / "run").glob("*.pt"):
        planted.write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="cannot be read as weights and numbers"):
        tune_mtl.train(toy_problem(4), config, out=tmp_path / "run", resume=True)
    trainable = MTLTrainable({**config, "problem": "tests.trainables.fixtures:problem"})
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / CHECKPOINT).write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="cannot be read as weights and numbers"):
        trainable.load_checkpoint(str(tmp_path / "ray"))
    assert not marker.exists()


# Names and paths

BAD_NAMES = ["../x", "..", "/tmp/x", "a/../../x", "", " ", ".hidden", "grün", "a\nb", "x" * 101, "a\0b", SCRIPT]
BY_NAME = [
    ["search", "multidigits", "--name"],
    ["resume"],
    ["extend", "--samples", "1"],
    ["rm"],
    ["report"],
    ["claims"],
    ["confirm"],
    ["factorial"],
]


def everything(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "mlflow.db" not in path.name}


@pytest.mark.parametrize("words", BY_NAME, ids=[" ".join(words) for words in BY_NAME])
def test_names_that_are_paths_are_refused_before_anything_is_touched(words, run, tmp_path, monkeypatch):
    inside = tmp_path / "home" / "ray"
    inside.mkdir(parents=True)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "precious").write_text("mine")
    (tmp_path / "x" / names.SETTINGS_FILE).write_text(json.dumps({"problem": "multidigits", "name": "x"}))
    before = everything(tmp_path)
    for name in BAD_NAMES:
        code, said = run(*words, name)
        assert (code, said.count("\n")) == (2, 1), said
        assert "cannot be used" in said
    assert everything(tmp_path) == before


@pytest.mark.slow
def test_an_earlier_search_that_cannot_be_is_refused_before_anything_is_made(run, tmp_path):
    for earlier in ("../x", "nothing"):
        code, said = run("search", "multidigits", "--name", "new", "--warm-start", earlier)
        assert (code, said.count("\n")) == (2, 1), said
        assert earlier in said
    assert not (tmp_path / "home" / "ray" / "new" / names.SETTINGS_FILE).exists()


@pytest.fixture
def foreign():
    """A search in the store by somebody who wishes us ill: paths and markup wherever the store takes them."""
    up = f"../../{SCRIPT}"
    settings = {"problem": SCRIPT, "name": up, "strategies": [SCRIPT, "io"], "fixed": {SCRIPT: SCRIPT}}
    story = Story("foreign", settings=settings)
    for number, strategy in enumerate((SCRIPT, "io", up)):
        story.trial(strategy, 0.3 + number)
    story.confirm(SCRIPT, [0.30, 0.31])
    story.end()
    _, of, parent = find_search("foreign", story.uri)
    of.log_dict(parent.info.run_id, {**FACTS, "name": SCRIPT}, names.FACTS_FILE)
    for tag in (names.PROBLEM, "tune_mtl.device", names.NOTE):
        of.set_tag(parent.info.run_id, tag, SCRIPT)
    for run in of.search_runs([parent.info.experiment_id]):
        of.set_tag(run.info.run_id, "tune_mtl.reason", SCRIPT)
        if names.TRIAL_ID in run.data.tags:
            of.set_tag(run.info.run_id, names.TRIAL_ID, f"{up}-{run.data.tags[names.TRIAL_ID]}")
    return story


def test_a_foreign_search_cannot_leave_its_report_or_put_markup_into_it(foreign, tmp_path):
    before = everything(tmp_path)
    written = tune_mtl.report("foreign")
    text = written.page.read_text()
    assert "&lt;script&gt;alert(1)" in text, "it is told what there is"
    assert SCRIPT not in text
    folder = tmp_path / "home" / "reports" / "foreign"
    artifacts = tmp_path / "home" / "artifacts"
    new = {path for path in everything(tmp_path) - before if not path.is_relative_to(artifacts)}
    assert new
    assert all(path.is_relative_to(folder) or path in (folder, folder.parent) for path in new)
    for path in folder.rglob("*.svg"):
        assert SCRIPT not in path.read_text()


@pytest.mark.parametrize("held", ["nothing of ours", "another search"])
def test_removing_a_foreign_search_removes_no_folder_that_is_not_its(held, tmp_path, run):
    """The store says where a search's folder is: whoever writes there must not choose what is deleted here."""
    mine = tmp_path / "elsewhere" / "foreign"
    mine.mkdir(parents=True)
    (mine / "precious").write_text("mine")
    if held == "another search":
        (mine / names.SETTINGS_FILE).write_text(json.dumps({"problem": "multidigits", "name": "mine"}))
    places = {"storage": str(mine.parent), "address": None, "tracking_uri": None}
    Story("foreign", settings=places).end()
    run("rm", "foreign")
    assert (mine / "precious").exists()


def test_a_foreign_search_with_a_path_for_a_name_is_listed_and_nothing_else(run, tmp_path):
    Story("../../x").end()
    assert "../../x" in run("list")[1]
    for words in (["rm"], ["report"], ["resume"], ["confirm"], ["factorial"], ["claims"]):
        code, said = run(*words, "../../x")
        assert code == 2
        assert "cannot be used" in said


# Passwords

UNREACHABLE = [
    f"http://team:{SECRET}@127.0.0.1:9",
    f"https://team:{SECRET}@127.0.0.1:9",
    f"postgresql://team:{SECRET}@127.0.0.1:9/mlflow",
    f"nonsense://team:{SECRET}@127.0.0.1:9/mlflow",
]
ON_A_STORE = [
    ["search", "multidigits", "--samples", "3"],
    ["best", "x"],
    ["list"],
    ["resume", "x"],
    ["rm", "x"],
    ["report", "x"],
    ["ui"],
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("uri", UNREACHABLE, ids=lambda uri: uri.partition(":")[0])
@pytest.mark.parametrize("words", ON_A_STORE, ids=lambda words: words[0])
def test_a_store_that_cannot_be_reached_is_named_without_its_password(words, uri, run, tmp_path):
    code, said = run(*words, "--tracking-uri", uri)
    assert (code, said.count("\n")) == (2, 1), said
    assert SECRET not in said
    assert words[0] == "ui" or "127.0.0.1" in said
    assert not [path for path in everything(tmp_path) if path.is_file()]


# Who listens where


def listening(of: psutil.Process) -> set[str]:
    """The addresses that a process and all its children accept connections at."""
    found = set()
    for process in [of, *of.children(recursive=True)]:
        try:
            connections = process.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        found |= {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}
    return found


LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
LOCAL_RAY = """
import ray
from tune_mtl.ray_tune.cluster import Cluster

@ray.remote
def work():
    return "works"

with Cluster(None, own_module=False):
    print(ray.get(work.remote()), flush=True)
    input()
"""


@pytest.mark.slow
def test_our_own_ray_listens_to_this_machine_alone(tmp_path):
    script = [sys.executable, "-c", LOCAL_RAY]
    with subprocess.Popen(
        script, env=fresh_environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "works\n"
        found = listening(psutil.Process(process.pid))
        process.communicate("\n", timeout=60)
    assert found
    assert found <= LOOPBACK


@pytest.mark.slow
def test_the_ui_listens_to_this_machine_alone(tmp_path):
    command = [sys.executable, "-m", "tune_mtl.cli", "ui", "--port", str(free_port())]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        found: set[str] = set()
        for _ in range(480):
            assert process.poll() is None
            found = listening(psutil.Process(process.pid))
            if found:
                break
            time.sleep(0.25)
        assert found
        assert found <= LOOPBACK
    finally:
        process.terminate()  # it ends the server that it has started
        process.wait(60)
