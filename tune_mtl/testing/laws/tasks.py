"""Laws about tasks: what a weight means, and what a single one does."""

from dataclasses import replace

from torch import Tensor

from tune_mtl.core.errors import UserError
from tune_mtl.core.task import Task
from tune_mtl.strategies.methods.sus import SharedUpdateSteps
from tune_mtl.testing.cases import SOONER_OR_LATER, Case
from tune_mtl.testing.law import Broken, law
from tune_mtl.testing.subject import Subject, apart, near, same, values


@law(
    way_out="Take losses through self.total or self.weighted, or declare weighs_otherwise in the record.",
    unless=lambda subject: subject.info.weighs_otherwise,
)
def a_weight_is_a_factor(subject: Subject, case: Case) -> Broken | None:
    """A task's weight is a factor: of its loss (2 is the loss doubled), or of its part in an update."""
    weighed = _ends(subject, case, case.make_tasks(weights={case.names[-1]: 2.0}))
    doubled = _ends(subject, case, case.make_tasks(times={case.names[-1]: 2.0}))
    if near(weighed, doubled) or _is_linear(subject, replace(case, steps=1)):
        return None
    return Broken(
        f"weights end elsewhere than with the loss doubled, by up to {apart(weighed, doubled)}, and an update does not"
        " grow in proportion"
    )


def _is_linear(subject: Subject, case: Case) -> bool:
    """Return whether a step of plain descent goes as much farther from weight 2 to 3 as from 1 to 2."""
    one, two, three = (
        _ends(subject, case, case.make_tasks(weights={case.names[-1]: weight})) for weight in (1.0, 2.0, 3.0)
    )
    middle = [
        (first + last) / 2 if first.is_floating_point() else first for first, last in zip(one, three, strict=True)
    ]
    return not near(one, three) and near(two, middle)


@law(
    way_out="Take losses through self.total or self.weighted.",
    least_tasks=2,
)
def a_weight_counts(subject: Subject, case: Case) -> Broken | None:
    """Each task's weight changes what is learnt, sooner or later."""
    waiting = case.names if case.tasks > 1 else []
    for long in (case, replace(case, steps=max(case.steps, SOONER_OR_LATER))):
        plain = _ends(subject, long, case.make_tasks())
        waiting = [task for task in waiting if same(plain, _ends(subject, long, case.make_tasks(weights={task: 3.0})))]
        if not waiting:
            return None
    return Broken(f"the same weights come out whether task '{waiting[0]}' has weight 1 or 3")


@law(
    way_out="Sum over the tasks that are there; else say in the record differs_from_sus='why', or needs_tasks=2.",
    case=Case(tasks=1),
)
def one_task_is_plain_training(subject: Subject, case: Case) -> Broken | None:
    """With a single task it does what ``sus`` does, unless its record says why not, or that it needs more tasks."""
    info = subject.info
    if info.needs_tasks > 1:
        return _refuses(subject, info.needs_tasks - 1)
    optimizer = subject.optimizer or "sgd"
    plain = subject.trained(case, replace(subject, kind=SharedUpdateSteps).make(case, optimizer=optimizer))
    own = subject.trained(case, subject.make(case, optimizer=optimizer))
    ends = values(own.model)[: len(values(plain.model))]
    if info.differs_from_sus:
        if same(ends, values(plain.model)):
            return Broken(
                f"its record says that it differs ({info.differs_from_sus}), and it does not",
                "Take differs_from_sus out of the record.",
            )
        return None
    if not near(ends, values(plain.model)):
        return Broken(f"it ends elsewhere than sus, by up to {apart(ends, values(plain.model))}")
    return None


def _refuses(subject: Subject, tasks: int) -> Broken | None:
    try:
        subject.make(Case(tasks=tasks))
    except UserError as error:
        return None if f"needs at least {subject.info.needs_tasks} tasks" in str(error) else Broken(str(error))
    return Broken(f"its record says that it needs {subject.info.needs_tasks} tasks, and it takes {tasks}")


def _ends(subject: Subject, case: Case, tasks: list[Task]) -> list[Tensor]:
    return values(subject.trained(case, subject.make(case, tasks=tasks, optimizer="sgd")).model)
