"""A trial's config: flat, JSON, complete, and checked before anything starts."""

import inspect
import json
import math
import os
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.objective import Objective
from tune_mtl.core.options import Options, ShareOfRun, build, flat_names, read_options
from tune_mtl.core.problem import Problem
from tune_mtl.problems.registry import PROBLEM
from tune_mtl.strategies.grouping import make_groups
from tune_mtl.strategies.info import count
from tune_mtl.strategies.make import check_groups_allowed, check_learning_rate, option_owners
from tune_mtl.strategies.optimizers import optimizer_info, optimizers
from tune_mtl.strategies.registry import registry, strategy_info
from tune_mtl.strategies.schedules import schedules

_Positive = Annotated[int, Field(ge=1, lt=2**31)]
_MODEL = "model_"


class Config(Options):
    """All that decides a trial's numbers. ``flat()`` gives it back as one JSON object.

    Attributes:
        problem: A built-in name or ``package.module:attribute``.
        strategy: One of the registry.
        lr: Learning rate.
        groups: How many groups, or which; only for strategies that have groups.
        seed: Of everything random.
        optimizer: Its name.
        schedule: The learning rate over mini-batches: ``constant``, ``cosine`` or ``step``.
        batch_size: Samples per mini-batch; a last partial one is dropped.
        eval_batch_size: Samples per evaluation batch.
        epochs: Passes over the training set.
        evaluate_every: Epochs between evaluations; the last epoch is always evaluated.
        max_updates: Optimizer steps after which the trial is over, in the middle of an epoch too, if that is sooner.
        max_seconds: Likewise seconds of training and evaluation. Wall-clock time does not repeat exactly.
        threads: CPU threads; they change the last bits of results.
        metric: The objective, ``name:min|max``.
        device: ``auto`` (CUDA if there is one), ``cpu``, ``cuda``, ``cuda:1``.
        precision: ``fp32``, or ``bf16`` for autocast forward passes.
        channels_last: Memory format of images and convolutions.
        compile: ``torch.compile`` the trunk.
        deterministic: Only deterministic kernels: on CUDA needed for exact repetition, and slower.
        options: What belongs to one owner, by flat name: ``adam_weight_decay``, ``model_channels``.
    """

    problem: str
    strategy: str
    lr: float
    groups: int | list[list[str]] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    optimizer: str = "adam"
    schedule: str = "constant"
    batch_size: _Positive = 64
    eval_batch_size: _Positive = 256
    epochs: _Positive = 10
    evaluate_every: _Positive = 1
    max_updates: _Positive | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    threads: Annotated[int, Field(ge=1, le=4096)] = 1
    metric: str = "val/loss:min"
    device: str = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    channels_last: bool = False
    compile: bool = False
    deterministic: bool = False
    options: Mapping[str, Any] = {}

    @field_validator("groups", mode="before")
    @classmethod
    def _count_or_lists(cls, groups: Any) -> Any:
        count = isinstance(groups, int) or (isinstance(groups, float) and groups.is_integer())
        if groups is None or count or isinstance(groups, list | tuple):
            return groups
        raise ValueError("must be a whole number of groups, or lists of task names")

    @property
    def objective(self) -> Objective:
        """What decides the best epoch."""
        return Objective.parse(self.metric)

    @property
    def model_options(self) -> dict[str, Any]:
        """Keyword arguments of ``problem.model``."""
        return {key.removeprefix(_MODEL): value for key, value in self.options.items() if key.startswith(_MODEL)}

    def mini_batches(self, per_epoch: int, tasks: int) -> int:
        """Return how many mini-batches the trial takes: schedules, and options that are shares of a run, go by it."""
        whole = self.epochs * per_epoch
        if self.max_updates is None:
            return whole
        return min(whole, math.ceil(self.max_updates / self.updates_per_batch(tasks)))

    def updates_per_batch(self, tasks: int) -> int:
        """Optimizer steps per mini-batch, with ``tasks`` tasks."""
        info = strategy_info(self.strategy)
        if info.joined_by is not None and getattr(self._strategy_record, info.joined_by):
            return 1
        groups = len(self.groups) if isinstance(self.groups, list) else self.groups
        return count(info.updates, tasks, groups or tasks)

    @property
    def _strategy_record(self) -> Options:
        """The strategy's own options as it will read them, but for those that depend on the run's length."""
        owners = {self.strategy: strategy_info(self.strategy).options}
        own = self.strategy_options_for(mini_batches=1)
        return read_options({key: own[key] for key in flat_names(owners) if key in own}, owners)[self.strategy]

    def strategy_options_for(self, mini_batches: int) -> dict[str, Any]:
        """Flat options of ``make_strategy``, for a run of so many mini-batches."""
        owners = option_owners(strategy_info(self.strategy), self.optimizer, self.schedule)
        given = {key: value for key, value in self.options.items() if not key.startswith((_MODEL, PROBLEM))}
        return given | {
            (key := f"{owner}_{option}"): mark.in_mini_batches(given.get(key), mini_batches)
            for owner, record in owners.items()
            for option, mark in record.marked(ShareOfRun).items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Return one flat JSON object; ``groups`` only where the strategy has them, limits only where there are any."""
        values = self.model_dump(mode="json", exclude={"options"})
        absent = [key for key in ("groups", "max_updates", "max_seconds") if values[key] is None]
        for key in absent:
            del values[key]
        return values | dict(self.options)


def resolve(problem: Problem, given: Mapping[str, Any], name: str | None = None) -> Config:
    """Return the complete config: what is given, then the problem's defaults, then everybody's.

    Args:
        problem: What is learned.
        given: Flat values.
        name: How the config names the problem, if not by ``problem.name``.

    Raises:
        UserError: for an unknown key, a value out of range, groups that cannot be, an option of someone else.
    """
    defaults = {"threads": len(os.sched_getaffinity(0)), "metric": str(problem.judged_by), **problem.defaults}
    known = Config.model_fields.keys() - {"options"}
    named = {PROBLEM + key if key in problem.own_options else key: value for key, value in given.items()}
    kept = {key: _plain(key, value) for key, value in named.items() if value is not None or key not in known}
    flat = {**_without_options_of_others({**defaults, **kept}, known), **kept}
    flat["problem"] = name or problem.name
    if given.get("problem") not in (None, flat["problem"]):
        raise UserError(f"the config is for problem '{given['problem']}', not for '{flat['problem']}'.")
    default_lr = optimizer_info(str(flat.get("optimizer", "adam"))).default_lr
    if default_lr is not None:
        flat.setdefault("lr", default_lr)
    for key in ("strategy", "lr"):
        if key not in flat:
            raise UserError(f"{key} is missing: give --{key}, or a --config FILE that has it.")
    info = strategy_info(str(flat["strategy"]))
    check_learning_rate(flat["lr"])
    options = {key: value for key, value in flat.items() if key not in known}
    config: Config = build(Config, {**{key: flat[key] for key in known & flat.keys()}, "options": options})
    config = config.model_copy(update={"metric": str(objective(problem, config.metric))})
    check_groups_allowed(info, config.groups)
    if info.has_groups:
        tasks = [task.name for task in problem.tasks]
        count = len(tasks) if config.groups is None else config.groups
        make_groups(tasks, count, config.seed)
        config = config.model_copy(update={"groups": count})
    optimizer_info(config.optimizer)
    if config.compile and not info.compiles:
        raise UserError(f"strategy '{info.name}' cannot be compiled: its masks move while it trains. Drop --compile.")
    _check_options(problem, config)
    _check_length(config)
    return config


def _check_length(config: Config) -> None:
    """Refuse what depends on the length of a run that only the clock knows."""
    if config.max_seconds is None:
        return
    for owner, record in option_owners(strategy_info(config.strategy), config.optimizer, config.schedule).items():
        for option, mark in record.marked(ShareOfRun).items():
            if mark.is_share(config.options.get(f"{owner}_{option}")):
                raise UserError(
                    f"option '{owner}_{option}' is a share of a run's length, which max_seconds leaves open:"
                    f" give it in mini-batches, --set {owner}_{option}=1000."
                )


def _without_options_of_others(flat: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """``flat`` without options of named optimizers and schedules that it does not name: a problem may have defaults
    for several."""
    chosen = {flat.get("optimizer", "adam"), flat.get("schedule", "constant")}
    owners = {name: info.options for name, info in optimizers.items()}
    owners |= {name: info.options for name, info in schedules.items()}
    others = {name: options for name, options in owners.items() if name not in chosen}
    return {key: value for key, value in flat.items() if key in known or key not in flat_names(others)}


def objective(problem: Problem, text: str) -> Objective:
    """``name[:min|max]`` as an objective; without a mode, a metric's own sense of better decides.

    Raises:
        UserError: if the metric has none: the mode must then be given.
    """
    name, colon, _ = text.partition(":")
    metric = None if colon else _metric(problem, name.split("/")[1:])
    if metric is not None:
        if metric.higher_is_better is None:
            raise UserError(f"metric '{name}' does not say what is better: write {name}:min or {name}:max.")
        return Objective(name, "max" if metric.higher_is_better else "min")
    return Objective.parse(text)


def _metric(problem: Problem, path: list[str]) -> Any:
    """Return the metric behind ``task/metric``, or behind a name that all tasks have or that joins them; else None."""
    if not path or path[0] in ("loss", "relative_loss"):
        return None
    if len(path) == 1:
        first = problem.tasks[0].new_metrics()
        return problem.joint_metrics().get(path[0]) or (first[path[0]] if first and path[0] in first else None)
    found = next((task.new_metrics() for task in problem.tasks if task.name == path[0]), None)
    return found[path[1]] if found is not None and path[1] in found else None


def _plain(key: Any, value: Any) -> Any:
    """Return a value as JSON has it: numpy's numbers become plain, so that a config compares with its copy."""
    if not isinstance(key, str):
        raise UserError(f"config key {key!r} must be a text.")
    try:
        return json.loads(json.dumps(value, default=lambda thing: thing.item()))
    except (TypeError, ValueError, AttributeError, RecursionError):
        raise UserError(f"{key}={str(value)[:80]} is no value that JSON can hold.") from None


def _check_options(problem: Problem, config: Config) -> None:
    """Refuse options that nobody owns, or that belong to a strategy or optimizer that this trial does not use."""
    parameters = inspect.signature(problem.model).parameters
    model_names = {_MODEL + name for name in parameters if name != "options"}
    free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    owners = option_owners(strategy_info(config.strategy), config.optimizer, config.schedule)
    own = flat_names(owners)
    for key in config.options:
        if key in own or key in model_names or key.startswith(PROBLEM) or (free and key.startswith(_MODEL)):
            continue
        owner = _owner(key)
        if owner is not None:
            raise UserError(
                f"option '{key}' belongs to '{owner}', which a trial with strategy '{config.strategy}', optimizer"
                f" '{config.optimizer}' and schedule '{config.schedule}' does not use. Drop it or choose '{owner}'."
            )
        known = {*own, *model_names, *(Config.model_fields.keys() - {"options"})}
        raise UserError(f"unknown option '{key}'. {did_you_mean(key, known)}")
    read_options(config.strategy_options_for(mini_batches=1), owners)


def _owner(key: str) -> str | None:
    """Return the strategy, optimizer or schedule that has option ``key``; to ask is to load every strategy."""
    everyone = {name: info.options for name, info in registry.items()}
    everyone |= {name: info.options for name, info in optimizers.items()}
    everyone |= {name: info.options for name, info in schedules.items()}
    owner, _ = flat_names(everyone).get(key, (None, ""))
    return owner
