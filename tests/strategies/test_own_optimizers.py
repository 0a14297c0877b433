"""Optimizers that users bring: made as one would make them oneself, and refused in a line where trials could not rely
on them."""

import os
import re
from typing import Annotated

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer, RAdam

from tests.toys import make_batch, make_model, make_tasks, toy_problem, weights
from tune_mtl import PathLength, Tunable, UserError, make_strategy
from tune_mtl.strategies.optimizers import optimizer_info
from tune_mtl.strategies.own_optimizers import admit_optimizer
from tune_mtl.training.config import resolve

HERE = "tests.strategies.test_own_optimizers"
LR = 0.01


class _Plain(SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)


class Marked(SGD):
    """Steps down."""

    def __init__(self, params, lr=0.1, momentum: Annotated[float, Tunable(0.5, 0.99)] = 0.9, *, fused=None, said="a"):
        super().__init__(params, lr=lr, momentum=momentum)
        self.not_used = (fused, said)


class CallsItsBase(Adam):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)

    def step(self, closure=None):
        return super().step(closure)


def heavy_ball(params, lr, momentum=0.5):
    return SGD(params, lr=lr, momentum=momentum)


class OwnRate(_Plain):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        self.rate = lr

    @torch.no_grad()
    def step(self, _closure=None):
        for p in self.param_groups[0]["params"]:
            p -= self.rate * p.grad


class Forgets(_Plain):
    count = 0

    @torch.no_grad()
    def step(self, _closure=None):
        self.count += 1
        for p in self.param_groups[0]["params"]:
            p -= self.param_groups[0]["lr"] / self.count * p.grad


class Random(_Plain):
    @torch.no_grad()
    def step(self, _closure=None):
        for p in self.param_groups[0]["params"]:
            p -= self.param_groups[0]["lr"] * float(os.urandom(3)[0] + 1) * p.grad


class NoRate(Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {})
        self.rate = lr

    def step(self, _closure=None):
        return None


class Unhooked(Optimizer):
    def __init__(self, params, lr=0.1):
        self.param_groups = [{"params": list(params), "lr": lr}]

    @torch.no_grad()
    def step(self, _closure=None):
        for p in self.param_groups[0]["params"]:
            p -= self.param_groups[0]["lr"] * p.grad


class NoArgument(SGD):
    def __init__(self, params):
        super().__init__(params, lr=0.1)


class NeedsAnOption(SGD):
    def __init__(self, params, lr, momentum):
        super().__init__(params, lr=lr, momentum=momentum)


class Still(_Plain):
    def step(self, _closure=None):
        return None


class Fails(_Plain):
    def step(self, _closure=None):
        return 1 / 0


class Cosine(_Plain):
    pass


class Io(_Plain):
    pass


class Batch(SGD):
    def __init__(self, params, lr=0.1, size=3):
        super().__init__(params, lr=lr, momentum=0.1 * size)


def a_number(params, lr):
    return 3


def taken(asked):
    return resolve(toy_problem(2), {"strategy": "sus", "lr": LR, "optimizer": asked})


def trained(optimizer, name="sus", mini_batches=9, **options):
    """Nine steps: RAdam warms up in the first five."""
    strategy = make_strategy(name, make_model(2), make_tasks(2), lr=LR, optimizer=optimizer, **options)
    for seed in range(mini_batches):
        strategy.step(*make_batch(2, seed=seed))
    return strategy


def by_hand(make):
    """The same in plain torch."""
    model, tasks = make_model(2), make_tasks(2)
    optimizer = make(model.parameters())
    for seed in range(9):
        inputs, targets, _ = make_batch(2, seed=seed)
        features = model.trunk(inputs)
        optimizer.zero_grad()
        sum(task.loss(model.heads[task.name](features), targets[task.name]) for task in tasks).backward()
        optimizer.step()
    return weights(model)


@pytest.mark.parametrize("asked", [RAdam, "torch.optim:RAdam"])
def test_a_class_of_torch_is_what_one_would_make_oneself(asked):
    options = {"radam_weight_decay": 0.1, "radam_betas": [0.8, 0.95], "radam_decoupled_weight_decay": True}
    ours = trained(asked, **options)
    theirs = by_hand(lambda p: RAdam(p, lr=LR, weight_decay=0.1, betas=(0.8, 0.95), decoupled_weight_decay=True))
    plain = by_hand(lambda p: RAdam(p, lr=LR))
    assert all(torch.equal(a, b) for a, b in zip(weights(ours.model), theirs, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights(ours.model), plain, strict=True))


def test_a_function_that_makes_one_is_as_good():
    ours = trained(f"{HERE}:heavy_ball", heavy_ball_momentum=0.3)
    theirs = by_hand(lambda p: SGD(p, lr=LR, momentum=0.3))
    assert all(torch.equal(a, b) for a, b in zip(weights(ours.model), theirs, strict=True))


