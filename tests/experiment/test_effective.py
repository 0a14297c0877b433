"""What `tune-mtl spaces` prints is what a search with the same flags tries."""

import sys

import pytest
import yaml

from tests.faults import own_parts
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.experiment.planning.effective import effective_space_text
from tune_mtl.experiment.planning.make import plan_search


@pytest.fixture
def mine(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", own_parts)
    for brought in (own_parts.InverseLoss, own_parts.SignDescent, own_parts.warm):
        monkeypatch.setattr(brought, "__module__", "mine")


OPTIONS = [
    {},
    {"space": "paper"},
    {"strategies": ("sus", "gradnorm", "norms"), "lr": "1e-3:1e-2", "groups": None},
    {"strategies": ("io",), "groups": "2,3", "fixed": {"batch_size": 8}, "vary": {"model_width": "4,8"}},
    {"vary": {"optimizer": "adam,sgd", "adam_weight_decay": "1e-6:1e-2:log"}},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_printed_and_read_again_it_is_the_same_search(options, tmp_path):
    options = {key: value for key, value in options.items() if value is not None}
    path = tmp_path / "my.yaml"
    path.write_text(effective_space_text(toy_problem(3), options))
    asked, read = (plan_search(toy_problem(3), **each) for each in (options, {"space": str(path)}))
    assert read.space.strategies == asked.space.strategies
    for strategy in asked.space.strategies:
        assert read.space.of(strategy) == asked.space.of(strategy)


def test_parts_that_were_brought_are_named_by_where_they_are_found(mine, tmp_path):
    options = {
        "strategies": ("sus", own_parts.InverseLoss),
        "optimizer": own_parts.SignDescent,
        "schedule": "mine:warm",
    }
    path = tmp_path / "my.yaml"
    path.write_text(effective_space_text("mine:problem", options))
    content = yaml.safe_load(path.read_text())
    assert content["strategies"] == ["sus", "mine:InverseLoss"]
    assert content["dimensions"]["optimizer"] == ["mine:SignDescent"]
    assert content["per_strategy"]["mine:InverseLoss"] == {"inverse_loss_power": "0.25:2.0"}
    asked, read = (plan_search("mine:problem", **each) for each in (options, {"space": str(path)}))
    for strategy in ("sus", "inverse_loss"):
        assert "sign_descent_beta" in read.space.of(strategy)
        assert read.space.of(strategy) == asked.space.of(strategy)


def test_what_is_the_same_for_all_trials_is_no_part_of_it():
    text = effective_space_text(toy_problem(3), {"fixed": {"epochs": 2, "threads": 1, "batch_size": 4}})
    assert yaml.safe_load(text)["dimensions"] == {"lr": "1e-05:0.1:log", "batch_size": [4]}


@pytest.mark.parametrize("options", [{"space": "nope"}, {"vary": {"nothing": "1,2"}}, {"strategies": ("sus", "sus")}])
def test_what_no_search_takes_is_refused_in_a_line(options):
    with pytest.raises(UserError) as refused:
        plan_search(toy_problem(3), **options)
    with pytest.raises(UserError, match=str(refused.value)[:30]):
        effective_space_text(toy_problem(3), options)
