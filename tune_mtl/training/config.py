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
from tune_mtl.strategies.alike import GroupsBy, check_groups_by
from tune_mtl.strategies.grouping import make_groups
from tune_mtl.strategies.info import NOT_COMPILED, StrategyInfo, count
from tune_mtl.strategies.make import check_groups_allowed, check_learning_rate, check_precision, option_owners
from tune_mtl.strategies.optimizers import optimizer_info
from tune_mtl.strategies.own_schedules import try_schedule
from tune_mtl.strategies.parts import every_part
from tune_mtl.strategies.registry import everyone, strategy_info
from tune_mtl.strategies.schedules import schedule_info
from tune_mtl.training.brought import with_names
from tune_mtl.training.diagnosis.asked import check_diagnosis

_Positive = Annotated[int, Field(ge=1, lt=2**31)]
_MODEL = "model_"
_OFTEN_ABSENT = (
    "strategy_from", "optimizer_from", "schedule_from", "groups", "groups_seed", "groups_by", "max_updates",
    "max_seconds", "task_weights", "task_reference", "diagnose_every", "diagnose_samples",
)  # fmt: skip
_ABSENT = {**dict.fromkeys(_OFTEN_ABSENT), "accumulate": 1, "checkpoint_trunk": False}
"""Values that a config is written without: those of earlier versions do not have them."""


