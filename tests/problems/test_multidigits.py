import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from tune_mtl import load_problem
from tune_mtl.problems.multidigits import DIGIT, HEIGHT, IMAGES, WIDTH, compose, digit_pools


def test_no_digit_is_in_two_splits():
    pools = digit_pools(1797)
    assert sorted(np.concatenate(list(pools.values())).tolist()) == list(range(1797))


@pytest.mark.parametrize("split", IMAGES)
def test_images_are_two_real_digits_of_the_splits_pool(split):
    digits = load_digits()
    pool = digit_pools(len(digits.target))[split]
    images, targets = compose(split)
    assert images.shape == (IMAGES[split], 1, HEIGHT, WIDTH)
    for index in range(0, IMAGES[split], 97):
        canvas = images[index, 0].numpy()
        explained = {
            (left_digit, column, row)
            for left_digit in pool[digits.target[pool] == int(targets["left"][index])]
            for column in (0, 1)
            for row in range(HEIGHT - DIGIT + 1)
            if (canvas[row : row + DIGIT, column : column + DIGIT] >= digits.images[left_digit] / 16.0 - 1e-6).all()
            and np.allclose(canvas[row : row + DIGIT, column : column + 4], digits.images[left_digit][:, :4] / 16.0)
        }
        assert explained, f"no digit of the pool is on the left of image {index}"


def test_targets_agree_with_each_other():
    images, targets = compose("train")
    assert torch.equal(targets["sum"], (targets["left"] + targets["right"]).float())
    assert torch.equal(targets["segment"] == 0, images[:, 0] == 0)
    assert (targets["segment"][:, :, :5] != 2).all()
    assert (targets["segment"][:, :, -5:] != 1).all()
    assert set(targets["segment"].unique().tolist()) == {0, 1, 2}


def test_composition_is_deterministic_and_splits_differ():
    first, second = compose("val"), compose("val")
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[0], compose("test")[0])


def test_reference_losses_are_those_of_the_best_constant_prediction():
    problem = load_problem("multidigits")
    targets = compose("train")[1]
    for task in problem.tasks:
        target = targets[task.name]
        if task.name == "sum":
            constants = [torch.full_like(target, value) for value in torch.linspace(0, 18, 181).tolist()]
            best = min(task.loss(constant, target).item() for constant in constants)
            assert task.reference_loss == pytest.approx(best, rel=1e-3)
        else:
            shares = torch.bincount(target.flatten()).double() / target.numel()
            shape = (*target.shape[:1], len(shares), *target.shape[1:])
            logits = shares.log().view(1, -1, *[1] * (target.ndim - 1)).expand(shape)
            assert task.reference_loss == pytest.approx(task.loss(logits, target).item(), rel=1e-6)


def test_batches_come_from_tensors_in_the_order_asked():
    data = load_problem("multidigits").data("train")
    batch = data.batch(torch.tensor([5, 3, 5]))
    assert torch.equal(batch.inputs[0], batch.inputs[2])
    assert torch.equal(batch.targets["left"], compose("train")[1]["left"][[5, 3, 5]])


def test_it_is_judged_by_its_scale_free_loss():
    assert str(load_problem("multidigits").objective) == "val/relative_loss:min"
