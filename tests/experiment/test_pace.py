"""A plan comes within seconds: little is timed, the rest follows from it, and the plan says so."""

import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from tests.toys import toy_problem
from tune_mtl.core.data import Batch, TensorData
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.problem import Problem
from tune_mtl.core.task import Task
from tune_mtl.experiment.planning.cost import measure
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.planning.pace import cut_out, how_measured, take_paces, trial_seconds
from tune_mtl.training.config import resolve

PER_SAMPLE = 0.02


class Busy(nn.Conv2d):
    """A convolution that keeps the processor busy in proportion to the pixels it sees."""

    def forward(self, images):
        ends = time.process_time() + PER_SAMPLE * len(images) * images[0, 0].numel() / 64**2
        while time.process_time() < ends:
            pass
        return super().forward(images)


class Scenes(Problem):
    """Two dense tasks on images of 64x64."""

    name = "scenes"

    def __init__(self, samples=512):
        super().__init__()
        self.sides = set()
        images, maps = torch.rand(samples, 3, 64, 64), torch.rand(samples, 1, 64, 64)
        self._data = TensorData(images, {"a": maps, "b": maps})
        self.tasks = [Task(name, nn.functional.mse_loss) for name in "ab"]

    def data(self, split):
        return None if split == "test" else self._data

    def model(self):
        trunk = Busy(3, 2, 1)
        trunk.register_forward_pre_hook(lambda _, inputs: self.sides.add(tuple(inputs[0].shape[-2:])))
        return MultiTaskModel(trunk, {name: nn.Conv2d(2, 1, 1) for name in "ab"})


class OfOneSize(Scenes):
    """Its network takes images of one size alone."""

    def model(self):
        head = lambda: nn.Sequential(nn.Flatten(), nn.Linear(2 * 64 * 64, 64 * 64), nn.Unflatten(1, (1, 64, 64)))  # noqa: E731
        return MultiTaskModel(Busy(3, 2, 1), {name: head() for name in "ab"})


def paces_of(problem, *strategies, **given):
    given = {"batch_size": 64, "threads": 1, "lr": 0.1, "epochs": 1} | given
    configs = {name: resolve(problem, {"strategy": name, **given}) for name in strategies}
    return configs, take_paces(problem, configs)


def test_a_trial_takes_as_long_as_its_samples():
    problem = Scenes()
    configs, paces = paces_of(problem, "sus", "ius")
    seconds = {name: trial_seconds(problem, configs[name], paces[name]) for name in configs}
    assert seconds["sus"] == pytest.approx(2 * 512 * PER_SAMPLE, rel=0.5)  # training, and one evaluation
    assert seconds["ius"] == pytest.approx(3 * 512 * PER_SAMPLE, rel=0.5)
    assert (16, 16) in problem.sides
    assert paces["sus"].timed.size > paces["ius"].timed.size
    assert "sus was timed on mini-batches of up to" in how_measured(paces)
    assert "ius on one of 2 of 64 samples (6% of their pixels)" in how_measured(paces)


def test_networks_that_take_one_size_are_timed_on_whole_images():
    _, paces = paces_of(OfOneSize(), "sus")
    assert paces["sus"].timed.cut == 1
    assert "pixels" not in how_measured(paces)


def test_what_would_take_long_is_reckoned(monkeypatch):
    monkeypatch.setattr("tune_mtl.experiment.planning.pace._PATIENCE_WITH_OTHERS", 0.0)
    configs, paces = paces_of(Scenes(), "sus", "ius", "io")
    assert [paces[name].timed is None for name in configs] == [False, True, True]
    assert paces["ius"].per_sample == pytest.approx(2 * paces["sus"].per_sample)
    assert "ius, io not at all: what sus took, times their passes through the network" in how_measured(paces)


def test_images_are_cut_only_where_every_pixel_has_a_target():
    images, maps = torch.rand(2, 3, 96, 128), torch.rand(2, 96, 128)
    part = cut_out(Batch(images, {"a": maps, "b": images}), 4)
    assert part.inputs.shape == (2, 3, 16, 32)
    assert torch.equal(part.targets["a"], maps[:, :16, :32])
    assert cut_out(Batch(images, {"a": maps, "b": torch.zeros(2)}), 4) is None
    assert cut_out(Batch(images[..., :32], {"a": maps[..., :32]}), 4) is None
    assert cut_out(Batch(torch.rand(2, 96), {"a": maps}), 2) is None


def test_disk_is_weighed_without_a_mini_batch(monkeypatch):
    plan = plan_search(toy_problem(3), strategies=["io", "mgda_ub"], samples=2)
    monkeypatch.setattr("tune_mtl.strategies.base.Strategy.step", lambda *_: pytest.fail("a mini-batch"))
    assert measure(plan, timed=False).disk > 0


def test_a_plan_loads_neither_ray_nor_mlflow():
    code = (
        "import sys; sys.argv = ['tune-mtl', 'search', 'quadratics', '--strategies', 'sus', '--dry-run']\n"
        "from tune_mtl.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "assert not {'ray', 'mlflow', 'optuna'} & set(sys.modules), 'loaded'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Nothing was started." in done.stdout
