"""The loop around the strategies on a simulated device: trainer, path, loader, evaluation, commands and Ray's class."""

import math
import warnings

import pytest
import torch
from torch import Tensor

from tests.device import parts
from tests.device.simulated import counted, present
from tests.device.trials import LOOK, MET, config, on_the_cpu, trainer, waits_of_an_epoch
from tests.training.trainers import timeless
from trainables import MTLTrainable
from tune_mtl import Task, TensorData, train
from tune_mtl.training import checkpoint
from tune_mtl.training.examination.examine import examine
from tune_mtl.training.path import PathLength
from tune_mtl.training.trainer import Diverged

OWN = "tests.device.parts:problem"


@pytest.fixture(autouse=True)
def place():
    with warnings.catch_warnings(), present() as device:
        warnings.filterwarnings("ignore", module="torchmetrics")
        yield device


def repeated(times: int):
    """The data, so many times: long epochs."""

    def data(split: str) -> TensorData:
        inputs, targets, present = parts.data(split).everything
        longer = {task: torch.cat([target] * times) for task, target in targets.items()}
        return TensorData(torch.cat([inputs] * times), longer, {"classes": torch.cat([present["classes"]] * times)})

    return data


@pytest.mark.parametrize("strategy", ["sus", "io"])
def test_the_loop_waits_every_fifty_mini_batches_and_at_the_end_of_an_epoch(place, strategy):
    long = trainer(strategy, place, parts.problem(data=repeated(11)), epochs=1)
    assert long.path is not None
    waits = waits_of_an_epoch(long)
    assert len(waits) == 55
    assert {number: found for number, found in enumerate(waits, start=1) if found} == {50: [LOOK], 55: [LOOK]}


def test_an_evaluation_without_metrics_waits_once_however_long_it_is(place):
    bare = [Task(task.name, task.loss) for task in parts.problem().tasks]
    found = []
    for times in (1, 4):
        short = trainer("sus", place, parts.problem(data=repeated(times), tasks=bare, joint_metrics=dict))
        with counted() as waits:
            values = short.evaluate("val")
        assert math.isfinite(values["val/loss"])
        found.append(waits)
    assert found == [["tolist"], ["tolist"]]


def test_the_path_is_measured_there_and_read_when_asked_for(place):
    lengths = []
    for where in (place, "cpu"):
        torch.manual_seed(0)
        model = parts.model().to(where)
        optimizer = parts.plain_adam(model.parameters())
        path = PathLength(model, [optimizer])
        with counted() as waits:
            for weight in model.parameters():
                weight.grad = torch.ones_like(weight)
            for _ in range(3):
                optimizer.step()
        assert waits == []
        with counted() as waits:
            lengths.append((path.total, path.from_start()))
        assert len(waits) == (0 if where == "cpu" else 2)
    assert lengths[0] == lengths[1]
    assert lengths[0][0] > 0


@pytest.mark.parametrize(("first", "then"), [("cpu", "simulated"), ("simulated", "cpu")])
@pytest.mark.parametrize("strategy", ["mr", "jd_dwa", "jd_gradvac", "jd_excessmtl", "jd_famo", "moco"])
def test_a_checkpoint_goes_on_on_another_kind_of_device(strategy, first, then, tmp_path):
    """The config may say ``auto``, and the machine may have another device than the one before."""
    begun = trainer(strategy, first)
    begun.run_period()
    checkpoint.save(tmp_path / "checkpoint.pt", begun.state_dict())
    state = checkpoint.load(tmp_path / "checkpoint.pt")
    gone_on = trainer(strategy, then)
    gone_on.load_state_dict(state | {"config": gone_on.config.as_dict()})
    gone_on.run_period()
    assert timeless(gone_on.history) == on_the_cpu(strategy, MET).records


def test_a_run_on_disk_there_is_that_of_the_cpu(place, tmp_path):
    problem = parts.problem()
    there, here = (
        train(problem, config("io", where), out=tmp_path / name) for where, name in ((place, "there"), ("cpu", "here"))
    )
    assert timeless(there.history) == timeless(here.history)
    assert timeless([there.metrics]) == timeless([here.metrics])
    again = train(problem, config("io", place), out=tmp_path / "there", resume=True)
    assert timeless(again.history) == timeless(here.history)
    inputs = parts.data("test").everything.inputs
    models = [result.load_model() for result in (there, here, again)]
    outputs = [torch.cat([part.flatten() for part in model(inputs).values()]) for model in models]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])


def test_rays_class_there_gives_the_results_of_the_cpu(place, tmp_path):
    def results(where):
        begun = MTLTrainable({"problem": OWN, **config("igb", where)})
        found = [begun.step()]
        begun.save_checkpoint(str(tmp_path))
        ended = MTLTrainable({"problem": OWN, **config("igb", where)})
        ended.load_checkpoint(str(tmp_path))
        found.append(ended.step())
        return [
            {key: value for key, value in one.items() if key not in ("seconds", "should_checkpoint")} for one in found
        ]

    there = results(place)
    assert there == results("cpu")
    assert [result["outcome"] for result in there] == ["running", "completed"]


def test_what_diverges_there_is_said_as_on_the_cpu(place):
    def nowhere(prediction: Tensor, target: Tensor) -> Tensor:
        return prediction.mean().exp().exp() * torch.inf

    reasons = []
    for where in (place, "cpu"):
        lost = trainer("sus", where, parts.problem(tasks=[Task("numbers", nowhere), *parts.problem().tasks[1:]]))
        with pytest.raises(Diverged) as caught:
            lost.run_period()
        reasons.append(str(caught.value))
    assert reasons[0] == reasons[1]
    assert "epoch 1, mini-batch 1: first to be not finite was the loss of task 'numbers'" in reasons[0]


def test_a_problem_is_checked_there_as_on_the_cpu(place):
    assert examine(parts.problem(), {"device": str(place)}) == examine(parts.problem(), {"device": "cpu"})
