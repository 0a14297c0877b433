"""A diverged trial says which task left the finite numbers first, and when."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.toys import make_tasks, toy_problem
from tests.training.trainers import Stop, make_trainer
from tune_mtl import Batch, Task, train
from tune_mtl.terminal.training import TrainingScreen
from tune_mtl.training.trainer import Diverged


def run(trainer) -> None:
    while not trainer.finished:
        trainer.run_period()


def reason_of(problem, **config) -> str:
    with pytest.raises(Diverged) as diverged:
        run(make_trainer(problem, batch_size=2, **config))
    return str(diverged.value)


def poisoned(at: int, task: str = "t1", *, samples: int = 300, value: float = math.nan):
    """The targets of a task are lost in the mini-batch of that number, counted over training alone."""
    seen = 0

    def to_device(batch, _):
        nonlocal seen
        seen += 1
        if seen != at:
            return batch
        return Batch(batch.inputs, {**batch.targets, task: batch.targets[task] * value})

    return toy_problem(samples=samples, to_device=to_device)


@pytest.mark.parametrize("strategy", ["sus", "ius", "io", "pcgrad", "stl", "jd_upgrad"])
@pytest.mark.parametrize("at", [1, 50, 51, 137])
def test_the_task_and_the_mini_batch_are_named_exactly(strategy, at):
    reason = reason_of(poisoned(at), strategy=strategy)
    assert reason == f"epoch 1, mini-batch {at}: first to be not finite was the loss of task 't1' (nan)"


def test_a_later_epoch_is_named():
    problem = poisoned(20 + 20 + 7, samples=40)  # an epoch of 20 mini-batches, and an evaluation of 20 between
    reason = reason_of(problem, strategy="io", eval_batch_size=2, epochs=3)
    assert reason.startswith("epoch 2, mini-batch 7: first to be not finite was the loss of task 't1'")


def test_several_tasks_at_once_are_all_named():
    tasks = make_tasks(5)

    def lost(prediction, target):
        return F.mse_loss(prediction, target) * torch.where(target.abs().max() > 0, math.inf, 1.0)

    problem = toy_problem(5)
    problem.tasks = [tasks[0], *(Task(f"t{index}", lost) for index in range(1, 5))]
    reason = reason_of(problem, strategy="sus")
    assert reason.endswith("the losses of tasks 't1', 't2', 't3' and 1 more (inf)")


class Lossless(torch.autograd.Function):
    """A loss that stays finite, and whose gradient is lost at the mini-batch asked for."""

    left = 0

    @staticmethod
    def forward(_, prediction):
        return prediction.square().mean().clone()

    @staticmethod
    def backward(_, gradient):
        Lossless.left -= 1
        return torch.full((2, 2), math.nan if Lossless.left == 0 else 0.0) * gradient


@pytest.mark.parametrize("strategy", ["sus", "io"])
@pytest.mark.parametrize("at", [1, 50, 99, 150])
def test_weights_that_are_lost_by_a_gradient_are_said_to_be(strategy, at):
    """Also at the last mini-batch before the device is waited for, and at the last of an epoch."""
    Lossless.left = at
    problem = toy_problem(2, samples=300)
    problem.tasks = [Task("t0", lambda p, _: Lossless.apply(p)), Task("t1", F.mse_loss)]
    reason = reason_of(problem, strategy=strategy)
    if at == 150 and strategy == "sus":
        assert reason == "epoch 1, after its last mini-batch: first to be not finite: the trunk's weights"
    else:
        assert reason.startswith(f"epoch 1, mini-batch {at}: first to be not finite was a step of the trunk's weights")


def test_a_validation_loss_alone_is_said_to_be():
    problem = toy_problem(2)

    def loss(prediction, target):
        return F.mse_loss(prediction, target) * (math.nan if len(target) == 12 else 1.0)

    problem.tasks = [Task("t0", F.mse_loss), Task("t1", loss)]
    reason = reason_of(problem, strategy="sus", eval_batch_size=12)
    expected = "first to be not finite: the validation loss of task 't1', with finite weights"
    assert reason == f"epoch 1, after its last mini-batch: {expected}"


def test_the_reason_survives_a_checkpoint_between_loss_and_look():
    trainer = make_trainer(poisoned(10), batch_size=2)

    def stop():
        if trainer._mini_batch == 20:
            raise Stop

    with pytest.raises(Stop):
        trainer.run_period(stop)
    resumed = make_trainer(toy_problem(samples=300), batch_size=2)
    resumed.load_state_dict(trainer.state_dict())
    with pytest.raises(Diverged) as diverged:
        resumed.run_period()
    assert str(diverged.value) == "epoch 1, mini-batch 10: first to be not finite was the loss of task 't1' (nan)"


def test_train_returns_shows_and_keeps_the_reason(tmp_path, capsys):
    given = {"strategy": "sus", "lr": 1e30, "optimizer": "sgd", "epochs": 2}
    result = train(toy_problem(), given, out=tmp_path)
    assert result.outcome == "diverged"
    assert "first to be not finite" in result.reason
    TrainingScreen().summarise(result, tmp_path)
    assert f"{result.reason}. At lr=1e+30: try a smaller one." in capsys.readouterr().out
    assert train(toy_problem(), given, out=tmp_path, resume=True).reason == result.reason
    assert train(toy_problem(), {**given, "lr": 1e-3}).reason is None
