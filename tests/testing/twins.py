"""Sound strategies, of which the planted faults are twins with one thing wrong."""

import torch

from tune_mtl import Strategy, StrategyInfo


class Sound(Strategy):
    """Random weights from its own generator; it remembers losses, and steps once."""

    info = StrategyInfo(name="twin", title="Twin", rule="one step", differs_from_sus="weights are random")

    def setup(self):
        self.mean = torch.zeros((), dtype=torch.float64)

    def draw(self):
        return torch.rand((), generator=self.recipe.generator)

    def scaled(self, losses):
        return {task: (0.5 + self.draw() + self.mean) * loss for task, loss in losses.items()}

    def remember(self, losses):
        if losses:
            self.mean = self.mean + 0.1 * (self.total(self.detached(losses)) / len(losses)).nan_to_num(0.0, 0.0)

    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        self.descend(self.optimizers[0], self.total(self.scaled(losses)))
        self.remember(losses)
        return self.detached(losses)

    def state_dict(self):
        return super().state_dict() | {"mean": self.mean}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.mean = state["mean"].clone()


class SoundGroups(Strategy):
    """An optimizer for each group."""

    info = StrategyInfo(
        name="twin_of_groups", title="Twin", rule="a step per group", has_groups=True, forwards="G", backwards="G",
        updates="G", states="G",
    )  # fmt: skip

    def make_optimizers(self):
        return [self.recipe.optimizer(self.trainable(group)) for group in self.groups]

    def learn(self, batch):
        losses = {}
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            losses |= self.update(optimizer, group, batch)
        return losses


class Plain(Strategy):
    """What `sus` is."""

    info = StrategyInfo(name="plain_twin", title="Twin", rule="one step")

    def learn(self, batch):
        return self.update(self.optimizers[0], self.tasks, batch)
