"""Faults that leave a strategy's steps right as such: a trial's settings, a task, or the seed do not count."""

import torch

from tests.testing.twins import Plain, Sound
from tune_mtl.strategies.base import weights_of


class ForgetsATask(Plain):
    def learn(self, batch):
        first, losses = next(iter(self.tasks)), self.losses(self.tasks, batch)
        learnt = {task: loss for task, loss in losses.items() if task == first}
        self.descend(self.optimizers[0], self.total(learnt))
        return self.detached(losses)


class LeavesHeadsOut(Plain):
    def make_optimizers(self):
        return [self.recipe.optimizer(weights_of(self.model.trunk))]


class DoesNotClip(Plain):
    def apply(self, optimizer):
        optimizer.step()
        self.updates += 1


class HasAnOptimizerOfItsOwn(Plain):
    def make_optimizers(self):
        return [torch.optim.SGD(self.trainable(self.tasks), lr=0.03)]


class IgnoresTheSchedule(Plain):
    def _set_learning_rate(self, scale):
        pass


class LeavesGradientsOfZero(Plain):
    def descend(self, optimizer, objective):
        if objective.requires_grad:
            optimizer.zero_grad(set_to_none=False)
            objective.backward()
            self.apply(optimizer)


class DrawsTheSameForAllSeeds(Sound):
    def setup(self):
        super().setup()
        self.recipe.generator.manual_seed(0)


MORE = [
    (ForgetsATask, "trains_every_head"),
    (LeavesHeadsOut, "trains_every_head"),
    (DoesNotClip, "updates_are_clipped"),
    (HasAnOptimizerOfItsOwn, "follows_the_learning_rate"),
    (IgnoresTheSchedule, "follows_the_learning_rate"),
    (LeavesGradientsOfZero, "a_task_without_labels_stands_still"),
    (DrawsTheSameForAllSeeds, "draws_from_its_own_generator"),
]
"""Each with the law that it has to break."""
