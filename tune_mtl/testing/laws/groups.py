"""Laws about groups, for strategies that have them."""

from typing import Any

from tune_mtl.testing.cases import Case
from tune_mtl.testing.hooks import around_steps
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, same, take, values


def _without_groups(subject: Subject) -> str:
    return "" if subject.info.has_groups else "its record says that it has no groups"


@law(
    way_out="Step through self.groups, or declare has_groups=False.",
    unless=_without_groups,
    case=Case(steps=2),
    least_tasks=2,
)
def groups_change_something(subject: Subject, case: Case) -> Broken | None:
    """Groups that its record declares change what is learnt."""
    if case.tasks < 2:
        return None
    one, each = (values(subject.trained(case, subject.make(case, groups=groups)).model) for groups in (1, case.tasks))
    return Broken(f"1 group and {case.tasks} groups end with the same weights") if same(one, each) else None


@law(
    way_out="Give each group's step the losses of its own tasks: self.update(optimizer, group, batch).",
    unless=_without_groups,
    case=Case(steps=2),
    least_tasks=2,
)
def a_group_steps_its_own_heads(subject: Subject, case: Case) -> Broken | None:
    """Each update changes heads of one group alone."""
    if case.tasks < 2:
        return None
    strategy = subject.make(case, optimizer="sgd", groups=case.tasks if subject.groups is None else None)
    wrong: list[str] = []
    heads: dict[str, list[Any]] = {}

    def before(*_: Any) -> None:
        heads.update({name: values(strategy.model.heads[name]) for name in case.names})

    def after(*_: Any) -> None:
        changed = {name for name in case.names if not same(heads[name], values(strategy.model.heads[name]))}
        if not any(changed <= set(group) for group in strategy.groups):
            wrong.append(" and ".join(sorted(changed)))

    with around_steps(strategy, before, after):
        take(strategy, [case.batch(step) for step in range(case.steps)])
    if wrong:
        return Broken(f"groups are {strategy.groups}, and one update changes the heads of {wrong[0]}")
    return None
