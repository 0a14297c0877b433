"""From settings to what will run: everything is checked here, before Ray or MLflow hear of it."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from search_spaces import Choice, Dimension, Space
from search_spaces.space import folded
from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import has_module, is_below, is_reference
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.experiment.planning.contestants import readmit, readmit_sampler
from tune_mtl.experiment.planning.parts import of_each_part, readmit_parts
from tune_mtl.experiment.planning.references import judged_as_kept
from tune_mtl.experiment.planning.replication import default_samples, first_replicates
from tune_mtl.experiment.planning.searched import searched_space
from tune_mtl.preflight.requirements import Needs
from tune_mtl.prepare.prepared_set import PreparedSet
from tune_mtl.ray_tune.turns import Turn, fresh_seeds, grid_turns, guided_turns
from tune_mtl.results.settings import Settings
from tune_mtl.strategies.make import make_strategy
from tune_mtl.strategies.parts import PARTS, Part, reference_of_part
from tune_mtl.strategies.registry import named, strategy_info
from tune_mtl.tracking.store import check_name, check_storage, storage_folder, tracking_uri
from tune_mtl.training.config import Config, check_schedule, mini_batches, resolve
from tune_mtl.training.diagnosis.asked import check_diagnosed, usual_pace, where_possible
from tune_mtl.training.network import fresh_model
from tune_mtl.training.scalarised import check_metric

GRACE = 1 / 12
"""The share of a whole trial that every trial gets before it can be stopped."""
_NO_LIMIT = 100_000
"""Epochs, where the clock decides."""
_LARGEST_GRID = 100_000
"""Trials: more than anybody runs, and few enough to be listed."""


@dataclass(frozen=True)
class Budget:
    """How much a trial may train, and what of it early stopping and the searcher count.

    Attributes:
        counts: The name in a trial's results: ``epoch``, ``updates`` or ``seconds``.
        length: How many of them a whole trial takes.
        grace: How many before it can be stopped.
        config: What a trial's config says of it.
    """

    counts: str
    length: float
    grace: float
    config: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.length:g} {'epochs' if self.counts == 'epoch' else self.counts}"


@dataclass(frozen=True)
class Plan:
    """A search, decided: which space, judged by what, how many trials, where.

    ``left_out`` says why strategies are not among "all" of them; a search that goes on has none.
    """

    settings: Settings
    problem: Problem
    space: Space
    objective: Objective
    constant: Mapping[str, Any]
    budget: "Budget"
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, problem: Problem, settings: Settings) -> "Plan":
        """Check everything that can be checked without training.

        Raises:
            UserError: for the first thing that cannot be.
        """
        check_name(settings.name)
        check_storage(settings.storage)
        readmit(settings.contestants)
        readmit_parts(settings.decided)
        readmit_sampler(settings.algorithm)
        space = searched_space(problem, settings)
        check_diagnosed(diagnosis_of(settings, len(problem.tasks)), space.strategies, len(problem.tasks))
        if settings.algorithm == "grid":
            check_grid(space)
        check_samples(settings, space)
        problem = judged_as_kept(problem, settings, storage_folder(settings.storage) / settings.name)
        base = {
            "threads": max(1, int(settings.cpus_per_trial)),
            **({} if settings.max_epochs is None else {"epochs": settings.max_epochs}),
            **settings.judged_by,
        }
        configs = []
        for strategy in space.strategies:
            first = next(space.grid(strategy))
            configs.append(resolve(problem, {**base, **first}, settings.problem))
            check_metric(problem, configs[-1])
            for tried in (*configs_to_check(space, strategy), *of_each_part(space, strategy)):
                configs.append(resolve(problem, {**base, **tried}, settings.problem))
        budget = make_budget(problem, settings, configs)
        for each in configs:
            config = resolve(problem, {**each.as_dict(), **budget.config}, settings.problem)
            if config.schedule_from is not None:
                check_schedule(config, _mini_batches(problem, config))
        searched = {name for strategy in space.strategies for name in space.of(strategy)}
        searched |= {"strategy", "strategy_from", "seed", "groups", "groups_by", *(f"{name}_from" for name in searched)}
        constant = {key: value for key, value in config.as_dict().items() if key not in searched}
        constant = {key: value for key, value in constant.items() if key in Config.model_fields}
        return cls(
            settings,
            problem,
            space,
            config.objective,
            {**constant, **diagnosis_of(settings, len(problem.tasks))},
            budget,
        )

    @cached_property
    def seeds(self) -> dict[int, int]:
        """The training seed of each replicate."""
        first = first_replicates(self.settings)
        count = 1 + max([first - 1, *(index for growth in self.settings.grown for index in growth.replicates)])
        if self.settings.algorithm != "grid":
            return {index: self.settings.seed + index for index in range(count)}
        given = self.space.seeds[:first]
        return dict(enumerate([*given, *(max(given) + 1 + index for index in range(count - len(given)))]))

    @cached_property
    def turns(self) -> list[Turn]:
        """The turns of all trials, in the order in which they are tried."""
        settings = self.settings
        if settings.algorithm == "grid":
            return grid_turns(self.space, settings.samples, self.seeds, settings.grown)
        first = first_replicates(settings)
        samples = settings.samples or default_samples(len(self.space.strategies), first, settings.scheduler)
        return guided_turns(self.space, samples, first, settings.grown, balanced=settings.balance == "strategy")

    @property
    def total(self) -> int:
        """The number of trials."""
        return len(self.turns)

    @property
    def replicates(self) -> int:
        """The number of times that each strategy is tuned, as far as that is decided."""
        return len(self.seeds)

    def fresh_seeds(self, count: int) -> dict[int, list[int]]:
        """Return the ``count`` seeds on which the choices of each replicate are judged."""
        found = fresh_seeds(list(self.seeds.values()), count)
        return {replicate: found[seed] for replicate, seed in self.seeds.items()}

    @property
    def slots(self) -> int:
        """The number of trials that fit on this machine at once."""
        return max(1, int(len(os.sched_getaffinity(0)) / self.settings.cpus_per_trial))

    @property
    def storage(self) -> str:
        """The folder that holds the search's folder."""
        return str(storage_folder(self.settings.storage))

    @property
    def folder(self) -> Path:
        """The search's own folder."""
        return Path(self.storage) / self.settings.name

    @property
    def tracking_uri(self) -> str:
        """The address of the MLflow store."""
        return tracking_uri(self.settings.tracking_uri)

    @property
    def references(self) -> tuple[str, ...]:
        """What the user has brought that workers must import, as ``package.module:attribute``."""
        parts = (reference_of_part(part, name) for part in PARTS for name in self.tried(part))
        named: list[Any] = [self.settings.problem, *self.settings.contestants.values(), *parts]
        found = dict.fromkeys(str(name) for name in named if name is not None)
        return tuple(name for name in found if is_reference(name) and has_module(name))

    def tried(self, part: Part) -> tuple[str, ...]:
        """Return the names of all optimizers, or of all schedules, that trials may have."""
        found = [self.constant[part]] if part in self.constant else []
        for strategy in self.space.strategies:
            dimension = self.space.of(strategy).get(part)
            found += [] if dimension is None else dimension.points()
        return tuple(dict.fromkeys(map(str, found)))

    @property
    def ships_modules(self) -> bool:
        """Whether workers on other machines need files of the current directory: the user's modules."""
        return any(is_below(reference, Path.cwd()) for reference in self.references)

    @property
    def needs(self) -> Needs:
        """What has to be ready before the search starts."""
        prepared = self.problem.prepared
        settings = self.settings
        return Needs(
            folder=Path(self.storage),
            store=self.tracking_uri,
            prepared=(prepared,) if isinstance(prepared, PreparedSet) else (),
            cpus=settings.cpus_per_trial,
            gpus=settings.gpus_per_trial,
            address=settings.address,
            storage=settings.storage,
            tracking_uri=settings.tracking_uri,
            modules=tuple(dict.fromkeys(reference.partition(":")[0] for reference in self.references)),
        )

    @property
    def varied(self) -> tuple[str, ...]:
        """The config keys that differ between trials."""
        searched = [
            name.partition(".")[0]
            for strategy in self.space.strategies
            for name, dimension in self.space.of(strategy).items()
            if len(dimension.points()) > 1
        ]
        return tuple(dict.fromkeys(["strategy", "lr", "groups", "seed", *searched]))

    @property
    def searched(self) -> tuple[str, ...]:
        """The config keys that a search chooses."""
        return tuple(key for key in self.varied if key not in ("strategy", "seed"))

    def completed(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return a suggestion as a complete config."""
        config = where_possible({**self.constant, **chosen})
        if strategy_info(config["strategy"]).has_groups:
            config.setdefault("groups", len(self.problem.tasks))
        return config

    def check_strategies(self) -> None:
        """Refuse strategies that cannot train this problem's network; what else is wrong with it, trials will say.

        Raises:
            UserError: for the first that cannot.
        """
        with isolated():
            try:
                options = self.first_config(self.space.strategies[0]).model_options
                model = fresh_model(self.problem, options, lambda: self.problem.data("train"))
            except Exception:
                return
        for strategy in self.space.strategies:
            config = self.first_config(strategy)
            make_strategy(
                strategy,
                model,
                self.problem.tasks,
                lr=config.lr,
                optimizer=config.optimizer,
                groups=config.groups,
                schedule=config.schedule,
                **config.strategy_options_for(mini_batches=1),
            )

    def first_config(self, strategy: str) -> Config:
        """Return the first config of a strategy's grid."""
        return resolve(self.problem, self.completed(next(self.space.grid(strategy))), self.settings.problem)


def check_samples(settings: Settings, space: Space) -> None:
    """Refuse a number of trials that leaves a strategy without any."""
    if settings.samples is None or settings.algorithm == "grid" or settings.balance == "none":
        return
    strategies, replicates = len(space.strategies), first_replicates(settings)
    fewest = strategies * replicates
    if settings.samples < fewest:
        where = f" in each of {replicates} replicates" if replicates > 1 else ""
        raise UserError(
            f"samples={settings.samples} leaves some of the {strategies} strategies without a trial{where}:"
            f" ask for at least {fewest}, or fewer strategies{' or replicates' if replicates > 1 else ''}."
        )


def check_grid(space: Space) -> None:
    """Refuse a grid that nobody could run."""
    for strategy in space.strategies:
        size = space.grid_size(strategy)
        if size > _LARGEST_GRID:
            raise UserError(
                f"the grid of strategy '{strategy}' has {size:.2g} trials ({len(space.of(strategy))} dimensions):"
                " decide some of them with --lr, --groups or --set, or use --algorithm optuna."
            )


def configs_to_check(space: Space, strategy: str) -> Iterator[dict[str, Any]]:
    """Yield configs in which each value that is listed, and both ends of each range, stand once for every optimizer."""
    for fixed, others in space.branches(strategy):
        first = {**fixed, **{name: dimension.points()[0] for name, dimension in others.items()}}
        yield folded({**named(strategy), **first, "seed": space.seeds[0]})
        for name, dimension in others.items():
            for value in ends(dimension):
                yield folded({**named(strategy), **first, name: value, "seed": space.seeds[0]})


def ends(dimension: Dimension) -> Sequence[Any]:
    """Return all values that are listed, or both ends of a range."""
    return dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)


