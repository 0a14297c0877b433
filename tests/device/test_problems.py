"""The problems of this package on a simulated device: the CPU's numbers, and no wait in a step."""

import pytest
import torch

from tests.device.simulated import present
from tests.device.trials import check_numbers, check_waits, on_the_device
from tests.prepare import makers
from tune_mtl import Objective, TensorData, load_problem
from tune_mtl.prepare.datasets import open_source, prepare_source
from tune_mtl.problems.dense_metrics import AngleError, AnglesWithin, DepthError, PerImageIoU, PixelAccuracy
from tune_mtl.problems.glyphs.problem import Glyphs
from tune_mtl.problems.multidigits import MultiDigits
from tune_mtl.problems.registry import problems

SIZES = {"celeba": "16x16", "cityscapes": "16x32", "nyuv2": "16x16"}
SHORT = {"epochs": 2, "evaluate_every": 1, "threads": 1}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    makers.write_celeba(folder / "source/celeba", 24)
    makers.write_cityscapes(folder / "source/cityscapes", 21, 5)
    makers.write_nyuv2_npy(folder / "source/nyuv2", 20, 5)
    for name, size in SIZES.items():
        prepare_source(open_source(name, folder / "source" / name, size, None), folder / "out")
    return folder / "out"


@pytest.mark.parametrize("name", SIZES)
def test_the_prepared_ones_there_have_the_numbers_of_the_cpu(name, sets, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_DATA", str(sets))
    problem = load_problem(name)
    settings = {**SHORT, "batch_size": 4, "eval_batch_size": 6, "model_channels": 4}
    check_numbers("sus", problem, **settings)
    check_waits("sus", problem, **settings)
    assert len(on_the_device("sus", problem, **settings).waits) > 0


class FewDigits(MultiDigits):
    """Its first images."""

    def data(self, split: str) -> TensorData:
        return TensorData(*super().data(split).batch(torch.arange(60)))


@pytest.mark.parametrize("strategy", ["io", "jd_imtlg"])
def test_multidigits_there_has_the_numbers_of_the_cpu(strategy):
    problem = FewDigits()
    settings = {**SHORT, "batch_size": 20, "eval_batch_size": 30, "model_channels": 4}
    check_numbers(strategy, problem, **settings)
    check_waits(strategy, problem, **settings)


class FewGlyphs(Glyphs):
    """Its first images; reference losses are found by `train`."""

    objective = Objective("val/loss")

    def data(self, split: str) -> TensorData:
        return TensorData(*super().data(split).batch(torch.arange(60)))


def test_glyphs_there_have_the_numbers_of_the_cpu():
    problem = FewGlyphs()
    settings = {**SHORT, "batch_size": 20, "eval_batch_size": 30, "model_channels": 4}
    check_numbers("sus", problem, **settings)
    check_waits("sus", problem, **settings)


def test_no_problem_is_forgotten():
    assert problems.keys() == {*SIZES, "multidigits", "glyphs", "quadratics"}, "a new problem has no law here"


@pytest.mark.parametrize("optimizer", ["theorem", "tests.device.parts:plain_adam"])
def test_quadratics_there_have_the_numbers_of_the_cpu(optimizer):
    problem = load_problem("quadratics", {"problem_tasks": 3})
    settings = {**SHORT, "batch_size": 100, "optimizer": optimizer}
    settings |= {"clip_norm": None, "schedule": "constant", "lr": 1.0 if optimizer == "theorem" else 0.1}
    check_numbers("ius", problem, **settings)
    check_waits("ius", problem, **settings)


METRICS = {
    "iou": lambda: PerImageIoU(3),
    "accuracy": PixelAccuracy,
    "distance": lambda: DepthError(relative=False),
    "relative": lambda: DepthError(relative=True),
    "angle": AngleError,
    "median": lambda: AngleError("median"),
    "encoded": lambda: AngleError("median", encoded=True),
    "within": lambda: AnglesWithin(60.0),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_images_are_made_where_they_are(name):
    values = []
    with present() as place:
        for where in (place, "cpu"):
            metric, generator = METRICS[name]().to(where), torch.Generator().manual_seed(3)
            for _ in range(2):
                predicted, true = torch.randn(2, 2, 3, 4, 5, generator=generator)
                true[:, :, 0] = 0.0
                masks = true > 0 if name in ("iou", "accuracy") else true
                metric.update(predicted.to(where), masks.to(where))
            values.append(metric.compute().item())
    assert values[0] == values[1]
    assert values[0] > 0
