"""Trials that are judged by a scalarisation: its value at every epoch, the best epoch, and what is refused."""

import json
from dataclasses import replace

import pytest
from torchmetrics import MeanSquaredError

from tests.toys import toy_problem
from tests.training.trainers import make_trainer
from tune_mtl import UserError, train

TASKS = ("t0", "t1", "t2")
REFERENCES = {"t0": 2.0, "t1": 0.5, "t2": 1.0}


def problem():
    made = toy_problem(3, objective=None, dropout=False)
    made.tasks = [replace(task, reference_loss=REFERENCES[task.name]) for task in made.tasks]
    return made


def history(**config):
    found = train(problem(), {"strategy": "sus", "lr": 0.02, "epochs": 4, **config})
    return found, found.history


def relative(record, split="val"):
    return {task: record[f"{split}/loss/{task}"] / REFERENCES[task] for task in TASKS}


def test_the_worst_task_decides():
    found, records = history(metric="val/worst_task")
    for record in records:
        assert record["val/worst_task"] == max(relative(record).values())
    assert found.metrics["best/val/worst_task"] == min(record["val/worst_task"] for record in records)


def test_weights_decide():
    found, records = history(metric="val/weighted_loss", task_weights="t1=3,t2=0")
    for record in records:
        losses = relative(record)
        assert record["val/weighted_loss"] == pytest.approx((losses["t0"] + 3 * losses["t1"]) / 4)
    assert found.metrics["best/val/weighted_loss"] == min(record["val/weighted_loss"] for record in records)
    assert found.config["task_weights"] == "t1=3,t2=0"


def test_equal_weights_are_the_relative_loss():
    _, records = history(metric="val/weighted_loss", task_weights="t0=2,t1=2,t2=2")
    for record in records:
        assert record["val/weighted_loss"] == pytest.approx(record["val/relative_loss"], rel=1e-12)


def test_delta_m_decides_and_more_is_better():
    given = problem()
    given.tasks = [
        given.tasks[0],
        *(replace(task, metrics=lambda: {"mse": MeanSquaredError()}) for task in given.tasks[1:]),
    ]
    asked = {"metric": "val/delta_m", "task_reference": "t0=0.5,t1/mse=2,t2=4,t2/mse=1"}
    found = train(given, {"strategy": "sus", "lr": 0.02, "epochs": 3, **asked})
    for record in found.history:
        parts = [
            (0.5 - record["val/loss/t0"]) / 0.5,
            (2 - record["val/t1/mse"]) / 2,
            ((4 - record["val/loss/t2"]) / 4 + (1 - record["val/t2/mse"]) / 1) / 2,
        ]
        assert record["val/delta_m"] == pytest.approx(100 * sum(parts) / 3)
    assert found.metrics["best/val/delta_m"] == max(record["val/delta_m"] for record in found.history)


def test_a_run_says_no_more_than_it_was_asked():
    found, records = history()
    assert not {"val/worst_task", "val/weighted_loss", "val/delta_m"} & records[0].keys()
    assert not {"task_weights", "task_reference"} & found.config.keys()
    json.dumps(found.config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"metric": "val/weighted_loss"}, "objective 'weighted' .* needs task_weights"),
        ({"metric": "val/delta_m"}, "objective 'delta-m' .* needs task_reference"),
        ({"task_weights": "t0=1"}, "task_weights is read by objective 'weighted' alone"),
        ({"metric": "val/weighted_loss", "task_weights": "t9=1"}, "there is no task 't9'"),
        ({"metric": "val/delta_m", "task_reference": "t0=1,t1=1"}, "no value for task 't2'"),
    ],
)
def test_what_cannot_be_is_refused_before_training(config, said):
    with pytest.raises(UserError, match=said):
        history(**config)


def test_stopped_and_continued_it_is_the_same():
    config = {"metric": "val/weighted_loss", "task_weights": "t1=3"}
    whole, first = (make_trainer(problem(), strategy="sus", **config) for _ in range(2))
    while not whole.finished:
        whole.run_period()
    first.run_period()
    again = make_trainer(problem(), strategy="sus", **config)
    again.load_state_dict(first.state_dict())
    while not again.finished:
        again.run_period()
    values = [[record["val/weighted_loss"] for record in trainer.history] for trainer in (whole, again)]
    assert values[0] == values[1]
    assert whole.best.record["epoch"] == again.best.record["epoch"]