class Config(Options):
    """All that decides a trial's numbers. ``flat()`` gives it back as one JSON object.

    Attributes:
        problem: A built-in name or ``package.module:attribute``.
        strategy: The name of a strategy; what is given may also be ``package.module:Class``, or the class.
        strategy_from: Where one that is not built in is found, ``package.module:Class``; its record says its name.
        lr: Learning rate.
        groups: How many groups, or which; only for strategies that have groups.
        groups_seed: Draws the groups, where they are a count; default: ``seed`` draws them too.
        groups_by: How a count of groups is filled: ``random`` (default), ``affinity`` or ``conflict``, which measure
            the tasks' gradients first.
        seed: Of everything random.
        optimizer: Its name; what is given may also be ``package.module:Class``, or the class.
        optimizer_from: Where one that is not built in is found; the name of the class, in small letters, is its own.
        schedule: The learning rate over mini-batches, by name; or ``package.module:function``, or the function.
        schedule_from: Where one that is not built in is found.
        batch_size: Samples per mini-batch; a last partial one is dropped.
        accumulate: Mini-batches that an update is gathered from, as if they were one; the network holds one at a time.
            At the end of an epoch there may be fewer left.
        eval_batch_size: Samples per evaluation batch.
        epochs: Passes over the training set.
        evaluate_every: Epochs between evaluations; the last epoch is always evaluated.
        max_updates: Optimizer steps after which the trial is over, in the middle of an epoch too, if that is sooner.
        max_seconds: Likewise seconds of training and evaluation. Wall-clock time does not repeat exactly.
        threads: CPU threads; they change the last bits of results.
        metric: The objective, ``name:min|max``.
        task_weights: The tasks' weights in ``val/weighted_loss``, ``left=2,sum=0.5``; others have 1.
        task_reference: The reference values of ``val/delta_m``, ``left/accuracy=0.93,sum=0.4``.
        device: ``auto`` (CUDA if there is one), ``cpu``, ``cuda``, ``cuda:1``.
        precision: ``fp32``, or ``bf16`` for autocast forward passes; ``fp16`` likewise, with scaled losses.
        channels_last: Memory format of images and convolutions.
        compile: ``torch.compile`` the trunk.
        checkpoint_trunk: Compute the trunk's activations again in each pass back instead of keeping them.
        deterministic: Only deterministic kernels: on CUDA needed for exact repetition, and slower.
        diagnose_every: Epochs between two looks at the tasks' gradients; None, the default: never. No other number of
            the trial depends on it.
        diagnose_samples: Samples of such a look; default: as many as cost little.
        options: What belongs to one owner, by flat name: ``adam_weight_decay``, ``model_channels``.
    """

    problem: str
    strategy: str
    strategy_from: str | None = None
    lr: float
    groups: int | list[list[str]] | None = None
    groups_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    groups_by: GroupsBy | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    optimizer: str = "adam"
    optimizer_from: str | None = None
    schedule: str = "constant"
    schedule_from: str | None = None
    batch_size: _Positive = 64
    accumulate: _Positive = 1
    eval_batch_size: _Positive = 256
    epochs: _Positive = 10
    evaluate_every: _Positive = 1
    max_updates: _Positive | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    threads: Annotated[int, Field(ge=1, le=4096)] = 1
    metric: str = "val/loss:min"
    task_weights: str | None = None
    task_reference: str | None = None
    device: str = "auto"
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    channels_last: bool = False
    compile: bool = False
    checkpoint_trunk: bool = False
    deterministic: bool = False
    diagnose_every: _Positive | None = None
    diagnose_samples: _Positive | None = None
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

    def steps_per_epoch(self, samples: int) -> int:
        """Return the mini-batches of an epoch of so many samples, at least one; accumulated ones count as one."""
        return max(1, math.ceil(samples // self.batch_size / self.accumulate))

    def mini_batches(self, per_epoch: int, tasks: int) -> int:
        """Return how many mini-batches the trial takes: schedules, and options that are shares of a run, go by it.

        Accumulated ones count as one, also in ``per_epoch``.
        """
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
    def costs(self) -> StrategyInfo:
        """The strategy's record, with what it costs under its options here."""
        info = strategy_info(self.strategy)
        return info.under(self._strategy_record) if info.variants else info

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
        """Return one flat JSON object; ``groups`` only where the strategy has them; limits, a seed of the groups'
        own, and what newer versions brought, only where there is any.

        ``strategy_from``, ``optimizer_from`` and ``schedule_from`` are there only for what is not built in.
        """
        values = self.model_dump(mode="json", exclude={"options"})
        absent = [key for key, value in _ABSENT.items() if values[key] == value]
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
    known = Config.model_fields.keys() - {"options"}
    given = with_names(given)
    defaults = {"threads": len(os.sched_getaffinity(0)), "metric": str(problem.judged_by), **problem.defaults}
    defaults = {
        key: value
        for key, value in with_names(defaults).items()
        if not key.endswith("_from") or given.get(key.removesuffix("_from")) is None
    }
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
        if flat.get(key) is None:
            raise UserError(f"{key} is missing: give --{key}, or a --config FILE that has it.")
    info = strategy_info(str(flat["strategy"]))
    check_learning_rate(flat["lr"])
    _check_names(option_owners(info, str(flat.get("optimizer", "adam")), str(flat.get("schedule", "constant"))), known)
    options = {key: value for key, value in flat.items() if key not in known}
    config: Config = build(Config, {**{key: flat[key] for key in known & flat.keys()}, "options": options})
    config = config.model_copy(update={"metric": str(objective(problem, config.metric))})
    check_groups_allowed(info, config.groups, config.groups_seed)
    check_precision(info, half=config.precision == "fp16")
    check_groups_by(info, config.groups, config.groups_by)
    check_diagnosis(info, len(problem.tasks), config.diagnose_every, config.diagnose_samples)
    if info.has_groups:
        tasks = [task.name for task in problem.tasks]
        count = len(tasks) if config.groups is None else config.groups
        make_groups(tasks, count, config.seed)
        config = config.model_copy(update={"groups": count})
    optimizer_info(config.optimizer)
    if config.compile and not info.compiles:
        raise UserError(f"strategy '{info.name}' cannot be compiled: its masks move while it trains. Drop --compile.")
    if config.compile and config.checkpoint_trunk:
        raise UserError(NOT_COMPILED)
    _check_options(problem, config)
    _check_length(config)
    return config


def _check_names(owners: Mapping[str, type[Options]], known: Collection[str]) -> None:
    """Refuse a strategy, optimizer or schedule whose options could not be told from other values of a config."""
    for key, (owner, _) in flat_names(owners).items():
        if key in known or key.startswith((_MODEL, PROBLEM)):
            raise UserError(
                f"'{owner}' has an option that a config calls '{key}', which means something else there: give"
                f" '{owner}' another name."
            )


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
    others = {name: options for name, options in every_part().items() if name not in chosen}
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
    records = read_options(config.strategy_options_for(mini_batches=1), owners)
    optimizer = optimizer_info(config.optimizer)
    if optimizer.brought is not None:
        from tune_mtl.strategies.optimizer_trial import try_optimizer

        try_optimizer(optimizer, records[config.optimizer])


def mini_batches(problem: Problem, config: Config) -> int:
    """Return the length of a trial in mini-batches, at least one.

    Raises:
        OSError: where the data are not on this machine.
    """
    data = problem.data("train")
    per_epoch = config.steps_per_epoch(0 if data is None else len(data))
    return config.mini_batches(per_epoch, len(problem.tasks))


def check_schedule(config: Config, mini_batches: int) -> None:
    """Refuse a schedule that has no factor for each of so many mini-batches."""
    owners = {config.schedule: schedule_info(config.schedule).options}
    own = config.strategy_options_for(mini_batches)
    record = read_options({key: own[key] for key in flat_names(owners) if key in own}, owners)[config.schedule]
    try_schedule(schedule_info(config.schedule), record, mini_batches)


def _owner(key: str) -> str | None:
    """Return the strategy, optimizer or schedule that has option ``key``; to ask is to load every strategy."""
    owners = {name: info.options for name, info in everyone().items()}
    owners |= every_part()
    owner, _ = flat_names(owners).get(key, (None, ""))
    return owner


def check_same_config(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue a run under another config; say what differs."""
    differing = [
        f"{key}={saved.get(key, 'absent')!r} there, {now.get(key, 'absent')!r} now"
        for key in sorted(saved.keys() | now.keys())
        if saved.get(key) != now.get(key)
    ]
    if differing:
        raise UserError(
            f"the run to resume has another config: {'; '.join(differing)}. Give its config, or another --out."
        )
