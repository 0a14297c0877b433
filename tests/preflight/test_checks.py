"""What nodes say of themselves, and what follows from it."""

import json
import subprocess
import sys

import pytest
import ray.cloudpickle

from tune_mtl.preflight import checks as verdicts
from tune_mtl.preflight import probe
from tune_mtl.preflight.checks import Facts


def test_a_node_without_tune_mtl_answers_too(tmp_path):
    """What is shipped needs nothing of ours, wherever it runs."""
    ray.cloudpickle.register_pickle_by_value(probe)
    shipped = ray.cloudpickle.dumps(probe.look)
    ray.cloudpickle.unregister_pickle_by_value(probe)
    program = """
import json, pickle, sys, importlib.metadata
sys.modules |= {name: None for name in ("tune_mtl", "trainables", "search_spaces", "torch")}
def missing(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = missing
import ray.cloudpickle
look = ray.cloudpickle.loads(sys.stdin.buffer.read())
print(json.dumps(look(["tune-mtl", "torch"], "STORAGE", None, "node", (), False)))
""".replace("STORAGE", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], input=shipped, capture_output=True, check=True)
    facts = Facts(**json.loads(done.stdout))
    assert facts.packages == {"tune-mtl": None, "torch": None}
    checks = verdicts.versions("node", facts, healthy_facts())
    assert [check.what.partition(",")[0] for check in checks] == ["tune-mtl is missing", "torch is missing"]


def healthy_facts(**changes) -> Facts:
    given = {"python": sys.version.split()[0], "packages": {"tune-mtl": "0.1.0", "torch": "2.15.0+cu128"}, "code": "c"}
    given |= {"storage": None, "storage_disk": (10**12, 10**12), "temp": "/tmp/ray", "temp_disk": (10**12, 10**12)}
    return Facts(**{**given, "data": [], "gpus": None, **changes})


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "ok"),
        ({"packages": {"tune-mtl": "0.1.0", "torch": "2.15.0+cpu"}}, "warning"),
        ({"packages": {"tune-mtl": "0.1.0", "torch": "2.15.1+cu128"}}, "failure"),
        ({"packages": {"tune-mtl": "0.1.0", "torch": "2.15.0+cu128", "mlflow": "3.0"}}, "warning"),
        ({"code": "another"}, "failure"),
        ({"python": "3.10.1"}, "failure"),
        ({"python": f"{sys.version_info.major}.{sys.version_info.minor}.99"}, "warning"),
    ],
)
def test_versions_that_change_results_are_failures_others_warnings(changes, state):
    driver = healthy_facts()
    if "mlflow" in changes.get("packages", {}):
        driver = healthy_facts(packages={**driver.packages, "mlflow": "3.17"})
    assert [check.state for check in verdicts.versions("node", healthy_facts(**changes), driver)] == [state]


def test_room_on_disks():
    def state(free: int, total: int, **keywords) -> str:
        return verdicts.disk("node", "a folder", (free, total), "free some", least=2**28, **keywords)[0].state

    assert state(2**28 - 1, 2**40) == "failure"
    assert state(2**28, 2**40) == state(2**31 - 1, 2**40) == "warning"
    assert state(2**31, 2**40) == state(2**35, 2**36, rays=True) == "ok"
    assert state(2**35, 2**40, rays=True) == "warning"


def test_gpus_are_those_that_torch_sees():
    seen = {"error": None, "cuda": "13.0", "gpus": [["A100", 30 * 2**30, 40 * 2**30]]}
    (one,) = verdicts.gpus("node", healthy_facts(gpus=seen), 1)
    assert (one.state, one.what) == ("ok", "GPU A100: 30.0 GiB of 40.0 GiB free")
    (two,) = verdicts.gpus("node", healthy_facts(gpus=seen), 2)
    assert two.state == "failure"


@pytest.mark.parametrize("imported", [True, False])
def test_modules_that_a_worker_lacks_are_named(tmp_path, monkeypatch, imported):
    """What the driver of this machine has imported is looked for, not imported again: that takes seconds."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "of_a_user.py").write_text("raise RuntimeError('it was run')\n")
    asked = ("of_a_user", "of_nobody", "no_package.part")
    found = probe.import_problems(str(tmp_path), asked, imported)
    assert [wrong.partition("'")[2].partition("'")[0] for wrong in found] == list(asked[imported:])
    assert ("it was run" in found[0]) is not imported
    assert all("does not import: ModuleNotFoundError: No module named " in wrong for wrong in found[-2:])
