"""Laws about what is around a strategy: others of its kind, evaluation, the network's mode, torch's settings."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from tune_mtl.core.data import Batch
from tune_mtl.core.nested import tensors
from tune_mtl.strategies.base import Strategy
from tune_mtl.testing.cases import Case
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, apart, near, same, take, values
from tune_mtl.testing.torch_settings import torch_settings


@law(way_out="Hold what changes in self, made in setup, not in the class or the module.", least_steps=2)
def two_do_not_disturb_each_other(subject: Subject, case: Case) -> Broken | None:
    """Two of them that are trained in turns end as each does alone."""
    others = replace(case, seed=case.seed + 1)
    alone = values(subject.trained(case).model)
    one, other = subject.make(case), subject.make(others)
    for step in range(case.steps):
        take(one, [case.batch(step)])
        take(other, [others.batch(step)])
    ends = values(one.model)
    return None if same(alone, ends) else Broken(f"with another beside it, it ends elsewhere, by {apart(alone, ends)}")


@law(
    way_out="Leave predict to the base class; a network that predicts otherwise is made by own_model, and is saved so.",
    case=Case(steps=3),
)
def predicting_changes_nothing(subject: Subject, case: Case) -> Broken | None:
    """Evaluation in between changes nothing, and sees what the saved network will predict."""
    looked, plain = subject.make(case), subject.trained(case)
    for step in range(case.steps):
        batch = case.batch(step)
        take(looked, [batch])
        looked.model.eval()
        with torch.no_grad():
            meant = looked.model(batch.inputs, case.names)
            for told in (looked.predict(batch.inputs), looked.predict(batch.inputs)):
                if list(told) != case.names:
                    return Broken(f"predict returns predictions of {', '.join(told) or 'no task'}")
                if not near(list(tensors(meant)), list(tensors(told))):
                    return Broken("predict returns what the network does not")
        looked.model.train()
    ends = values(looked.model)
    if not same(values(plain.model), ends):
        return Broken(f"with predictions in between it ends elsewhere, by {apart(values(plain.model), ends)}")
    return None


@dataclass(frozen=True, order=True)
class _Renamed(Case):
    naming: int = 0

    @property
    def names(self) -> list[str]:
        """Return names that sort and hash otherwise than the usual ones."""
        return [f"{'vxbmk'[(index + self.naming) % 5]}{self.naming}{index}" for index in range(self.tasks)]


@law(
    way_out="Loop over self.tasks, self.groups or batch.rows, which are in the problem's order: a set has another order"
    " in every process, targets have that of the data.",
    case=Case(tasks=4, steps=2),
    least_tasks=2,
)
def names_and_their_order_do_not_matter(subject: Subject, case: Case) -> Broken | None:
    """Tasks by other names, and targets in another order, give the same weights."""
    plain = values(subject.trained(case).model)
    turned = subject.make(case)
    for step in range(case.steps):
        inputs, targets, present = case.batch(step)
        take(turned, [Batch(inputs, dict(reversed(dict(targets).items())), present)])
    if not same(plain, values(turned.model)):
        return Broken(f"targets in another order end elsewhere, by {apart(plain, values(turned.model))}")
    for naming in range(4):
        other = values(subject.trained(_Renamed(case.tasks, case.steps, case.rows, case.seed, naming)).model)
        if not same(plain, other):
            return Broken(f"the same tasks by other names end elsewhere, by {apart(plain, other)}")
    return None


@law(
    way_out="Put back what is changed for a moment: a network's mode, requires_grad, torch.set_...; in a 'finally'.",
    case=Case(steps=2),
)
def leaves_settings_as_they_are(subject: Subject, case: Case) -> Broken | None:
    """The network's mode, which of its weights are trained, and torch's settings are after a step as before it."""
    usual = torch_settings()
    strategy = subject.make(case)
    modes, trained = _modes(strategy), _trained(strategy)
    for step in range(case.steps + 1):
        for what, value in torch_settings().items():
            if value != usual[what]:
                return Broken(f"it changes torch's {what} from {usual[what]} to {value}")
        if _modes(strategy) != modes:
            return Broken("a step leaves parts of the network in another mode, train() or eval()")
        if _trained(strategy) != trained:
            return Broken("a step changes which weights are trained")
        if step < case.steps:
            take(strategy, [case.batch(step)])
    return None


def _modes(strategy: Strategy[Any]) -> dict[str, bool]:
    return {name: module.training for name, module in strategy.model.named_modules()}


def _trained(strategy: Strategy[Any]) -> dict[str, bool]:
    return {name: weight.requires_grad for name, weight in strategy.model.named_parameters()}