def test_a_callable_that_is_no_class_has_its_rate_replaced_as_before():
    ours = trained(lambda params: SGD(params, lr=123.0, momentum=0.3))
    theirs = by_hand(lambda p: SGD(p, lr=LR, momentum=0.3))
    assert all(torch.equal(a, b) for a, b in zip(weights(ours.model), theirs, strict=True))


@pytest.mark.parametrize("asked", [Adam, "torch.optim:Adam"])
def test_what_is_built_in_is_itself(asked):
    assert admit_optimizer(asked) == "adam"
    assert taken(asked).optimizer_from is None


NAMES = [
    ("RAdam", "radam"), ("NAdam", "nadam"), ("RMSprop", "rmsprop"), ("Adagrad", "adagrad"), ("ASGD", "asgd"),
    ("Rprop", "rprop"), ("Adadelta", "adadelta"), ("Adamax", "adamax"), ("Muon", "muon"), ("Adafactor", "adafactor"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_those_of_torch_can_be_asked_for_and_a_config_finds_them_again(kind, name):
    config = taken(f"torch.optim:{kind}")
    assert (config.optimizer, config.optimizer_from) == (name, f"torch.optim:{kind}")
    assert resolve(toy_problem(2), config.as_dict()) == config
    assert not {"lr", "params", "foreach", "fused", "maximize"} & optimizer_info(name).options.model_fields.keys()


def test_options_are_the_keywords_of_the_constructor_with_their_marks():
    admit_optimizer(Marked)
    record = optimizer_info("marked").options
    assert {name: field.default for name, field in record.model_fields.items()} == {"momentum": 0.9, "said": "a"}
    assert str(record.marked(Tunable)["momentum"]) == "0.5 to 0.99"
    for wrong, said in (({"momentum": "x"}, "marked_momentum='x'"), ({"mass": 1.0}, "unknown option 'marked_mass'")):
        with pytest.raises(UserError, match=said):
            resolve(
                toy_problem(2),
                {"strategy": "sus", "lr": LR, "optimizer": Marked, **{f"marked_{k}": v for k, v in wrong.items()}},
            )


def test_a_step_that_calls_that_of_its_base_counts_once_in_the_path():
    trained("adam"), trained(Adam, mini_batches=1)
    Adam([nn.Parameter(torch.zeros(1))])  # torch wraps the step of a class when the first of it is made
    strategy = make_strategy("io", make_model(2), make_tasks(2), lr=LR, optimizer=CallsItsBase)
    path, total = PathLength(strategy.model, strategy.optimizers), 0.0
    places: list = []
    for optimizer in strategy.optimizers:
        real = optimizer.step

        def step(real=real):
            before = torch.cat([p.detach().flatten() for p in strategy.model.trunk.parameters()])
            real()
            after = torch.cat([p.detach().flatten() for p in strategy.model.trunk.parameters()])
            places.append(float((after - before).norm()))

        optimizer.step = step
    for seed in range(3):
        strategy.step(*make_batch(2, seed=seed))
    total = sum(places)
    assert path.updates == len(places) == 6
    assert path.total == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("torch.optim:LBFGS", "its step needs closure"),
        ("torch.optim:SparseAdam", "fails at its first step: RuntimeError: SparseAdam does not support dense"),
        (OwnRate, "ignores the 'lr' of its param_groups"),
        (NoRate, "ignores lr: its param_groups must each have an 'lr'"),
        (NoArgument, "has no argument lr"),
        (Forgets, "cannot be resumed"),
        (Random, "does not repeat"),
        (Unhooked, "torch's hooks do not see its steps"),
        (Still, "changes no weights"),
        (Fails, "fails at its first step: ZeroDivisionError: division by zero ("),
        (NeedsAnOption, "option 'momentum' has no default"),
        (Cosine, "is named 'cosine', as a schedule of a config is"),
        (Io, "is named 'io', as a strategy of a config is"),
        (Batch, "'batch' has an option that a config calls 'batch_size'"),
        (_Plain, "is named '_plain': a name has small letters"),
        (nn.Linear, "is no optimizer but the class Linear"),
        (f"{HERE}:a_number", "returns a value of type int, not a torch.optim.Optimizer"),
        (f"{HERE}:HERE", "is no optimizer but a value of type str"),
        (f"{HERE}:Nope", "has no 'Nope'"),
        ("adamm", "unknown optimizer 'adamm'. Did you mean 'adam'?"),
    ],
)
def test_what_trials_could_not_rely_on_is_refused_in_a_line(asked, said):
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        taken(asked)
    assert "\n" not in str(refused.value)


def test_a_network_that_it_cannot_train_is_said_in_a_line():
    with pytest.raises(UserError, match=r"'torch.optim:Muon' cannot be made over weights .*: ValueError: Muon"):
        trained("torch.optim:Muon")
    with pytest.raises(UserError, match=r"radam_weight_decay=-1.0, .*: ValueError: Invalid weight_decay"):
        resolve(toy_problem(2), {"strategy": "sus", "lr": LR, "optimizer": RAdam, "radam_weight_decay": -1.0})
