"""Faults that do not show in a lone strategy's steps on float64: where it is used otherwise, or seldom, or for long."""

import torch

from tests.testing.twins import Plain, Sound
from tune_mtl import Strategy, StrategyInfo

seen_by_all: list[int] = []


class NeedsDoubles(Plain):
    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        if losses:
            shares = torch.ones(len(losses), dtype=torch.float64)
            self.descend(self.optimizers[0], shares @ torch.stack([self.weighted(*pair) for pair in losses.items()]))
        return self.detached(losses)


class ReturnsDoubles(Plain):
    def learn(self, batch):
        return {task: loss.double() for task, loss in super().learn(batch).items()}


class MakesTheNetworkDouble(Plain):
    def setup(self):
        self.model.double()


class KeepsRows(Plain):
    rows = None

    def learn(self, batch):
        here = next(iter(batch.targets.values()))
        if isinstance(here, torch.Tensor):
            self.rows = here if self.rows is None else self.rows + here
        return super().learn(batch)


class ChangesNestedTargets(Plain):
    def learn(self, batch):
        for target in batch.targets.values():
            if isinstance(target, tuple):
                target[0].mul_(0.5)
        return super().learn(batch)


class SwapsLaterLosses(Strategy):
    info = StrategyInfo(name="swaps", title="Twin", rule="N steps", forwards="N", backwards="N", updates="N")

    def learn(self, batch):
        losses = {}
        for task in self.tasks:
            losses |= self.update(self.optimizers[0], [task], batch)
        first, *others = losses or [None]
        return dict(zip(losses, [losses[task] for task in (first, *reversed(others))], strict=True)) if losses else {}


class FollowsTheOrderOfTargets(Sound):
    def scaled(self, losses):
        return {task: (1 + self.order.index(task)) * loss for task, loss in losses.items()}

    def learn(self, batch):
        self.order = list(batch.targets)
        return super().learn(batch)


class FollowsNames(Sound):
    def scaled(self, losses):
        return {task: (1 + sorted(losses).index(task)) * loss for task, loss in losses.items()}


class FollowsASet(Sound):
    def scaled(self, losses):
        return {task: (1 + list(set(losses)).index(task)) * loss for task, loss in losses.items()}


class SharesWhatItClears(Sound):
    factors: dict[str, float] = {}  # noqa: RUF012

    def setup(self):
        super().setup()
        self.factors.clear()

    def scaled(self, losses):
        for task in losses:
            self.factors[task] = self.factors.get(task, 1.0) * 1.1
        return {task: self.factors[task] * loss for task, loss in losses.items()}


class CountsPredictions(Sound):
    asked = 0

    def predict(self, inputs):
        self.asked += 1
        return super().predict(inputs)

    def scaled(self, losses):
        return {task: (1 + self.asked) * loss for task, loss in losses.items()}


class PredictsInTraining(Plain):
    def predict(self, inputs):
        self.model.train()
        return super().predict(inputs)


class PredictsAnotherThing(Plain):
    def predict(self, inputs):
        return {
            task: out * 1.01 if isinstance(out, torch.Tensor) else out for task, out in super().predict(inputs).items()
        }


class SetsTheDefaultPrecision(Plain):
    def setup(self):
        torch.set_default_dtype(torch.float64)


