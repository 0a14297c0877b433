"""Laws about what a trial sets for every strategy alike: optimizer, learning rate, schedule, clipping."""

from typing import Any

import torch

from tune_mtl.strategies.base import weights_of
from tune_mtl.testing.cases import Case
from tune_mtl.testing.hooks import around_steps
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import LENGTH, RATE, Subject, same, values

_CLIP = 1e-3
"""A norm that gradients exceed."""


@law(
    way_out="Make optimizers with self.recipe.optimizer(weights), and leave the 'lr' of their groups to the schedule.",
    least_steps=4,  # so that one that skips some is seen on a falling rate
)
def follows_the_learning_rate(subject: Subject, case: Case) -> Broken | None:
    """The learning rate of a trial and its schedule change what is learnt."""
    optimizer = subject.optimizer or "sgd"
    whole, half, falling = (
        values(subject.trained(case, subject.make(case, optimizer=optimizer, **how)).model)
        for how in ({}, {"lr": RATE / 2}, {"schedule": "cosine", "cosine_steps": LENGTH})
    )
    if same(whole, half):
        return Broken("with half the learning rate it ends with the same weights")
    return Broken("with a schedule it ends with the same weights") if same(whole, falling) else None


@law(way_out="Make optimizers with self.recipe.optimizer(weights), which is the one that a trial asks for.")
def follows_the_optimizer(subject: Subject, case: Case) -> Broken | None:
    """The optimizer of a trial changes what is learnt."""
    ends = [values(subject.trained(case, subject.make(case, optimizer=name)).model) for name in ("sgd", "adam")]
    return Broken("with sgd and with adam it ends with the same weights") if same(*ends) else None


@law(
    way_out="Step with self.update, self.descend or self.apply, which clip gradients where a trial asks for it.",
    case=Case(steps=2),
)
def updates_are_clipped(subject: Subject, case: Case) -> Broken | None:
    """No gradient that an update takes is longer than the ``clip_norm`` of a trial."""
    strategy = subject.make(case, optimizer="sgd", clip_norm=_CLIP)
    network, longest = {id(weight) for weight in weights_of(strategy.model)}, 0.0

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        nonlocal longest
        stepped = [p for group in optimizer.param_groups for p in group["params"] if id(p) in network]
        gradients = [p.grad.norm() for p in stepped if p.grad is not None]
        longest = max(longest, float(torch.stack(gradients).norm())) if gradients else longest

    with around_steps(strategy, before, lambda *_: None):
        subject.trained(case, strategy)
    if longest > _CLIP * (1 + 1e-6):
        return Broken(f"with clip_norm={_CLIP:g} an update takes a gradient as long as {longest:.2g}")
    return None
