"""Laws about a step as such: it is taken, says what it saw, and leaves what it was given as it was."""

from dataclasses import replace

import torch
from torch import Tensor

from tune_mtl.core.nested import map_tensors, tensors
from tune_mtl.strategies.base import weights_of
from tune_mtl.testing.cases import SOONER_OR_LATER, Case, nested_batch, nested_network, nested_tasks
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, near, same, take, values

_HARDLY = 1e-12
"""A learning rate with which weights stay where they are."""


@law(way_out="Return self.detached(losses) from learn, and step with self.update or self.descend.")
def takes_steps(subject: Subject, case: Case) -> Broken | None:
    """It can be made, takes steps, changes weights and returns the detached loss of every task."""
    strategy = subject.make(case)
    weights = weights_of(strategy.model)
    before = [weight.detach().clone() for weight in weights]
    for step in range(case.steps):
        losses = strategy.step(*case.batch(step))
        if not all(loss.isfinite() for loss in losses.values()):
            return Broken(f"losses are not finite: {_shown(losses)}", "Look for divisions by zero and logarithms.")
    if not all(tensor.isfinite().all() for tensor in values(strategy.model)):
        return Broken("weights are not finite", "Look for divisions by zero and logarithms in what is differentiated.")
    if same(before, weights):
        return Broken("no weight changes", "Step with self.update or self.descend.")
    return None


@law(way_out="Take the losses of all self.tasks, and have make_optimizers cover the weights of every head.")
def trains_every_head(subject: Subject, case: Case) -> Broken | None:
    """The trunk is trained, and every task's head, sooner or later."""
    strategy = subject.make(case)
    parts = {"the trunk": strategy.model.trunk} | {f"the head of '{n}'": strategy.model.heads[n] for n in case.names}
    before = {what: [weight.detach().clone() for weight in weights_of(part)] for what, part in parts.items()}
    waiting = list(parts)
    for step in range(max(case.steps, SOONER_OR_LATER)):
        strategy.step(*case.batch(step))
        waiting = [what for what in waiting if same(before[what], weights_of(parts[what]))]
        if not waiting:
            return None
    return Broken(f"{waiting[0]} is the same after {SOONER_OR_LATER} mini-batches")


@law(
    way_out="Return the losses as self.losses gives them, detached: without weights, and before they are scaled.",
    case=Case(steps=1),
)
def says_what_it_saw(subject: Subject, case: Case) -> Broken | None:
    """The losses it returns are those of each task at the weights before its update, unscaled."""
    tasks = case.make_tasks(weights={"t0": 3.0})
    strategy, batch = subject.make(case, tasks=tasks, lr=_HARDLY), case.batch(0)  # so that updates hardly differ
    with torch.no_grad():
        predictions = strategy.model(batch.inputs, case.names)
    seen = {name: task.loss(predictions[name], batch.targets[name]) for name, task in strategy.tasks.items()}
    losses = strategy.step(*batch)
    for name, was in seen.items():
        if not near([was], [losses[name]]):
            said = f"{float(losses[name]):.4g} is returned"
            return Broken(f"the loss of task '{name}' was {float(was):.4g}, and {said}")
    return None


@law(way_out="Work on copies: tensor.clone(), or a + b instead of a.add_(b).")
def leaves_data_as_they_are(subject: Subject, case: Case) -> Broken | None:
    """Inputs, targets and masks are not changed in place: the next epoch sees them again."""
    nested = subject.make(case, network=nested_network(case), tasks=nested_tasks(case))
    for strategy, draw in ((subject.make(case), Case.batch), (nested, nested_batch)):
        for step in range(case.steps):
            batch, before = draw(case, step, missing=0.3), draw(case, step, missing=0.3)
            strategy.step(*batch)
            for what in ("inputs", "targets", "present"):
                after = list(tensors(getattr(batch, what)))
                if not same(after, list(tensors(getattr(before, what)))):
                    called = {"present": "masks of labelled rows"}.get(what, what)
                    return Broken(f"it changes the {called} that it was given")
    return None


@law(way_out="Use tune_mtl.core.nested.map_tensors on features and predictions, or leave them to self.losses.")
def takes_nested_data(subject: Subject, case: Case) -> Broken | None:
    """Inputs, the trunk's outputs, predictions and targets may be tuples and dicts of tensors."""
    strategy = subject.make(case, network=nested_network(case), tasks=nested_tasks(case))
    weights = weights_of(strategy.model)
    before = [weight.detach().clone() for weight in weights]
    take(strategy, [nested_batch(case, step, missing=0.3 if step else None) for step in range(case.steps)])
    if not all(weight.isfinite().all() for weight in weights):
        return Broken("weights are not finite where features are nested")
    if same(before, weights):
        return Broken("no weight changes where features are nested")
    return None


@law(way_out="Have tensors follow the losses: loss.new_zeros(n), tensor.to(loss.dtype).")
def takes_single_precision(subject: Subject, case: Case) -> Broken | None:
    """A network of float32, as most trials have, is trained too; its weights and losses stay float32."""
    strategy = subject.make(case, network=case.network().float())
    dtypes = [tensor.dtype for tensor in values(strategy.model)]
    for step in range(case.steps):
        batch = case.batch(step, missing=0.3 if step else None)
        inputs, targets = map_tensors(Tensor.float, batch.inputs), map_tensors(Tensor.float, dict(batch.targets))
        losses = strategy.step(inputs, targets, batch.present)
        other = [loss.dtype for loss in losses.values() if loss.dtype != torch.float32]
        if other:
            return Broken(f"losses of a network of float32 are returned as {str(other[0]).removeprefix('torch.')}")
    if dtypes != [tensor.dtype for tensor in values(strategy.model)] or torch.float64 in dtypes:
        return Broken("weights of a network of float32 become float64", "Leave the network's weights as they are.")
    return None


@law(way_out="Take sizes from each mini-batch, and keep nothing that has one value per row.", case=Case(steps=4))
def takes_mini_batches_of_any_size(subject: Subject, case: Case) -> Broken | None:
    """Mini-batches have different numbers of rows: the last one of an epoch is smaller, of a single row even."""
    strategy = subject.make(case)
    for step in range(case.steps):
        take(strategy, [replace(case, rows=(case.rows, 1, case.rows + 3)[step % 3]).batch(step)])
    if not all(tensor.isfinite().all() for tensor in values(strategy.model)):
        return Broken("weights are not finite where mini-batches differ in size")
    return None


@law(way_out="Leave out what is not finite, or let it through to the weights: a trial then ends as diverged.")
def survives_losses_that_are_not_finite(subject: Subject, case: Case) -> Broken | None:
    """A loss that is infinite or NaN never crashes a step, and is returned as it is."""
    for bad in (torch.inf, torch.nan):
        strategy = subject.make(case)
        for step in range(case.steps):
            batch = case.batch(step)
            batch.targets[case.names[-1]][0] = bad
            losses = strategy.step(*batch)
        if losses[case.names[-1]].isfinite():
            return Broken(f"the loss of a task is {bad}, and {float(losses[case.names[-1]]):.4g} is returned")
    return None


def _shown(losses: dict[str, Tensor]) -> str:
    return ", ".join(f"{name} {float(loss):.4g}" for name, loss in losses.items())
