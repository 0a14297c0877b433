"""Look at a problem before anything trains, and say what is wrong with it."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tune_mtl.core.errors import UserError
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.nested import Nested
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated, seed_everything
from tune_mtl.core.task import Task
from tune_mtl.problems.registry import importable, load_problem
from tune_mtl.training.examination.finding import Finding, Unusable, said
from tune_mtl.training.examination.gradients import Loss, finite_together, frozen, not_finite_gradients, unreached
from tune_mtl.training.examination.losses import not_finite, task_loss
from tune_mtl.training.examination.metrics import Seen, joint_metrics, task_metrics
from tune_mtl.training.examination.samples import Looked, Samples
from tune_mtl.training.network import choose_device, fresh_model

logger = logging.getLogger(__name__)

_LOOKS = 8
"""Batches that are looked at until every task has had a label, or a metric enough samples."""


def check_problem(problem: str | Problem, config: Mapping[str, Any] | None = None) -> list[Finding]:
    """Examine one batch of a problem and return what is wrong with it; empty if it can be trained.

    Data, shapes, losses, gradients at trunk and heads, and metrics are tried, in a second or two. Nothing is trained.

    Args:
        problem: A built-in name, ``package.module:attribute``, or a :class:`Problem`.
        config: Flat values of a trial: ``batch_size``, ``model_...``, ``problem_...``.

    Raises:
        UserError: if there is no such problem, or the device asked for is not there.
    """
    return examine(load_problem(problem, config), config or {})


def examine(problem: Problem, config: Mapping[str, Any]) -> list[Finding]:
    """Return what is wrong with a problem that is loaded; random states stay as they were."""
    flat = {**problem.defaults, **{key: value for key, value in config.items() if value is not None}}
    device = choose_device(str(flat.get("device", "auto")))
    with isolated(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(dict.fromkeys(_Examination(problem, flat, device).findings()))


def require_ready(problem: Problem, config: Mapping[str, Any], name: str | None = None) -> None:
    """Refuse a problem that cannot be trained; what is only doubtful is logged.

    Args:
        problem: What is learned.
        config: Flat values of a trial.
        name: How a command names the problem.

    Raises:
        UserError: with the first finding, and how to see the others.
    """
    findings = examine(problem, config)
    wrong = [finding for finding in findings if not finding.warning]
    if not wrong:
        for finding in findings:
            logger.warning("warning: %s", finding)
        return
    more = ""
    if len(wrong) > 1:
        named = name is not None and importable(name)
        show = f"tune-mtl check-problem {name}" if named else "tune_mtl.check_problem(problem)"
        more = f" ({len(wrong) - 1} more: {show} shows all.)"
    raise UserError(f"{wrong[0]}{more}")


@dataclass
class _Examination:
    """One look at a problem: everything is asked for once, and used up."""

    problem: Problem
    flat: Mapping[str, Any]
    device: torch.device

    def findings(self) -> Iterator[Finding]:
        """Give everything that is wrong, in the order in which it should be put right; what follows from it is not."""
        try:
            yield from self._everything()
        except Unusable as unusable:  # there is nothing to look at further
            yield unusable.finding

    def _everything(self) -> Iterator[Finding]:
        train, val = self._opened("train"), self._opened("val")
        if isinstance(val, Finding) and not (isinstance(train, Finding) and _same_but_for_split(train, val)):
            yield val
        if isinstance(train, Finding):
            yield train
            return
        model = self._network(train)
        yield from self._heads(model)
        tasks = [task for task in self.problem.tasks if task.name in model.heads]
        stuck = frozen(model, tasks) if tasks else None
        if stuck is not None:
            yield stuck
        if not tasks or (stuck is not None and not stuck.warning):
            return
        refused = set()
        for finding in self._train(model, tasks, train):
            refused.add(finding.task)
            yield finding
        if isinstance(val, Samples):
            yield from self._val(model, [task for task in tasks if task.name not in refused], val)

    def _opened(self, split: str) -> Samples | Finding:
        try:
            return Samples.open(self.problem, split, self.device)
        except Unusable as unusable:
            return unusable.finding

    def _network(self, train: Samples) -> MultiTaskModel:
        options = {key.removeprefix("model_"): value for key, value in self.flat.items() if key.startswith("model_")}
        seed_everything(_whole(self.flat.get("seed"), 0), "init")
        try:
            model = fresh_model(self.problem, options, lambda: train.data)
        except Exception as error:
            what = said(error) if isinstance(error, UserError) else f"model() fails: {said(error)}"
            raise Unusable(Finding(None, what, "")) from error
        if not hasattr(model, "trunk") or not hasattr(model, "heads"):
            kind = type(model).__name__
            raise Unusable(
                Finding(None, f"model() returns a {kind}.", "It must return a MultiTaskModel(trunk, heads).")
            )
        return model.to(self.device)

    def _heads(self, model: MultiTaskModel) -> Iterator[Finding]:
        names = [task.name for task in self.problem.tasks]
        extra = [head for head in model.heads if head not in names]
        known = ", ".join(f"'{head}'" for head in model.heads) or "none"
        for name in names:
            if name not in model.heads:
                yield Finding(name, f"it has no head: the model's heads are {known}.", f"Add a head named '{name}'.")
        for head in extra:
            yield Finding(None, f"head '{head}' belongs to no task and never trains.", "Add its task.", warning=True)

    def _train(self, model: MultiTaskModel, tasks: list[Task], train: Samples) -> Iterator[Finding]:
        """Forward and backward on the first batch; tasks without labels there wait for a later one."""
        rows = train.few(_whole(self.flat.get("batch_size"), 64))
        waiting = list(tasks)
        refused: set[str | None] = set()
        for looked in train.batches(rows, _LOOKS):
            due = [task for task in waiting if task.name in looked.rows]
            if due:
                found = list(self._losses_and_gradients(model, due, looked))
                refused |= {finding.task for finding in found}
                yield from found
            waiting = [task for task in waiting if task not in due]
            if not waiting:
                break
        if None not in refused:
            yield from self._spoilt(model, [task for task in tasks if task.name not in refused], train, rows)

    def _losses_and_gradients(self, model: MultiTaskModel, tasks: list[Task], looked: Looked) -> Iterator[Finding]:
        model.train()
        predictions = self._predictions(model, tasks, looked, "train")
        losses: dict[str, Tensor] = {}
        for task in tasks:
            loss = task_loss(task, predictions, looked, "train")
            wrong = loss if isinstance(loss, Finding) else not_finite(task, loss, predictions, looked, "train")
            if wrong is not None:
                yield wrong
            elif task.weight > 0:  # others are watched: nothing trains for them
                losses[task.name] = loss  # type: ignore[assignment]
        by_name = {task.name: task for task in tasks}
        again = {name: _repeated([by_name[name]], looked) for name in losses}
        wrongs = unreached(model, losses, again) if losses else []
        yield from wrongs
        taught = [name for name in losses if losses[name].requires_grad]
        if taught and not finite_together(model, _repeated([by_name[name] for name in taught], looked)):
            yield from not_finite_gradients(model, {name: again[name] for name in taught})

    def _spoilt(self, model: MultiTaskModel, tasks: list[Task], samples: Samples, rows: int) -> Iterator[Finding]:
        """Look at the samples in memory that are not finite: losses and networks may know what to do with them."""
        model.eval()
        for name, bad in samples.spoilt().items():
            looked = samples.look(samples.among_others(bad, rows))
            due = [task for task in tasks if name in (None, task.name) and task.name in looked.rows]
            if not due:
                continue
            with torch.no_grad():
                predictions = self._predictions(model, due, looked, samples.split)
                found = [self._wrong(task, predictions, looked, samples.split) for task in due]
            yield from [finding for finding in found if finding is not None][:1]

    def _wrong(self, task: Task, predictions: Mapping[str, Nested], looked: Looked, split: str) -> Finding | None:
        loss = task_loss(task, predictions, looked, split)
        return loss if isinstance(loss, Finding) else not_finite(task, loss, predictions, looked, split)

    def _val(self, model: MultiTaskModel, tasks: list[Task], val: Samples) -> Iterator[Finding]:
        """Losses and metrics, as an evaluation computes them."""
        model.eval()
        rows = val.few(_whole(self.flat.get("eval_batch_size"), 256))
        kept: list[Seen] = []
        more = val.batches(rows, _LOOKS)

        def looks() -> Iterator[Seen]:
            yield from kept
            for looked in more:
                with torch.no_grad():
                    kept.append((looked, self._predictions(model, tasks, looked, "val")))
                yield kept[-1]

        refused: set[str | None] = set()
        for task in tasks:
            first = next(((looked, found) for looked, found in looks() if task.name in looked.rows), None)
            wrong = None if first is None else self._wrong(task, first[1], first[0], "val")
            if wrong is not None:
                refused.add(wrong.task)
                yield wrong
        if None not in refused:
            for finding in self._spoilt(model, [task for task in tasks if task.name not in refused], val, rows):
                refused.add(finding.task)
                yield finding
        with torch.no_grad():
            for task in tasks:
                if refused.isdisjoint((None, task.name)):
                    yield from task_metrics(task, looks, self.device)
            if len(tasks) == len(self.problem.tasks) and not refused:
                yield from joint_metrics(self.problem, looks, self.device)

    def _predictions(
        self, model: MultiTaskModel, tasks: list[Task], looked: Looked, split: str
    ) -> Mapping[str, Nested]:
        """Return what the network predicts for ``tasks``; where it fails, the head that does is named.

        Batches of one sample are those of trials: what cannot be done with them cannot be done at all.
        """
        names = [task.name for task in tasks]
        try:
            return _forward(model, names, looked)
        except Exception as error:
            if isinstance(error, ValueError) and "more than 1 value per channel" in str(error):
                raise Unusable(self._one_sample(split)) from error
            failed = [name for name in names if not _works(model, name, looked)]
            where = None if len(failed) != 1 or len(names) == 1 else failed[0]
            part = "the network" if where is None else "its head"
            way_out = "Look at its layers and at the shape of the inputs."
            finding = Finding(where, f"{part} fails on a batch of '{split}': {said(error)}.", way_out)
            raise Unusable(finding) from error

    def _one_sample(self, split: str) -> Finding:
        """Return that batch normalisation cannot work with batches of one sample."""
        key = "batch_size" if split == "train" else "eval_batch_size"
        setting = f"{key}=1" if self.flat.get(key) == 1 else f"'{split}' gives batches of one sample"
        what = f"{setting}, but this network normalises over the samples of a batch, which takes at least 2."
        return Finding(None, what, f"Give a larger {key}, or more samples.")


def _forward(model: MultiTaskModel, names: list[str], looked: Looked) -> Mapping[str, Nested]:
    """Return predictions by task."""
    found = model(looked.batch.inputs, names)
    if not isinstance(found, Mapping) or any(name not in found for name in names):
        raise UserError(f"forward(inputs, tasks) returns a {type(found).__name__}, but must give a dict by task")
    return found


def _works(model: MultiTaskModel, name: str, looked: Looked) -> bool:
    try:
        _forward(model, [name], looked)
    except Exception:
        return False
    return True


def _repeated(tasks: list[Task], looked: Looked) -> Loss:
    """Return how to get the sum of the tasks' losses from a new forward pass."""

    def loss(model: MultiTaskModel) -> Tensor:
        predictions = _forward(model, [task.name for task in tasks], looked)
        losses = [task_loss(task, predictions, looked, "train") for task in tasks]
        found = [loss for loss in losses if isinstance(loss, Tensor)]
        return torch.stack([loss.double() for loss in found if loss.requires_grad] or found).sum()

    return loss


def _same_but_for_split(train: Finding, val: Finding) -> bool:
    return val.what.replace("'val'", "'train'") == train.what


def _whole(given: object, otherwise: int) -> int:
    """Return a number as it will be checked later."""
    return given if isinstance(given, int) and given > 0 else otherwise
