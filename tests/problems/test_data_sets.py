"""The paper's problems on small prepared sets: losses, metrics, protocols, and every strategy for an epoch."""

import math
import os

import numpy as np
import pytest
import torch

import tune_mtl
from search_spaces import find_space
from tests.prepare import makers
from tests.test_cli import tune_mtl as command
from tune_mtl import UserError, load_problem, train
from tune_mtl.models.unet import unet
from tune_mtl.prepare.datasets import open_source, prepare_source
from tune_mtl.problems.dense_metrics import AngleError, AnglesWithin, DepthError, PerImageIoU, PixelAccuracy
from tune_mtl.problems.nyuv2 import depth_loss, normals_loss
from tune_mtl.strategies.registry import registry
from tune_mtl.training.path import traced_weights

SIZES = {"celeba": "16x16", "cityscapes": "16x32", "nyuv2": "16x16"}
BATCHES = {"celeba": 8, "cityscapes": 4, "nyuv2": 4}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    makers.write_celeba(folder / "source/celeba", 24)
    makers.write_cityscapes(folder / "source/cityscapes", 21, 5)
    makers.write_nyuv2_npy(folder / "source/nyuv2", 20, 5)
    for name, size in SIZES.items():
        prepare_source(open_source(name, folder / "source" / name, size, None), folder / "out")
    return folder / "out"


