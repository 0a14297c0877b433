"""Every law finds the fault that it is there for; the sound twins of the faulty strategies break none."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.testing.more_faults import MORE
from tests.testing.quiet_faults import CRASH, QUIET
from tests.testing.twins import Plain, Sound, SoundGroups
from tune_mtl import Options, Strategy, StrategyInfo
from tune_mtl.testing import LAWS, LawsBroken, check_strategy

MEANT: list[tuple[type, str]] = [*MORE, *QUIET]
"""Faulty strategies, each with the law that it has to break."""


def breaks(*laws):
    def planted(kind):
        MEANT.extend((kind, law) for law in laws)
        return kind

    return planted


@pytest.mark.parametrize("kind", [Sound, SoundGroups, Plain])
def test_the_sound_twin_obeys_all_laws(kind):
    results = check_strategy(kind)
    assert [result.law for result in results] == list(LAWS)
    without = [result.law for result in results if result.state == "does not apply"]
    assert without == ([] if kind is SoundGroups else ["groups_change_something", "a_group_steps_its_own_heads"])


@breaks("draws_from_its_own_generator")
class DrawsFromTorch(Sound):
    def draw(self):
        return torch.rand(())


@breaks("draws_from_its_own_generator")
class DrawsFromNumpy(Sound):
    def draw(self):
        return np.random.rand()  # noqa: NPY002


@breaks("draws_from_its_own_generator")
class DrawsFromPython(Sound):
    def draw(self):
        return random.random()


@breaks("resumes_exactly", "forgets_when_loaded")
class ForgetsItsState(Sound):
    state_dict, load_state_dict = Strategy.state_dict, Strategy.load_state_dict


@breaks("resumes_exactly")
class KeepsStateThatNoCheckpointHolds(Sound):
    def state_dict(self):
        return super().state_dict() | {"seen": {"a", "b"}}


@breaks("resumes_exactly")
class HidesAnOptimizer(Plain):
    def setup(self):
        self.hidden = self.recipe.optimizer(self.trainable(self.tasks))

    def learn(self, batch):
        return self.update(self.hidden, self.tasks, batch)


@breaks("forgets_when_loaded")
class LoadsWithoutForgetting(Sound):
    def load_state_dict(self, state):
        Strategy.load_state_dict(self, state)
        if not self.mini_batches or self.mean == 0:
            self.mean = state["mean"].clone()


@breaks("leaves_data_as_they_are")
class ChangesTargets(Plain):
    def learn(self, batch):
        for target in batch.targets.values():
            target.mul_(0.5)
        return super().learn(batch)


@breaks("leaves_data_as_they_are")
class ChangesInputs(Plain):
    def learn(self, batch):
        batch.inputs.add_(0.5)
        return super().learn(batch)


def own_losses(strategy, batch):
    predictions = strategy.model(batch.inputs)
    return {name: strategy.tasks[name].loss(predictions[name], batch.targets[name]) for name in batch.rows}


@breaks("rows_without_labels_do_not_count")
class ForgetsThatLabelsAreMissing(Plain):
    def learn(self, batch):
        losses = own_losses(self, batch)
        self.descend(self.optimizers[0], self.total(losses))
        return self.detached(losses)


@breaks("all_labels_are_no_masks")
class LooksWhetherThereAreMasks(Plain):
    def step(self, inputs, targets, present=None):
        self.weights = dict.fromkeys(self.tasks, 1.0 if present is None else 0.5)
        return super().step(inputs, targets, present)


@breaks("a_task_without_labels_stands_still")
class StepsAnotherHead(Plain):
    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        pull = sum(weight.square().sum() for head in self.model.heads.values() for weight in head.parameters())
        self.descend(self.optimizers[0], self.total(losses) + 0.1 * pull)
        return self.detached(losses)


@breaks("a_task_without_labels_stands_still")
class NeedsAllLabels(Plain):
    def learn(self, batch):
        return super().learn(batch) if len(batch.rows) in (0, len(self.tasks)) else {}


@breaks("no_labels_at_all_change_nothing")
class StepsWithoutLabels(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        if not losses:
            self.apply(self.optimizers[0])
        return losses


class Reads(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        self.read(torch.stack(list(losses.values()) or [torch.zeros(1)]))
        return losses


@breaks("waits_for_no_device")
class ReadsAnItem(Reads):
    def read(self, values):
        self.first = values[0].item()


@breaks("waits_for_no_device")
class ReadsABool(Reads):
    def read(self, values):
        self.any = 1 if (values > 1).any() else 0


@breaks("waits_for_no_device")
class ReadsAFloat(Reads):
    def read(self, values):
        self.sum = float(values.sum())


@breaks("waits_for_no_device")
class ReadsToTheHost(Reads):
    def read(self, values):
        self.there = values.to("cpu")


@breaks("waits_for_no_device")
class ReadsAMask(Reads):
    def read(self, values):
        self.large = values[values > 1].sum()


@breaks("memory_does_not_grow")
class RemembersAll(Sound):
    def setup(self):
        super().setup()
        self.seen = []

    def remember(self, losses):
        super().remember(losses)
        self.seen.append(self.mini_batches)


@breaks("memory_does_not_grow")
class RemembersAllTogether(Plain):
    seen: list[torch.Tensor] = []  # noqa: RUF012

    def learn(self, batch):
        losses = super().learn(batch)
        self.seen.extend(losses.values())
        return losses


@breaks("keeps_no_graph")
class KeepsTheGraph(Sound):
    def remember(self, losses):
        super().remember(losses)
        self.last = losses


_somewhere: dict[str, torch.Tensor] = {}


@breaks("keeps_no_graph")
class KeepsTheGraphElsewhere(Sound):
    def remember(self, losses):
        super().remember(losses)
        _somewhere.update(losses)


@breaks("passes_are_as_declared")
class LooksAgain(Sound):
    def remember(self, losses):
        super().remember(losses)

    def learn(self, batch):
        losses = super().learn(batch)
        self.look(batch)
        return losses


@breaks("passes_are_as_declared")
class GoesBackTwice(Plain):
    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        if losses:
            torch.autograd.grad(self.total(losses), self.trainable(()), retain_graph=True)
        self.descend(self.optimizers[0], self.total(losses))
        return self.detached(losses)


@breaks("updates_are_as_declared")
class StepsTwice(Plain):
    def learn(self, batch):
        super().learn(batch)
        return super().learn(batch)


@breaks("updates_are_as_declared", "every_update_is_on_the_path")
class DoesNotCount(Plain):
    def apply(self, optimizer):
        optimizer.step()


@breaks("every_update_is_on_the_path")
class StepsByHand(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        with torch.no_grad():
            for weight in self.trainable(()):
                weight.sub_(0.01 * weight.grad if weight.grad is not None else 0.0)
        return losses


@breaks("a_weight_counts", "a_weight_is_a_factor")
class IgnoresWeights(Plain):
    def weighted(self, _task, loss):
        return loss


@breaks("a_weight_is_a_factor")
class SquaresWeights(Plain):
    def weighted(self, task, loss):
        return self.weights[task] ** 2 * loss


@breaks("one_task_is_plain_training")
class CannotDoASingleTask(Plain):
    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        found = list(losses.values())
        factor = 1.0 if not found else 1.0 / (len(self.tasks) - 1)
        self.descend(self.optimizers[0], factor * self.total(losses))
        return self.detached(losses)


@breaks("one_task_is_plain_training")
class SaysThatItDiffers(Plain):
    info = StrategyInfo(name="differs", title="Twin", rule="one step", differs_from_sus="no reason")


@breaks("takes_nested_data")
class NeedsATensor(Plain):
    def losses(self, tasks, batch):
        features = self.model.trunk(batch.inputs).clone()
        labelled = [task for task in tasks if task in batch.rows]
        return self._losses_of({task: self.model.heads[task](features) for task in labelled}, batch)


@breaks("groups_change_something", "a_group_steps_its_own_heads")
class IgnoresGroups(SoundGroups):
    info = StrategyInfo(name="no_groups", title="Twin", rule="one step", has_groups=True)

    def make_optimizers(self):
        return [self.recipe.optimizer(self.trainable(self.tasks))]

    def learn(self, batch):
        return self.update(self.optimizers[0], self.tasks, batch)


@breaks("a_group_steps_its_own_heads")
class StepsHeadsOfOtherGroups(SoundGroups):
    def learn(self, batch):
        losses = {}
        for group in self.groups:
            found = self.losses(self.tasks, batch)
            self.descend(self.optimizers[0], self.total(found))
            losses |= {task: found[task].detach() for task in group if task in found}
        return losses

    def make_optimizers(self):
        return [self.recipe.optimizer(self.trainable(self.tasks))]


@breaks("starts_where_all_start")
class StartsElsewhere(Plain):
    def setup(self):
        with torch.no_grad():
            self.model.trunk[-2].bias.zero_()


@breaks("starts_where_all_start")
class StartsWithFewerWeights(Plain):
    def setup(self):
        next(self.model.trunk.parameters()).requires_grad_(False)


@breaks("starts_where_all_start")
class DrawsAtSetUp(Plain):
    def setup(self):
        self.extra = nn.Linear(2, 2)


@breaks("takes_steps")
class ReturnsGraphs(Plain):
    def learn(self, batch):
        losses = self.losses(self.tasks, batch)
        self.descend(self.optimizers[0], self.total(losses))
        return losses


@breaks("takes_steps")
class TakesNoStep(Plain):
    def learn(self, batch):
        return self.detached(self.losses(self.tasks, batch))


@breaks("says_what_it_saw")
class ReturnsScaledLosses(Plain):
    def learn(self, batch):
        return {task: self.weighted(task, loss) for task, loss in super().learn(batch).items()}


@breaks("survives_losses_that_are_not_finite")
class CannotTakeNaN(Plain):
    def learn(self, batch):
        losses = super().learn(batch)
        if not all(loss.isfinite() for loss in losses.values()):
            raise ValueError("a loss is not finite")
        return losses


def test_every_law_has_a_fault_that_breaks_it():
    assert {law for _, law in MEANT} == set(LAWS)
    assert len({kind for kind, _ in MEANT}) > 60


@pytest.mark.parametrize(("kind", "law"), MEANT, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_the_law_that_is_meant_finds_the_fault(kind, law):
    (result,) = check_strategy(kind, laws=[law], raises=False)
    assert result.state == "broke", result
    assert result.what.startswith("it fails: ") is (kind.__name__ in CRASH), result
    assert result.way_out
    assert result.example is not None
    assert "\n" not in str(result)


class Doubled(Options):
    times: int = 1


class WithOptions(Plain):
    info = StrategyInfo(name="with_options", title="Twin", rule="one step", options=Doubled)

    def learn(self, batch):
        for _ in range(self.options.times):
            losses = super().learn(batch)
        return losses


def test_a_fault_that_an_option_brings_is_found_with_that_option():
    check_strategy(WithOptions, laws=["updates_are_as_declared"])
    with pytest.raises(LawsBroken, match="updates in a mini-batch: 2; its record says 1"):
        check_strategy(WithOptions, laws=["updates_are_as_declared"], with_options_times=2)
