"""Strategies that are sound, though unlike those that are built in, break no law."""

import pytest
import torch

from tests.testing.twins import Plain
from tune_mtl import Strategy, StrategyInfo
from tune_mtl.strategies.base import weights_of
from tune_mtl.testing import check_strategy


class OneForTheHeads(Strategy):
    """The trunk has an optimizer, and all heads together another."""

    info = StrategyInfo(title="Unusual", rule="two steps on one gradient", updates="2")

    def make_optimizers(self):
        parts = (self.model.trunk, self.model.heads)
        return [self.recipe.optimizer(weights_of(part)) for part in parts]

    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        if losses:
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            self.total(losses).backward()
            for optimizer in self.optimizers:
                self.apply(optimizer)
        return self.detached(losses)


class OneTaskByChance(Strategy):
    """One of the tasks with labels, in each mini-batch."""

    info = StrategyInfo(title="Unusual", rule="one step on the loss of one task")

    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        if losses:
            chosen = list(losses)[int(torch.randint(len(losses), (), generator=self.recipe.generator))]
            self.descend(self.optimizers[0], self.weighted(chosen, losses[chosen]))
        return self.detached(losses)


class Sharpness(Strategy):
    """A gradient at a place near by, applied here."""

    info = StrategyInfo(
        title="Unusual", rule="one step on the gradient farther up", forwards="2", backwards="2",
        differs_from_sus="its gradient is that of another place", weighs_otherwise="weights move that place too",
    )  # fmt: skip

    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        if not losses:
            return {}
        weights = self.trainable(batch.rows)
        here = [weight.detach().clone() for weight in weights]
        up = torch.autograd.grad(self.total(losses), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, up, strict=True):
                weight.add_(gradient, alpha=0.01)
        self.optimizers[0].zero_grad()
        self.total(self.losses(self.tasks, batch)).backward()
        with torch.no_grad():
            for weight, old in zip(weights, here, strict=True):
                weight.copy_(old)
        self.apply(self.optimizers[0])
        return self.detached(losses)


@pytest.mark.parametrize("kind", [OneForTheHeads, OneTaskByChance, Sharpness])
def test_what_is_sound_breaks_no_law(kind):
    check_strategy(kind)


class EverySecond(Plain):
    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        if self.mini_batches % 2 == 0:
            self.descend(self.optimizers[0], self.total(losses))
        return self.detached(losses)


def test_who_takes_no_step_is_told_a_way_out_other_than_its_record():
    laws = ["updates_are_as_declared", "follows_the_learning_rate"]
    results = {each.law: each for each in check_strategy(EverySecond, laws=laws, raises=False)}
    assert results["updates_are_as_declared"].way_out.startswith("Step in every mini-batch with labels")
    assert results["follows_the_learning_rate"].state == "held"
