"""The Ray Tune class, without a cluster."""

import gc

import pytest
import torch

import trainables
from tests.training.trainers import timeless
from trainables import MTLTrainable
from tune_mtl import train
from tune_mtl.strategies.registry import registry
from tune_mtl.training.path import PathLength
from tune_mtl.training.trainer import Trainer

CONFIG = {"problem": "tests.trainables.fixtures:problem", "strategy": "io", "lr": 0.01, "trial": "0007"}


def run(trainable, times):
    return [trainable.step() for _ in range(times)]


def numbers(results):
    skipped = ("seconds", "should_checkpoint")
    return [{k: v for k, v in result.items() if k not in skipped} for result in results]


def test_a_step_is_an_evaluation_period_and_the_numbers_are_those_of_train():
    results = run(MTLTrainable(CONFIG), 4)
    whole = train(CONFIG["problem"], {"strategy": "io", "lr": 0.01})
    for result, record in zip(results, timeless(whole.history), strict=True):
        assert record.items() <= result.items()
    assert [result["done"] for result in results] == [False, False, False, True]
    assert [result["outcome"] for result in results] == ["running"] * 3 + ["completed"]
    assert results[-1]["best"] == min(record["val/loss"] for record in whole.history)


def test_checkpoints_are_exact(tmp_path):
    whole = run(MTLTrainable(CONFIG), 4)
    first = MTLTrainable(CONFIG)
    run(first, 2)
    first.save_checkpoint(str(tmp_path))
    second = MTLTrainable(CONFIG)
    second.load_checkpoint(str(tmp_path))
    assert numbers(run(second, 2)) == numbers(whole[2:])


def test_a_reused_actor_leaks_nothing():
    other = {**CONFIG, "strategy": "sus", "lr": 0.3, "seed": 9, "optimizer": "momentum"}
    reused = MTLTrainable(other)
    run(reused, 2)
    assert reused.reset_config(CONFIG)
    assert numbers(run(reused, 4)) == numbers(run(MTLTrainable(CONFIG), 4))


def test_cleanup_frees_the_trial():
    trainable = MTLTrainable(CONFIG)
    run(trainable, 1)
    trainable.cleanup()
    gc.collect()
    assert not any(isinstance(thing, Trainer | PathLength) for thing in gc.get_objects())


def test_divergence_is_a_result_without_metrics():
    result = MTLTrainable({**CONFIG, "lr": 1e30, "optimizer": "sgd"}).step()
    assert (result["outcome"], result["done"]) == ("diverged", True)
    assert "first to be not finite" in result["reason"]
    assert not any(name.startswith("val/") for name in result)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError("no more")])
def test_out_of_memory_is_named_and_not_tried_again(monkeypatch, error):
    def fail(*_):
        raise error

    trainable = MTLTrainable(CONFIG)
    monkeypatch.setattr(trainable.trainer, "run_period", fail)
    result = trainable.step()
    assert (result["outcome"], result["done"]) == ("failed", True)
    assert "out of memory" in result["reason"]


def test_one_class_per_strategy():
    for name in registry:
        (chosen,) = [c for c in vars(trainables).values() if getattr(c, "strategy", None) == name]
        assert chosen.__name__ in trainables.__all__
        config = {**CONFIG, "problem": "tests.trainables.fixtures:convolutional", "strategy": "ignored"}
        assert chosen(config).trainer.config.strategy == name
