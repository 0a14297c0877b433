"""Reference losses for tasks that were given none, so that tasks of every scale count alike by default."""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested
from tune_mtl.core.objective import RELATIVE_LOSS, Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.scalarisation import NEED_REFERENCE_LOSSES
from tune_mtl.core.seeds import isolated
from tune_mtl.core.task import Task
from tune_mtl.strategies.labels import labelled_rows
from tune_mtl.training.checkpoint import fingerprint
from tune_mtl.training.references import cache
from tune_mtl.training.references.constant import NoReference, best_constant_loss
from tune_mtl.training.references.labelled import labels, look

logger = logging.getLogger(__name__)

_MODEL = "model_"


@dataclass(frozen=True)
class References:
    """What was found for a problem.

    Attributes:
        losses: By task.
        reasons: Why there is none, by task.
        dominant: The task that is most of the mean loss of the untrained network, and its share; None: not known.
    """

    losses: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    dominant: tuple[str, float] | None = None

    @property
    def missing(self) -> str:
        """Say which task has none and why; where there are several, the first, and how many more."""
        (task, reason), *others = self.reasons.items()
        return f"task '{task}'{f' and {len(others)} more' if others else ''} ({reason})"

    @property
    def warning(self) -> str | None:
        """Return what to say of a default objective that cannot be fair, in one line; None if it can."""
        if not self.reasons:
            return None
        share = ""
        if self.dominant is not None:
            task, part = self.dominant
            percent = f"{100 * part:.0f} %" if part < 0.995 else "more than 99 %"
            share = f", of which task '{task}' is {percent} before training"
        return (
            f"no reference loss was found for {self.missing}: trials are judged by val/loss{share}."
            " Give Task(reference_loss=...), an objective or a metric."
        )


def judged(problem: Problem, config: Mapping[str, Any] | None = None) -> Problem:
    """Return ``problem`` as trials are judged by it: with reference losses, where these decide and none were given.

    A problem that sets its objective, or a config that names a metric, is left alone, unless that is
    ``val/relative_loss`` or made of the same. The problem given is not changed. Where nobody asked for
    ``val/relative_loss`` and it cannot be, ``val/loss`` is the objective and a warning is logged.

    Args:
        problem: What is learned.
        config: Flat values of a trial: ``metric``, ``model_...``.

    Raises:
        UserError: if ``val/relative_loss`` was asked for and a task's reference cannot be found.
    """
    flat = {**problem.defaults, **{key: value for key, value in (config or {}).items() if value is not None}}
    asked = flat.get("metric") or (None if problem.objective is None else str(problem.objective))
    metric = RELATIVE_LOSS if asked is None else str(asked).partition(":")[0]
    wanted = metric in (RELATIVE_LOSS, *NEED_REFERENCE_LOSSES)
    if not wanted or all(task.reference_loss is not None for task in problem.tasks):
        return problem
    options = {key.removeprefix(_MODEL): value for key, value in flat.items() if key.startswith(_MODEL)}
    found = find_references(problem, options)
    if found.warning is None:
        try:
            return with_references(problem, found.losses)
        except AttributeError as error:  # tasks that are a property
            found = References(reasons={task.name: _said(error) for task in _without(problem)})
    if asked is not None:
        raise UserError(
            f"metric '{metric}' needs a reference loss of every task, and none was found for {found.missing}."
            " Give Task(reference_loss=...), or another metric."
        )
    logger.warning("warning: %s", found.warning)
    return judged_by_mean_loss(problem, found.warning)


def with_references(problem: Problem, losses: Mapping[str, float]) -> Problem:
    """Return a copy of ``problem`` whose tasks without a reference have that of ``losses``; itself if all have one."""
    if all(task.reference_loss is not None or task.name not in losses for task in problem.tasks):
        return problem
    filled = _copied(problem)
    filled.tasks = [
        replace(task, reference_loss=losses.get(task.name)) if task.reference_loss is None else task
        for task in problem.tasks
    ]
    return filled


