"""The law: who looks changes nothing. And when it looks, and at what."""

import importlib
import json
import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.toys import equal, make_batch, make_tasks, task_names, toy_problem, weights
from tests.training.trainers import Stop, make_trainer, timeless
from tune_mtl import MultiTaskModel, Problem, TensorData, UserError, train
from tune_mtl.core.seeds import global_state
from tune_mtl.experiment.planning.plan import diagnosis_of
from tune_mtl.results.settings import Settings
from tune_mtl.training.config import resolve
from tune_mtl.training.diagnosis.asked import check_diagnosed, usual_pace, where_possible
from tune_mtl.training.diagnosis.diagnosis import affordable_samples
from tune_mtl.training.diagnosis.quiet import without_a_trace

OWN = ("diagnosis/", "path/layer/")
importlib.import_module("sklearn.cluster")  # which `selective` loads late; its loading draws from Python's random state
STRATEGIES = ["sus", "ius", "io", "adatask", "mr", "gradnorm", "pcgrad", "rlw", "jd_graddrop", "selective"]


def half_labelled(count=3):
    """BatchNorm with running averages, dropout, and labels that are missing; one task has none in validation."""
    problem = toy_problem(count, conv=True)

    def data(split):
        seed = ("train", "val", "test").index(split)
        inputs, targets, present = make_batch(count, seed=seed, rows=40, dtype=torch.float32, missing=0.3)
        if split == "val":
            present["t1"][:] = False
        return TensorData(inputs, targets, present)

    return Problem("half", make_tasks(count), problem.model, data, defaults=problem.defaults)


def without_diagnosis(records):
    return [{name: value for name, value in record.items() if not name.startswith(OWN)} for record in timeless(records)]


def states(trainer):
    state = trainer.state_dict()
    plain = {key: state[key] for key in ("strategy", "model", "random", "augmentation", "meter", "mini_batch")}
    path = {key: value for key, value in (state["path"] or {}).items() if key != "layers"}
    return flat({**plain, "path": path})


def ended(problem, **config):
    """A trial trained to its end, which draws from global random states, and its state there."""
    trainer = make_trainer(problem, epochs=3, **config)
    while not trainer.finished:
        trainer.run_period()
    return trainer, json.dumps(states(trainer))