class EndsInEvaluation(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        self.model.eval()
        return losses


class FreezesAWeight(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        next(self.model.trunk.parameters()).requires_grad_(False)
        return losses


class LoadsAReference(Sound):
    def remember(self, losses):
        self.mean.add_(0.1 * len(losses))

    def load_state_dict(self, state):
        Strategy.load_state_dict(self, state)
        self.mean = state["mean"]


class KnowsOnlyTheFirstTasks(Sound):
    first = None

    def scaled(self, losses):
        self.first = self.first or set(losses)
        return {task: loss * (1.0 if {task} <= self.first else {}[task]) for task, loss in losses.items()}


class IgnoresTheFirstWeight(Plain):
    def weighted(self, task, loss):
        return loss if task == next(iter(self.tasks)) else super().weighted(task, loss)


class HasOneOptimizerForAll(Plain):
    def make_optimizers(self):
        made = self.recipe.optimizer(self.trainable(self.tasks))
        return [torch.optim.SGD(self.trainable(self.tasks), lr=made.param_groups[0]["lr"])]


class HoldsMoreStates(Strategy):
    info = StrategyInfo(name="states", title="Twin", rule="N steps", forwards="N", backwards="N", updates="N")

    def make_optimizers(self):
        return [self.recipe.optimizer(self.trainable([task])) for task in self.tasks]

    def learn(self, batch):
        losses = {}
        for task, optimizer in zip(self.tasks, self.optimizers, strict=True):
            losses |= self.update(optimizer, [task], batch)
        return losses


class StepsTwiceAtTimes(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        return super().learn(batch) if self.mini_batches % 10 == 9 else losses


class ReadsAtTimes(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        if self.mini_batches % 10 == 9:
            self.told = float(sum(losses.values()))
        return losses


class Prints(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        self.told = f"{losses}"
        return losses


class RemembersInTheModule(Plain):
    def learn(self, batch):
        seen_by_all.append(self.mini_batches)
        return super().learn(batch)


class RemembersInAClosure(Plain):
    def setup(self):
        seen = []
        self.note = lambda losses: seen.append(losses)

    def learn(self, batch):
        losses = super().learn(batch)
        self.note(losses)
        return losses


class AddsHooks(Plain):
    def learn(self, batch):
        self.model.trunk.register_forward_hook(lambda *_: None)
        return super().learn(batch)


QUIET = [
    (NeedsDoubles, "takes_single_precision"),
    (ReturnsDoubles, "takes_single_precision"),
    (MakesTheNetworkDouble, "takes_single_precision"),
    (KeepsRows, "takes_mini_batches_of_any_size"),
    (ChangesNestedTargets, "leaves_data_as_they_are"),
    (SwapsLaterLosses, "says_what_it_saw"),
    (FollowsTheOrderOfTargets, "names_and_their_order_do_not_matter"),
    (FollowsNames, "names_and_their_order_do_not_matter"),
    (FollowsASet, "names_and_their_order_do_not_matter"),
    (SharesWhatItClears, "two_do_not_disturb_each_other"),
    (CountsPredictions, "predicting_changes_nothing"),
    (PredictsInTraining, "predicting_changes_nothing"),
    (PredictsAnotherThing, "predicting_changes_nothing"),
    (SetsTheDefaultPrecision, "leaves_settings_as_they_are"),
    (EndsInEvaluation, "leaves_settings_as_they_are"),
    (FreezesAWeight, "leaves_settings_as_they_are"),
    (LoadsAReference, "forgets_when_loaded"),
    (KnowsOnlyTheFirstTasks, "a_task_without_labels_stands_still"),
    (IgnoresTheFirstWeight, "a_weight_counts"),
    (HasOneOptimizerForAll, "follows_the_optimizer"),
    (HoldsMoreStates, "states_are_as_declared"),
    (StepsTwiceAtTimes, "updates_are_as_declared"),
    (ReadsAtTimes, "waits_for_no_device"),
    (Prints, "waits_for_no_device"),
    (RemembersInTheModule, "memory_does_not_grow"),
    (RemembersInAClosure, "memory_does_not_grow"),
    (AddsHooks, "memory_does_not_grow"),
]
"""Each with the law that it has to break."""

CRASH = {
    "NeedsDoubles", "MakesTheNetworkDouble", "KeepsRows", "KnowsOnlyTheFirstTasks", "NeedsAllLabels",
    "CannotDoASingleTask", "NeedsATensor", "ReturnsGraphs", "CannotTakeNaN",
}  # fmt: skip
"""Faults that end in an exception; all others are seen in what they do."""