def diagnosis_of(settings: Settings, tasks: int) -> dict[str, int]:
    """Return the config values by which trials are diagnosed; empty where they are not."""
    every = settings.diagnose_every or usual_pace(tasks)
    asked = {"diagnose_every": every, "diagnose_samples": settings.diagnose_samples}
    wanted = settings.diagnose or settings.diagnose_every or settings.diagnose_samples
    return {key: value for key, value in asked.items() if wanted and value is not None}


def make_budget(problem: Problem, settings: Settings, configs: Sequence[Config]) -> Budget:
    """Return the budget of every trial.

    Counted in updates, everybody may take as many as the config that takes most of them within its epochs; so SUS may
    see the data several times as often.
    """
    epochs = configs[0].epochs
    if settings.budget == "seconds":
        assert settings.max_seconds is not None
        passes = settings.max_epochs or _NO_LIMIT
        limit = {"max_seconds": settings.max_seconds, "epochs": passes}
        return Budget("seconds", settings.max_seconds, settings.max_seconds * GRACE, limit)
    if settings.budget == "updates":
        per_epoch = [mini_batches_per_epoch(problem, config) for config in configs]
        steps = [config.updates_per_batch(len(problem.tasks)) for config in configs]
        most = settings.max_updates or epochs * max(map(math.prod, zip(per_epoch, steps, strict=True)))
        limit = {"max_updates": most, "epochs": math.ceil(most / min(per_epoch))}
        return Budget("updates", most, most * GRACE, limit)
    grace = min(epochs, max(configs[0].evaluate_every, math.ceil(epochs * GRACE)))
    return Budget("epoch", epochs, grace, {"epochs": epochs})


def _mini_batches(problem: Problem, config: Config) -> int:
    """Return the length of a trial; where the data are on other machines, its epochs."""
    try:
        return mini_batches(problem, config)
    except OSError:
        return config.mini_batches(1, len(problem.tasks))


def mini_batches_per_epoch(problem: Problem, config: Config) -> int:
    """Return the number of mini-batches in an epoch, at least one; accumulated ones count as one."""
    data = problem.data("train")
    return config.steps_per_epoch(0 if data is None else len(data))
