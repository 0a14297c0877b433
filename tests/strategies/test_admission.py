"""Strategies that users bring: known by a short name, and refused in a line where they cannot take part."""

import re

import pytest
import torch
from torch import nn

from tune_mtl import MultiTaskModel, Options, Strategy, StrategyInfo, Task, UserError, make_strategy
from tune_mtl.strategies.admission import admit
from tune_mtl.strategies.info import default_name
from tune_mtl.strategies.methods.io import IndividualOptimizers
from tune_mtl.strategies.methods.sus import SharedUpdateSteps
from tune_mtl.strategies.registry import entries, everyone, known_strategy, named, registry, strategy_class

FINE = {"title": "Fine", "rule": "one step"}

MODULE = '''
from tune_mtl import Strategy, StrategyInfo


class InMyModule(Strategy):
    """As SUS."""

    info = StrategyInfo(title="Mine", rule="one step")

    def learn(self, batch):
        return self.update(self.optimizers[0], self.tasks, batch)
'''


def network() -> tuple[MultiTaskModel, list[Task]]:
    torch.manual_seed(0)
    model = MultiTaskModel(nn.Linear(3, 4), {"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
    return model, [Task("a", nn.functional.mse_loss), Task("b", nn.functional.mse_loss)]


def step(contestant):
    model, tasks = network()
    strategy = make_strategy(contestant, model, tasks, lr=0.1)
    inputs = torch.arange(12.0).reshape(4, 3)
    strategy.step(inputs, {"a": inputs[:, :1], "b": inputs[:, 1:2]})
    return strategy


@pytest.fixture
def in_a_module(tmp_path, monkeypatch):
    (tmp_path / "mine_to_admit.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "mine_to_admit:InMyModule"


def test_one_found_from_the_current_directory_is_known_by_its_short_name(in_a_module):
    assert admit(in_a_module) == "in_my_module"
    assert named("in_my_module") == {"strategy": "in_my_module", "strategy_from": in_a_module}
    assert everyone()["in_my_module"].title == "Mine"
    assert step("in_my_module").updates == step(in_a_module).updates == 1
    assert "in_my_module" not in registry, "what is built in stays what it is"


def test_a_class_is_as_good_as_its_name():
    class Local(SharedUpdateSteps):
        info = StrategyInfo(**FINE)

    ours, sus = step(Local), step("sus")
    for mine, theirs in zip(ours.model.parameters(), sus.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert strategy_class("local") is Local
    assert not known_strategy("local").has_groups


def test_a_class_that_is_built_in_is_itself():
    assert admit(IndividualOptimizers) == "io"
    assert admit("tune_mtl.strategies.methods.io:IndividualOptimizers") == "io"
    assert named("io") == {"strategy": "io"}
    assert strategy_class("io") is IndividualOptimizers


def test_the_latest_class_of_a_name_counts():
    """In a notebook, a cell that is run again defines the class anew."""

    def define(factor):
        class Again(SharedUpdateSteps):
            info = StrategyInfo(**FINE)
            times = factor

        return Again

    admit(define(1))
    admit(define(2))
    assert strategy_class("again").times == 2


@pytest.mark.parametrize(
    ("title", "name"), [("InverseLoss", "inverse_loss"), ("GO4Align", "go4_align"), ("MTLNet", "mtl_net"), ("A", "a")]
)
def test_a_class_gives_its_name(title, name):
    assert default_name(title) == name


class Required(Options):
    """Without a default."""

    a: int


class NoRecord(Strategy):
    learn = SharedUpdateSteps.learn


class NoRule(Strategy):
    info = StrategyInfo(**FINE)


class TakenName(IndividualOptimizers):
    pass


class Adam(SharedUpdateSteps):
    info = StrategyInfo(**FINE)


class Spaced(SharedUpdateSteps):
    info = StrategyInfo(name="My strategy", **FINE)


class NeedsAnOption(SharedUpdateSteps):
    info = StrategyInfo(options=Required, **FINE)


class OptionsOfAnotherKind(SharedUpdateSteps):
    info = StrategyInfo(options=dict, **FINE)


class OddFormula(SharedUpdateSteps):
    info = StrategyInfo(updates="2N", **FINE)


class TakesAName(SharedUpdateSteps):
    info = StrategyInfo(**FINE)

    def rows(self):
        """One of their own, with the name of one of all strategies."""


class OddWaits(SharedUpdateSteps):
    info = StrategyInfo(waits="seldom", **FINE)


@pytest.mark.parametrize(
    ("contestant", "said"),
    [
        (NoRecord, "has no record: give it info = StrategyInfo"),
        (
            TakesAName,
            "has a method rows(self), but every strategy is called as rows(losses): give your own another name",
        ),
        (NoRule, "has no rule: it does not define learn"),
        (nn.Linear, "is no strategy but the class Linear"),
        (3, "is no strategy but a value of type int"),
        (TakenName, "is named 'io', as something built in is"),
        (Adam, "is named 'adam', as something built in is"),
        (Spaced, "a name has small letters, digits and _ only"),
        (NeedsAnOption, "option 'a' has no default"),
        (OptionsOfAnotherKind, "must be a subclass of tune_mtl.Options"),
        (OddFormula, "updates='2N' must be a number per mini-batch"),
        (OddWaits, "waits='seldom' must be a number per mini-batch"),
        ("susi", "unknown strategy 'susi'. Did you mean 'sus'?"),
        ("no_such_module:X", "module 'no_such_module' does not import from"),
        ("tests.strategies.test_admission:Nope", "has no 'Nope'"),
        ("tests.strategies.test_admission:FINE", "is no strategy but a value of type dict"),
        ("mine:", "'mine:' must be package.module:attribute"),
        (":X", "':X' must be package.module:attribute"),
    ],
)
def test_what_cannot_take_part_is_refused_in_a_line(contestant, said):
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        admit(contestant)
    assert "\n" not in str(refused.value)
    assert len(entries) == len(registry)


def returning(change):
    class Returns(SharedUpdateSteps):
        info = StrategyInfo(**FINE)

        def learn(self, batch):
            return change(super().learn(batch), lambda: self.losses(self.tasks, batch))

    return Returns


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda losses, *_: {"a": losses["a"], "c": losses["b"]}, "with labels, a, b; got a, c."),
        (lambda losses, *_: {"a": losses["a"]}, "with labels, a, b; got a."),
        (lambda *_: {}, "with labels, a, b; got none."),
        (lambda *_: None, "got a NoneType."),
        (lambda _, anew: anew(), "it is one with a gradient: .detach() it."),
        (lambda losses, *_: {t: loss.expand(2) for t, loss in losses.items()}, "it is one of shape (2,)."),
        (lambda losses, *_: {t: float(loss) for t, loss in losses.items()}, "it is a float."),
    ],
)
def test_a_rule_returns_the_detached_loss_of_each_task_with_labels(change, said):
    with pytest.raises(UserError, match=re.escape(said)):
        step(returning(change))