def judged_by_mean_loss(problem: Problem, warning: str | None = None) -> Problem:
    """Return a copy of ``problem`` whose objective is ``val/loss``."""
    fallen_back = _copied(problem)
    fallen_back.objective, fallen_back.objective_warning = Objective(), warning
    return fallen_back


def _copied(problem: Problem) -> Problem:
    """Return the same parts in another object: a copy by pickling's rules loses what a user keeps out of pickles."""
    same: Problem = object.__new__(type(problem))
    same.__dict__.update(problem.__dict__)
    return same


def references_of(problem: Problem) -> dict[str, float]:
    """Return the reference losses that the problem's tasks have, by task."""
    return {task.name: task.reference_loss for task in problem.tasks if task.reference_loss is not None}


def find_references(problem: Problem, options: Mapping[str, Any]) -> References:
    """Find the reference loss of every task that has none, the same on every call; never fails.

    Args:
        problem: What is learned.
        options: Of its model.
    """
    with isolated(), _one_thread():
        try:
            train = problem.data("train")
            if train is None or not len(train):
                raise NoReference("there are no training data")
            mark = fingerprint(train)
            asked = _signature(problem, options, mark)
            with suppress(TypeError):  # a problem that is a dataclass has no hash: it is looked at again each time
                before = _of_problems.get(problem)
                if before is not None and before[0] == asked:
                    return before[1]
            found = _find(problem, train, options, mark)
            with suppress(TypeError):
                _of_problems[problem] = (asked, found)
            return found
        except Exception as error:  # the user's code fails: training will say so, with a traceback
            return References(reasons={task.name: _said(error) for task in _without(problem)})


_of_problems: "WeakKeyDictionary[Problem, tuple[Any, References]]" = WeakKeyDictionary()
"""What was found for the problems of this process, with what it depended on."""


def _signature(problem: Problem, options: Mapping[str, Any], mark: str | None) -> Any:
    parts = (problem.model, problem.data, problem.to_device)
    functions = [getattr(part, "__func__", part) for part in parts]  # a bound method would keep its problem alive
    tasks = [(task.name, task.loss, task.reference_loss) for task in problem.tasks]
    return functions, tasks, dict(options), mark


def _find(problem: Problem, train: Data, options: Mapping[str, Any], mark: str | None) -> References:
    batch, predictions = look(problem, train, options)
    due = {task.name: task for task in _without(problem)}
    targets = labels(problem, train, due, predictions)
    losses, reasons = {}, {}
    for name, task in due.items():
        try:
            if not targets[name]:
                raise NoReference("it has no labels")
            key = None if mark is None else cache.key(task, predictions[name], targets[name], mark)
            known = None if key is None else cache.recall(key)
            losses[name] = best_constant_loss(task, predictions[name], targets[name]) if known is None else known
            if key is not None:
                cache.remember(key, losses[name])
        except Exception as error:
            reasons[name] = _said(error)
    return References(losses, reasons, _dominant(problem.tasks, batch, predictions) if reasons else None)


def _without(problem: Problem) -> list[Task]:
    return [task for task in problem.tasks if task.reference_loss is None]


def _dominant(tasks: Any, batch: Batch, predictions: Mapping[str, Nested]) -> tuple[str, float] | None:
    """Return the task with the largest loss of the untrained network, and its share of all of them."""
    by_name = {task.name: task for task in tasks}
    found = {}
    try:
        with torch.no_grad():
            for name, rows in labelled_rows(by_name, batch.present, batch.size).items():
                found[name] = abs(float(by_name[name].loss_on(predictions[name], batch.targets[name], rows)))
    except Exception:
        return None
    total = math.fsum(found.values())
    if len(tasks) < 2 or not math.isfinite(total) or total == 0:
        return None
    name = max(found, key=lambda task: found[task])
    return name, found[name] / total


def _said(error: Exception) -> str:
    """Return an error in a line."""
    said = " ".join(str(error).split())[:200]
    return said if isinstance(error, NoReference | UserError) else f"{type(error).__name__}: {said}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep sums in one order: as many threads as a trial happens to have would change the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
