"""Laws about missing labels: what has none does not count."""

from typing import Any

import torch
from torch import Tensor

from tune_mtl.core.data import Batch
from tune_mtl.strategies.base import Strategy
from tune_mtl.testing.cases import Case
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, apart, same, take, values

_ROWS = "Take losses from self.losses, which sees labelled rows alone, rather than from targets and predictions."


@law(way_out=_ROWS)
def rows_without_labels_do_not_count(subject: Subject, case: Case) -> Broken | None:
    """Whatever stands in the targets of rows without labels, NaN included, changes nothing."""
    ends = []
    for filling in (0.0, torch.nan, 1e3):
        batches = [_filled(case.batch(step, missing=0.4), filling) for step in range(case.steps)]
        strategy = subject.make(case)
        take(strategy, batches)
        ends.append(values(strategy.model))
        if not same(ends[0], ends[-1]):
            far = apart(ends[0], ends[-1])
            return Broken(f"targets of {filling:g} in rows without labels change weights, by {far}")
    return None


@law(way_out=_ROWS)
def all_labels_are_no_masks(subject: Subject, case: Case) -> Broken | None:
    """Masks that say that every row has labels change nothing."""
    strategy = subject.make(case)
    take(strategy, [case.batch(step, missing=0.0) for step in range(case.steps)])
    ends, plain = values(strategy.model), values(subject.trained(case).model)
    return None if same(ends, plain) else Broken(f"with masks it ends elsewhere, by up to {apart(ends, plain)}")


@law(
    way_out="Loop over batch.rows, the tasks with labels; step an optimizer over a head only with its task's loss.",
    case=Case(steps=3),
    least_tasks=2,
)
def a_task_without_labels_stands_still(subject: Subject, case: Case) -> Broken | None:
    """A mini-batch without labels of a task leaves its head as it is and gives no loss of it."""
    if case.tasks < 2:
        return None
    last = case.steps - 1
    for left_out, optimizer, when in [
        *((name, how, last) for name in (case.names[0], case.names[-1]) for how in ("sgd", "momentum")),
        *((name, "sgd", 0) for name in case.names if last),  # before anything was seen of it
    ]:
        strategy = subject.make(case, optimizer=optimizer)
        for step in range(case.steps):
            batch = case.batch(step)
            if step != when:
                strategy.step(*batch)
                continue
            head = values(strategy.model.heads[left_out])
            losses = strategy.step(batch.inputs, batch.targets, {left_out: torch.zeros(case.rows, dtype=torch.bool)})
            if left_out in losses or len(losses) != case.tasks - 1:
                return Broken(f"task '{left_out}' has no labels, and losses of {', '.join(losses)} are returned")
            if not same(head, values(strategy.model.heads[left_out])):
                how = ", by a momentum: have zero_grad() leave no gradients of zero" if optimizer != "sgd" else ""
                return Broken(f"task '{left_out}' has no labels, and its head is changed{how}")
            if not all(tensor.isfinite().all() for tensor in values(strategy.model)):
                return Broken(f"task '{left_out}' has no labels, and weights are not finite any more")
    return None


@law(way_out="Return no losses, and take no step, where batch.rows is empty.", case=Case(steps=2))
def no_labels_at_all_change_nothing(subject: Subject, case: Case) -> Broken | None:
    """A mini-batch without any label takes no update, changes nothing and returns nothing."""
    for seen in {0, case.steps - 1}:
        strategy = subject.make(case)
        take(strategy, [case.batch(step) for step in range(seen)])
        strategy.model.eval()  # BatchNorm's averages see rows, not labels
        before, updates = _weights(strategy), strategy.updates
        batch = case.batch(seen)
        nobody = {name: torch.zeros(case.rows, dtype=torch.bool) for name in case.names}
        losses = strategy.step(batch.inputs, batch.targets, nobody)
        if losses:
            return Broken(f"nothing has labels, and losses of {', '.join(losses)} are returned")
        if strategy.updates != updates:
            return Broken(f"nothing has labels, and {strategy.updates - updates} updates are taken")
        if not same(before, _weights(strategy)):
            return Broken("nothing has labels, and weights change")
    return None


def _weights(strategy: Strategy[Any]) -> list[Tensor]:
    return [*values(strategy.model.trunk), *values(strategy.model.heads)]


def _filled(batch: Batch, filling: float) -> Batch:
    """Return the mini-batch with the targets of rows without labels replaced."""
    assert batch.present is not None

    def put(target: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[:, None], target, filling)

    return Batch(batch.inputs, {n: put(t, batch.present[n]) for n, t in batch.targets.items()}, batch.present)