def flat(value):
    """Everything in nested dicts and lists, tensors as lists."""
    if isinstance(value, dict):
        return {str(key): flat(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [flat(inner) for inner in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_diagnosed_trial_has_every_number_of_one_that_is_not(strategy):
    problem = half_labelled()
    (plain, before), (looked, after) = (
        ended(problem, strategy=strategy, **more) for more in ({}, {"diagnose_every": 1})
    )
    assert equal(weights(plain.strategy.model), weights(looked.strategy.model))
    assert timeless(plain.history) == without_diagnosis(looked.history)
    assert before == after
    assert timeless([plain.summary()]) == timeless([looked.summary()])
    for record in looked.history:
        assert 0 <= record["diagnosis/conflict_share"] <= 1
        assert "diagnosis/norm/t1" not in record
        assert {name for name in record if name.startswith("diagnosis/norm/")} == {
            "diagnosis/norm/t0", "diagnosis/norm/t2"
        }  # fmt: skip


@pytest.mark.parametrize("strategy", ["io", "mr"])
def test_stopped_in_the_middle_and_resumed_equals_never_stopped(tmp_path, strategy):
    config = {"strategy": strategy, "lr": 0.01, "diagnose_every": 2, "evaluate_every": 1}
    whole = train(half_labelled(), config, out=tmp_path / "whole")

    def stop(record, _):
        if record["epoch"] == 3:
            raise Stop

    with pytest.raises(Stop):
        train(half_labelled(), config, out=tmp_path / "run", on_evaluation=stop)
    resumed = train(half_labelled(), config, out=tmp_path / "run", resume=True)

    def told(records):
        return [{k: v for k, v in record.items() if k != "diagnosis/seconds"} for record in timeless(records)]

    assert told(resumed.history) == told(whole.history)
    assert resumed.diagnosis == whole.diagnosis
    assert list(whole.diagnosis["cosines"]) == ["2", "4"]
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["diagnosis"] == whole.diagnosis


@pytest.mark.parametrize(
    ("every", "evaluate_every", "seen"), [(1, 1, [1, 2, 3, 4, 5]), (2, 1, [2, 4, 5]), (3, 2, [4, 5]), (9, 1, [5])]
)
def test_it_looks_at_the_first_evaluation_that_is_due_and_at_the_last(every, evaluate_every, seen):
    result = train(
        toy_problem(),
        {"strategy": "sus", "lr": 0.01, "epochs": 5, "evaluate_every": evaluate_every, "diagnose_every": every},
    )
    assert [int(record["epoch"]) for record in result.history if "diagnosis/conflict_share" in record] == seen
    assert list(result.diagnosis["cosines"]) == [str(epoch) for epoch in seen]


def test_every_trial_looks_at_the_same_samples():
    problem = toy_problem()
    batches = []
    for strategy, seed in (("sus", 0), ("io", 7)):
        trainer = make_trainer(problem, strategy=strategy, seed=seed, diagnose_every=1)
        trainer.run_period()
        batches.append(trainer.diagnosis._batch.inputs)
    assert torch.equal(*batches)
    assert len(batches[0]) == affordable_samples(60, 3) == 16
    asked = make_trainer(problem, strategy="sus", diagnose_every=1, diagnose_samples=1000)
    assert asked.diagnosis.samples == 60


def test_without_a_trace_leaves_none():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, inputs):
            self.seen += 1
            return inputs + torch.rand(()) + np.random.rand() + random.random()  # noqa: NPY002

    frozen, norm = nn.BatchNorm1d(3).eval(), nn.BatchNorm1d(3)
    model = nn.Sequential(nn.Linear(3, 3), norm, nn.Dropout(0.5), frozen, Noisy())
    frozen.eval()
    before, modes, random_state = weights(model), [m.training for m in model.modules()], flat(global_state())
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    with without_a_trace(model):
        first = model(inputs)
        normed = norm(model[0](inputs))
        assert not model[2].training
    with without_a_trace(model):
        second = model(inputs)
    assert torch.equal(first, second)
    assert torch.allclose(normed.mean(0), torch.zeros(3), atol=1e-6)  # the batch's own statistics, as in training
    assert equal(before, weights(model))
    assert modes == [m.training for m in model.modules()]
    assert norm.track_running_stats
    assert json.dumps(flat(global_state()), default=str) == json.dumps(random_state, default=str)


def test_the_paths_of_layers_join_to_the_path_of_the_trunk():
    problem = toy_problem(2, dropout=False)
    one = make_trainer(problem, strategy="io", epochs=1, diagnose_every=1)
    record = one.run_period()
    assert {name for name in record if name.startswith("path/layer/")} == {"path/layer/0"}  # one layer has weights
    assert record["path/layer/0"] == pytest.approx(record["path/total"], rel=1e-6)
    several = make_trainer(toy_problem(2, conv=True), strategy="io", epochs=1, diagnose_every=1).run_period()
    layers = [value for name, value in several.items() if name.startswith("path/layer/")]
    assert len(layers) == 3  # BatchNorm aside
    assert max(layers) <= several["path/total"] <= sum(layers) * (1 + 1e-6)


def test_what_cannot_be_diagnosed_is_said_in_a_line():
    with pytest.raises(UserError, match=r"'stl' cannot be diagnosed: its tasks share no trunk.*Drop --diagnose"):
        train(toy_problem(), {"strategy": "stl", "lr": 0.1}, diagnose=True)
    with pytest.raises(UserError, match="one task cannot be diagnosed"):
        train(toy_problem(1), {"strategy": "sus", "lr": 0.1}, diagnose=True)
    with pytest.raises(UserError, match="diagnose_samples=8 needs diagnose_every"):
        resolve(toy_problem(), {"strategy": "sus", "lr": 0.1, "diagnose_samples": 8})
    with pytest.raises(UserError, match="'stl' cannot be diagnosed"):
        check_diagnosed({"diagnose_every": 1}, ["stl"], 3)
    check_diagnosed({"diagnose_every": 1}, ["stl", "io"], 3)
    assert where_possible({"strategy": "stl", "diagnose_every": 1, "lr": 1}) == {"strategy": "stl", "lr": 1}
    assert where_possible({"strategy": "io", "diagnose_every": 1}) == {"strategy": "io", "diagnose_every": 1}


def test_a_trunk_whose_weights_are_all_frozen_is_refused():
    problem = toy_problem()

    def model():
        made = problem.model()
        for weight in made.trunk.parameters():
            weight.requires_grad_(False)
        return MultiTaskModel(made.trunk, dict(made.heads.items()))

    frozen = Problem("frozen", make_tasks(3), model, problem.data, defaults=problem.defaults)
    with pytest.raises(UserError, match="frozen"):
        make_trainer(frozen, strategy="sus", diagnose_every=1)


def test_a_trial_that_does_not_ask_is_not_diagnosed():
    result = train(toy_problem(), {"strategy": "sus", "lr": 0.01, "epochs": 1})
    assert result.diagnosis is None
    assert not [name for name in result.history[0] if name.startswith(OWN)]
    assert "diagnose_every" not in result.config
    assert (
        task_names(3)
        == train(toy_problem(), {"strategy": "sus", "lr": 0.01, "epochs": 1}, diagnose=True).diagnosis["tasks"]
    )


def test_the_more_tasks_the_rarer_a_look_unless_somebody_says_otherwise():
    assert [usual_pace(tasks) for tasks in (2, 4, 13, 40)] == [1, 1, 1, 3]
    config = {"strategy": "sus", "lr": 0.01, "epochs": 1}
    assert train(toy_problem(), config, diagnose=True).config["diagnose_every"] == 1
    assert train(toy_problem(), {**config, "diagnose_every": 2}, diagnose=True).config["diagnose_every"] == 2
    assert diagnosis_of(Settings(problem="glyphs", name="forty", diagnose=True), 40) == {"diagnose_every": 3}