@pytest.fixture(autouse=True)
def at_home(sets, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_DATA", str(sets))


def test_the_unet_has_the_papers_size():
    model = unet({"segmentation": 13, "depth": 1, "normals": 3})
    assert sum(p.numel() for p in model.parameters()) == 17_268_433
    assert sum(p.numel() for p in traced_weights(model.trunk)) == 17_258_496
    assert sum(p.numel() for p in model.heads.parameters()) == 1_105


@pytest.mark.parametrize("name", SIZES)
def test_strategies_of_every_kind_train_an_epoch(name):
    problem = load_problem(name)
    assert str(problem.judged_by) == "val/loss:min"
    kinds = [name for name, info in registry.items() if info.family != "torchjd"]
    for strategy in (*kinds, "jd_upgrad", "jd_nashmtl", "jd_graddrop", "jd_uw"):
        config = {"strategy": strategy, "lr": 1e-4, "epochs": 1, "batch_size": BATCHES[name], "eval_batch_size": 3}
        if strategy == "jd_nashmtl" and name == "celeba":
            config["jd_nashmtl_optim_niter"] = 1
        result = train(problem, config | {"evaluate_every": 1, "threads": 1, "model_channels": 4})
        assert result.outcome == "completed", strategy
        assert math.isfinite(result.metrics["best/val/loss"])
        assert math.isfinite(result.metrics["test/loss"])


def test_the_papers_settings():
    expected = {
        "celeba": (256, 15, 1, "sus ius io gradnorm pcgrad mgda_ub mr", 5e-5, 5e-3),
        "cityscapes": (24, 150, 8, "sus ius io gradnorm pcgrad mr", 5e-5, 5e-3),
        "nyuv2": (8, 500, 5, "sus ius io gradnorm pcgrad mr", 2e-5, 1e-3),
    }
    for name, (batch, epochs, every, strategies, low, high) in expected.items():
        problem = load_problem(name)
        defaults = problem.defaults
        assert (defaults["batch_size"], defaults["epochs"], defaults["evaluate_every"]) == (batch, epochs, every)
        space = find_space(problem, "paper")
        assert space.strategies == tuple(strategies.split())
        assert space.seeds == (0, 1, 2)
        rates = space.dimensions["lr"].points()
        assert (rates[0], rates[-1]) == (low, high)
        assert find_space(problem, "wide")
    faces = find_space(load_problem("celeba"), "paper")
    assert faces.of("io")["groups"].points() == (2, 4, 8, 20, 40)
    assert faces.of("gradnorm")["gradnorm_alpha"].points() == (0.2,)
    assert faces.of("mr")["mr_updates_end"].points() == (3000,)
    assert find_space(load_problem("nyuv2"), "paper").of("io")["groups"].points() == (3,)


def test_protocols():
    holdout, paper = load_problem("nyuv2"), load_problem("nyuv2", {"protocol": "paper"})
    assert [len(holdout.data(split)) for split in ("train", "val", "test")] == [18, 2, 5]
    assert [len(paper.data(split)) for split in ("train", "val")] == [20, 5]
    assert paper.data("test") is None
    assert not set(holdout.data("train").rows) & set(holdout.data("val").rows)
    assert load_problem("nyuv2", {"problem_protocol": "paper"}).protocol == "paper"
    result = train(
        "nyuv2", {"strategy": "sus", "lr": 1e-4, "epochs": 1, "batch_size": 4, "model_channels": 4, "protocol": "paper"}
    )
    assert result.config["problem_protocol"] == "paper"
    assert "test/loss" not in result.metrics
    with pytest.raises(UserError, match="must be holdout or paper"):
        load_problem("cityscapes", {"protocol": "mine"})
    official = load_problem("celeba")
    assert [len(official.data(split)) for split in ("train", "val", "test")] == [12, 6, 6]


def test_a_set_that_is_not_there_is_named_with_the_way_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_DATA", str(tmp_path))
    with pytest.raises(UserError, match="tune-mtl prepare celeba --source DIR"):
        load_problem("celeba")


def placed(problem, split, rows):
    return problem.to_device(problem.data(split).batch(torch.tensor(rows)), torch.Generator())


def test_celeba_targets_and_inputs():
    batch = placed(load_problem("celeba"), "train", [3, 0])
    assert list(batch.targets) == makers.ATTRIBUTES
    for index, name in enumerate(makers.ATTRIBUTES):
        assert batch.targets[name].tolist() == [float(makers.celeba_values(row)[index] > 0) for row in (3, 0)]
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.min() >= 0
    assert batch.inputs[0, 0].mean().item() == pytest.approx(60 / 255, abs=0.02)


def test_cityscapes_targets_are_disjoint_maps():
    problem = load_problem("cityscapes")
    batch = placed(problem, "test", [0, 1, 2])
    stored = problem.data("test").batch(torch.tensor([0, 1, 2])).targets["categories"]
    maps = torch.cat([batch.targets[name] for name in problem.categories], dim=1)
    assert maps.shape == (3, 7, 16, 32)
    assert torch.equal(maps.sum(dim=1), (stored > 0).float())
    assert torch.equal(maps.argmax(dim=1)[stored > 0] + 1, stored[stored > 0].long())


def test_nyuv2_targets():
    problem = load_problem("nyuv2")
    batch = placed(problem, "test", [1])
    stored = problem.data("test").batch(torch.tensor([1])).targets
    masks = batch.targets["segmentation"]
    assert masks.shape == (1, 13, 16, 16)
    assert torch.equal(masks.sum(dim=1) == 0, stored["labels"] == 255)
    assert batch.targets["depth"].shape == (1, 1, 16, 16)
    assert torch.allclose(batch.targets["normals"].norm(dim=1), torch.ones(1, 16, 16), atol=2e-3)


def one_hot(classes, labels):
    """``labels[B, H, W]`` from -1 as masks."""
    return torch.stack([labels == index for index in range(classes)], dim=1).float()


def test_iou_is_per_image_over_images_that_contain_the_class():
    labels = torch.tensor([[[0, 0, 1, 1]], [[0, 0, 0, 0]], [[-1, -1, -1, -1]]])
    masks = one_hot(3, labels)
    metric = PerImageIoU(3)
    metric.update(masks * 2 - 1, masks)
    assert metric.compute() == 1.0
    metric.reset()
    metric.update(1 - masks * 2, masks)
    assert metric.compute() == 0.0
    metric.reset()
    seen = one_hot(3, torch.tensor([[[0, 1, 1, 1]], [[0, 0, 2, 2]], [[0, 0, 0, 0]]]))
    metric.update(seen * 2 - 1, masks)
    first, second = (1 / 2 + 2 / 4) / 2, 2 / 3
    assert metric.compute().item() == pytest.approx((first + second) / 2)
    metric.reset()
    metric.update(-torch.ones(1, 3, 1, 4), masks[2:])
    assert math.isnan(metric.compute())


def test_pixel_accuracy_has_a_background():
    labels = torch.tensor([[[0, 1, 2, -1]]])
    masks = one_hot(3, labels)
    for logits, expected in (
        (masks * 2 - 1, 1.0),
        (-torch.ones(1, 3, 1, 4), 1 / 4),
        (torch.tensor([[3.0, 3.0, 3.0, 3.0], [1, 4, 1, 1], [2, 2, 1, -9]]).view(1, 3, 1, 4), 2 / 4),
    ):
        metric = PixelAccuracy()
        metric.update(logits, masks)
        assert metric.compute().item() == pytest.approx(expected)


def test_depth_over_known_pixels():
    depth = torch.tensor([[[[2.0, 0.0, 4.0, 0.0]]]])
    predicted = torch.tensor([[[[3.0, 99.0, 3.0, -5.0]]]])
    absolute, relative = DepthError(relative=False), DepthError(relative=True)
    for metric, expected in ((absolute, 1.0), (relative, (1 / 2 + 1 / 4) / 2)):
        metric.update(predicted, depth)
        assert metric.compute().item() == pytest.approx(expected)
    assert depth_loss(predicted, depth).item() == pytest.approx(1.0)
    assert depth_loss(predicted, torch.zeros_like(depth)).item() == 0.0


def angles(kind, predicted, normals, **keywords):
    metric = AngleError(kind, **keywords) if isinstance(kind, str) else AnglesWithin(kind, **keywords)
    metric.update(predicted, normals)
    return metric.compute().item()


def test_angles_of_constructed_normals():
    random = torch.Generator().manual_seed(0)
    normals = torch.nn.functional.normalize(torch.randn(2, 3, 5, 7, generator=random), dim=1)
    for kind, expected in (("mean", 0.0), ("median", 0.0), (11.25, 1.0), (30.0, 1.0)):
        assert angles(kind, 3 * normals, normals) == pytest.approx(expected, abs=1e-4)
    for kind, expected in (("mean", 180.0), ("median", 180.0), (11.25, 0.0), (30.0, 0.0)):
        assert angles(kind, -normals, normals) == pytest.approx(expected, abs=1e-3)
    turned = torch.tensor([0.0, 10.0, 20.0, 40.0]).deg2rad()
    predicted = torch.stack([turned.sin(), torch.zeros(4), turned.cos()]).view(1, 3, 1, 4)
    ahead = torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1).expand(1, 3, 1, 4)
    assert angles("mean", predicted, ahead) == pytest.approx(17.5, abs=1e-3)
    assert angles("median", predicted, ahead) == pytest.approx(10.0, abs=2e-3)
    assert angles(11.25, predicted, ahead) == 0.5
    assert angles(22.5, predicted, ahead) == 0.75
    unknown = torch.cat([ahead, torch.zeros(1, 3, 1, 2)], dim=3)
    wild = torch.cat([predicted, torch.ones(1, 3, 1, 2)], dim=3)
    assert angles("mean", wild, unknown) == pytest.approx(17.5, abs=1e-3)
    loss = normals_loss(encoded=False)
    assert loss(wild, unknown).item() == pytest.approx(1 - turned.cos().mean().item(), abs=1e-6)
    assert loss(normals, normals).item() == pytest.approx(0.0, abs=1e-6)
    assert angles("mean", predicted, ahead, encoded=True) != pytest.approx(17.5, abs=1)


