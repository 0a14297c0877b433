"""The Ray Tune class, without a cluster."""

import gc
import shutil
import statistics

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


LONGER = {**CONFIG, "strategy": "sus", "epochs": 6, "max_updates": 38}
SHORTER = {**CONFIG, "strategy": "sus", "epochs": 3}


@pytest.fixture
def left(tmp_path):
    """The folder that a run of three epochs has left, tested and all."""
    shorter = MTLTrainable(SHORTER)
    shorter._test = True
    run(shorter, 3)
    (tmp_path / "checkpoint_000000").mkdir()
    shorter.save_checkpoint(str(tmp_path / "checkpoint_000000"))
    return tmp_path


def longer(folder=None) -> MTLTrainable:
    """A longer run that is tested, and goes on from what is in ``folder``."""
    continues = {} if folder is None else {"continues": {"run": "confirm-sus-1", "folder": str(folder)}}
    trainable = MTLTrainable({**LONGER, **continues})
    trainable._test = True
    return trainable


def told(results):
    """The results of evaluations, and what is said once of the whole; who was continued aside."""
    kept = [{k: v for k, v in r.items() if "/" in k or k in ("epoch", "updates", "best", "smoothed")} for r in results]
    return [{k: v for k, v in r.items() if not k.startswith(("best/", "path/best", "memory"))} for r in kept] + [
        {k: v for k, v in results[-1].items() if k not in ("seconds", "should_checkpoint", "continued")}
    ]


def test_a_longer_run_reports_the_epochs_that_it_took_over_as_its_own(left):
    continued = longer(left)
    assert continued.trainer.epoch == 3
    found = run(continued, 6)
    assert told(found) == told(run(longer(), 6))
    assert [result["continued"] for result in found] == ["confirm-sus-1"] * 6
    assert not any(result["should_checkpoint"] for result in found[:2])
    assert [result["done"] for result in found] == [False] * 5 + [True]


@pytest.mark.parametrize("when", [1, 4])
def test_saved_while_or_after_it_tells_what_it_took_over_it_goes_on_exactly(left, tmp_path, when):
    expected = run(longer(left), 6)
    first = longer(left)
    run(first, when)
    first.save_checkpoint(str(tmp_path))
    shutil.rmtree(left / "checkpoint_000000")
    second = longer(left)
    second.load_checkpoint(str(tmp_path))
    assert numbers(run(second, 6 - when)) == numbers(expected[when:])


@pytest.mark.parametrize("harm", ["gone", "damaged", "of another config"])
def test_what_cannot_be_taken_over_costs_time_alone(left, harm):
    file = left / "checkpoint_000000" / "checkpoint.pt"
    if harm == "gone":
        shutil.rmtree(left)
    elif harm == "damaged":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        other = MTLTrainable({**SHORTER, "lr": 0.02})
        run(other, 3)
        other.save_checkpoint(str(left / "checkpoint_000000"))
    anew = longer(left)
    assert anew.trainer.epoch == 0
    assert numbers(run(anew, 6)) == numbers(run(longer(), 6))


def test_values_by_which_an_epoch_may_be_judged():
    results = run(MTLTrainable({**CONFIG, "epochs": 5}), 5)
    values = [result["val/loss"] for result in results]
    assert [result["best"] for result in results] == [min(values[: end + 1]) for end in range(5)]
    smoothed = [statistics.fmean(values[max(0, end - 2) : end + 1]) for end in range(5)]
    assert [result["smoothed"] for result in results] == pytest.approx(smoothed)


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
    made = [getattr(trainables, each) for each in trainables.__all__]
    assert [each.__name__ for each in made] == trainables.__all__
    assert set(trainables.__all__) < set(dir(trainables))
    for name in registry:
        (chosen,) = [c for c in made if c.strategy == name]
        config = {**CONFIG, "problem": "tests.trainables.fixtures:convolutional", "strategy": "ignored"}
        assert chosen(config).trainer.config.strategy == name
