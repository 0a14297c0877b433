"""Strategies that need something of their own from a trial."""

import pytest
import torch

from tests.toys import toy_problem
from tune_mtl import UserError, train
from tune_mtl.strategies.jacobian.descent import PASSES
from tune_mtl.strategies.methods.mr import RoamingModel
from tune_mtl.training.config import resolve


def test_a_loaded_mr_model_predicts_through_its_masks(tmp_path):
    problem = toy_problem(3, conv=True, dropout=False)
    result = train(problem, {"strategy": "mr", "lr": 0.01, "epochs": 2, "mr_sigma": 0.5}, out=tmp_path / "run")
    for model in (result.load_model(), train(problem, result.config, out=tmp_path / "run", resume=True).load_model()):
        assert isinstance(model, RoamingModel)
        assert not model.masks[0].used.all()
        batch = problem.data("val").batch(torch.arange(16))
        predictions = model(batch.inputs)
        assert predictions.keys() == set(batch.targets)
        unmasked = {task: model.heads[task](model.trunk(batch.inputs)) for task in predictions}
        assert not torch.equal(predictions["t0"], unmasked["t0"])
    losses = {
        task.name: task.loss(model(batch.inputs)[task.name], batch.targets[task.name]).item() for task in problem.tasks
    }
    whole = problem.data("val").batch(torch.arange(60))
    mean = sum(task.loss(model(whole.inputs)[task.name], whole.targets[task.name]).item() for task in problem.tasks) / 3
    assert losses.keys() == predictions.keys()
    assert mean == pytest.approx(result.metrics["best/val/loss"], rel=1e-5)


def test_options_that_depend_on_the_run_are_filled_in():
    problem = toy_problem(3, conv=True)
    config = resolve(problem, {"strategy": "mr", "lr": 0.01})
    assert config.strategy_options_for(mini_batches=90)["mr_updates_end"] == 30
    given = resolve(problem, {"strategy": "mr", "lr": 0.01, "mr_updates_end": 7})
    assert given.strategy_options_for(mini_batches=90)["mr_updates_end"] == 7
    assert resolve(problem, {"strategy": "selective", "lr": 0.01}).strategy_options_for(50)["selective_warmup"] == 5
    share = resolve(problem, {"strategy": "mr", "lr": 0.01, "mr_updates_end": 0.5})
    assert share.strategy_options_for(mini_batches=90)["mr_updates_end"] == 45
    assert share.as_dict()["mr_updates_end"] == 0.5
    whole = resolve(problem, {"strategy": "mr", "lr": 0.01, "mr_updates_end": 1.0})
    assert whole.strategy_options_for(mini_batches=90)["mr_updates_end"] == 90
    once = resolve(problem, {"strategy": "mr", "lr": 0.01, "mr_updates_end": 1})
    assert once.strategy_options_for(mini_batches=90)["mr_updates_end"] == 1
    for bad in (0.0, -0.5, 1.5, "soon", True):
        with pytest.raises(UserError, match=f"mr_updates_end={bad!r}"):
            resolve(problem, {"strategy": "mr", "lr": 0.01, "mr_updates_end": bad})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"strategy": "mr", "compile": True}, "'mr' cannot be compiled"),
        ({"strategy": "mr"}, "needs a trunk with convolutions"),
        ({"strategy": "mr", "mr_sigma": 0.0}, "mr_sigma"),
        ({"strategy": "gradnorm", "gradnorm_alpha": -1}, "gradnorm_alpha"),
        ({"strategy": "gradnorm", "gradnorm_layer": "nowhere"}, "gradnorm_layer 'nowhere'"),
        ({"strategy": "gradnorm", "gradnorm_layer": 1.1}, "gradnorm_layer=1.1 must be a text"),
        ({"strategy": "pcgrad", "groups": 2}, "groups=2 cannot be used with strategy 'pcgrad'"),
        ({"strategy": "sus", "mr_sigma": 0.5}, "option 'mr_sigma' belongs to 'mr'"),
        ({"strategy": "jd_upgard"}, "Did you mean 'jd_upgrad'"),
    ],
)
def test_what_cannot_be_is_one_line(config, message):
    with pytest.raises(UserError, match=message):
        train(toy_problem(3), {"lr": 0.01, **config})


@pytest.mark.parametrize(("typed", "updates"), [("False", 3), ("no", 3), (False, 3), ("True", 1), (True, 1)])
def test_what_a_strategy_reads_decides_how_many_updates_it_takes(typed, updates):
    config = resolve(toy_problem(3, conv=True), {"strategy": "mr", "lr": 0.01, "mr_accumulate": typed})
    assert config.updates_per_batch(3) == updates


@pytest.mark.parametrize(
    ("strategy", "at", "backwards"),
    [("jd_imtlg", "trunk", PASSES), ("jd_imtlg", "representation", "1"), ("mgda_ub", "trunk", "N + 1")],
)
def test_where_gradients_meet_decides_what_a_mini_batch_costs(strategy, at, backwards):
    config = resolve(toy_problem(3), {"strategy": strategy, "lr": 0.01, f"{strategy}_at": at})
    assert config.costs.backwards == backwards


@pytest.mark.parametrize("option", ["adam_weight_decay", "clip_norm", "lr", "batch_size", "max_seconds", "groups"])
def test_true_is_no_number(option):
    with pytest.raises(UserError, match=f"{option}=True must be"):
        resolve(toy_problem(3), {"strategy": "io", "lr": 0.01, option: True})


def test_adatask_takes_groups():
    result = train(toy_problem(3), {"strategy": "adatask", "lr": 0.01, "groups": 2, "epochs": 1})
    assert result.config["groups"] == 2
    assert result.metrics["updates"] == 2 * 7