def test_metrics_of_a_trial_are_those_of_the_whole_split():
    config = {"strategy": "sus", "lr": 1e-3, "epochs": 1, "batch_size": 4, "model_channels": 4, "threads": 1}
    result = train("cityscapes", config)
    problem, model = load_problem("cityscapes"), result.load_model()
    batch = placed(problem, "val", list(range(len(problem.data("val")))))
    with torch.no_grad():
        predictions = model(batch.inputs)
    right = total = 0
    logits = torch.cat([predictions[name] for name in problem.categories], dim=1).numpy()
    masks = torch.cat([batch.targets[name] for name in problem.categories], dim=1).numpy()
    for image in range(len(logits)):
        for y in range(16):
            for x in range(32):
                best = int(np.argmax(logits[image, :, y, x]))
                seen = best if logits[image, best, y, x] >= 0 else -1
                there = int(np.argmax(masks[image, :, y, x])) if masks[image, :, y, x].any() else -1
                right, total = right + (seen == there), total + 1
    assert result.metrics["best/val/pixel_accuracy"] == pytest.approx(right / total)
    own = [result.metrics[f"best/val/{name}/iou"] for name in problem.categories]
    assert result.metrics["best/val/iou"] == pytest.approx(np.nanmean(own))
    assert np.isnan(own).any()


@pytest.mark.slow
def test_a_search_over_faces(sets, tmp_path):
    words = ["search", "celeba", "--strategies", "sus,io", "--samples", "4", "--max-epochs", "2", "--name", "faces"]
    words += ["--set", "model_channels=4", "--set", "batch_size=6", "--set", "eval_batch_size=6", "--data", str(sets)]
    environment = {**os.environ, "TUNE_MTL_HOME": str(tmp_path / "home")}
    environment.pop("TUNE_MTL_DATA", None)
    done = command(*words, cwd=tmp_path, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    assert "search 'faces' complete" in done.stdout
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    frame = tune_mtl.trials("faces", tracking_uri=uri)
    assert len(frame) == 4
    assert {"best/val/f1", "best/val/error", "best/val/Attribute_0/f1"} <= set(frame.columns)
    winner = tune_mtl.best("faces", tracking_uri=uri)
    assert winner.config["problem_data"] == str(sets)
    assert winner.load_model()(torch.rand(2, 3, 16, 16)).keys() == set(makers.ATTRIBUTES)
