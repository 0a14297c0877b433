"""Reference losses are found once: per process, and in a home that exists."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.toys import make_tasks, toy_problem
from tune_mtl import Batch, MultiTaskModel, Task
from tune_mtl.training.references import cache
from tune_mtl.training.references import find as references
from tune_mtl.training.references.find import judged, references_of


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No memory of other tests, and a home that does not exist yet."""
    monkeypatch.setattr(cache, "_found", {})
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))


@pytest.fixture
def searches(monkeypatch):
    """How often a constant was optimised."""
    calls = []
    own = references.best_constant_loss

    def counted(task, *rest):
        calls.append(task.name)
        return own(task, *rest)

    monkeypatch.setattr(references, "best_constant_loss", counted)
    return calls


def forget(monkeypatch):
    """As a new process would begin."""
    monkeypatch.setattr(cache, "_found", {})


def test_references_are_found_once_per_process_and_kept_in_a_home_that_exists(monkeypatch, tmp_path, searches):
    first = references_of(judged(toy_problem(2, objective=None)))
    assert searches == ["t0", "t1"]
    assert not (tmp_path / "home").exists(), "training makes no home"
    assert references_of(judged(toy_problem(2, objective=None))) == first
    (tmp_path / "home").mkdir()
    cache.save()
    forget(monkeypatch)
    assert references_of(judged(toy_problem(2, objective=None))) == first
    assert searches == ["t0", "t1"]
    (tmp_path / "home" / "references.json").unlink()
    forget(monkeypatch)
    assert references_of(judged(toy_problem(2, objective=None))) == first, "found anew, bit for bit"
    assert searches == ["t0", "t1"] * 2
    kept = json.loads((tmp_path / "home" / "references.json").read_text())
    assert sorted(kept.values()) == sorted(first.values())


def test_another_loss_of_the_same_name_or_other_data_are_not_taken_for_known(monkeypatch, tmp_path):
    (tmp_path / "home").mkdir()
    for scale, samples in ((1.0, 60), (10.0, 60), (10.0, 61)):
        problem = toy_problem(2, objective=None, samples=samples)
        problem.tasks = make_tasks(2, scale=scale)
        known = references_of(judged(problem))
        forget(monkeypatch)
        (tmp_path / "home" / "references.json").rename(tmp_path / "aside.json")
        anew = toy_problem(2, objective=None, samples=samples)
        anew.tasks = make_tasks(2, scale=scale)
        assert references_of(judged(anew)) == known
        (tmp_path / "aside.json").rename(tmp_path / "home" / "references.json")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": "y"}', None])
def test_a_damaged_cache_is_as_good_as_none(tmp_path, monkeypatch, content):
    (tmp_path / "home").mkdir()
    first = references_of(judged(toy_problem(2, objective=None)))
    forget(monkeypatch)
    file = tmp_path / "home" / "references.json"
    keys = json.loads(file.read_text())
    file.write_text(json.dumps(dict.fromkeys(keys, -1.0)) if content is None else content)
    assert references_of(judged(toy_problem(2, objective=None))) == first


def test_data_without_a_fingerprint_are_remembered_in_the_process_alone(tmp_path, searches):
    (tmp_path / "home").mkdir()

    class Own:
        def __len__(self):
            return 10

        def batch(self, indices):
            return Batch(torch.zeros(len(indices), 3), {"a": indices.float().reshape(-1, 1)})

    problem = toy_problem(1, objective=None)
    problem.tasks, problem.data = [Task("a", F.mse_loss)], lambda _: Own()
    problem.model = lambda: MultiTaskModel(nn.Identity(), {"a": nn.Linear(3, 1)})
    first, second = (references_of(judged(problem))["a"] for _ in range(2))
    assert first == second == pytest.approx(8.25)
    assert searches == ["a"]
    assert not (tmp_path / "home" / "references.json").exists()
