"""From settings to what will run: everything is checked here, before Ray or MLflow hear of it."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces import Space, find_space
from search_spaces.space import parse_numbers
from tune_mtl.core.errors import UserError
from tune_mtl.core.objective import Objective
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import isolated
from tune_mtl.searching.settings import Settings
from tune_mtl.searching.suggest import interleaved_grid
from tune_mtl.strategies.make import make_strategy
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.tracking.store import check_name, storage_folder, tracking_uri
from tune_mtl.training.config import Config, resolve
from tune_mtl.training.trainer import check_metric

DEFAULT_TRIALS_PER_STRATEGY = 8
_GRACE = 1 / 6
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
    """A search, decided: which space, judged by what, how many trials, where."""

    settings: Settings
    problem: Problem
    space: Space
    objective: Objective
    constant: Mapping[str, Any]
    budget: "Budget"

    @classmethod
    def make(cls, problem: Problem, settings: Settings) -> "Plan":
        """Check everything that can be checked without training.

        Raises:
            UserError: for the first thing that cannot be.
        """
        check_name(settings.name)
        check_storage(settings.storage)
        space = find_space(problem, settings.space).narrowed(
            strategies=settings.strategies,
            lr=None if settings.lr is None else parse_numbers(settings.lr, log=True),
            groups=None if settings.groups is None else parse_numbers(settings.groups, log=False),
            fixed=settings.fixed,
            seeds=settings.seeds if settings.algorithm == "grid" else (settings.seed,),
        )
        if settings.algorithm == "grid":
            check_grid(space)
        fewest = len(space.strategies) if settings.balance == "strategy" else 1
        if settings.samples is not None and settings.samples < fewest:
            raise UserError(
                f"samples={settings.samples} leaves some of the {fewest} strategies without a trial:"
                f" ask for at least {fewest}, or fewer strategies."
            )
        base = {
            "threads": max(1, int(settings.cpus_per_trial)),
            **({} if settings.max_epochs is None else {"epochs": settings.max_epochs}),
            **({} if settings.metric is None else {"metric": settings.metric}),
        }
        configs = []
        for strategy in space.strategies:
            first = next(space.grid(strategy))
            configs.append(resolve(problem, {**base, **first}, settings.problem))
            check_metric(problem, configs[-1])
            for name in ("groups", "batch_size"):
                if name in space.of(strategy):
                    for value in space.of(strategy)[name].points():
                        configs.append(resolve(problem, {**base, **first, name: value}, settings.problem))
        budget = make_budget(problem, settings, configs)
        for each in configs:
            config = resolve(problem, {**each.as_dict(), **budget.config}, settings.problem)
        searched = {
            name for strategy in space.strategies for name in (*space.of(strategy), "strategy", "seed", "groups")
        }
        constant = {key: value for key, value in config.as_dict().items() if key not in searched}
        constant = {key: value for key, value in constant.items() if key in Config.model_fields}
        return cls(settings, problem, space, config.objective, constant, budget)

    @property
    def total(self) -> int:
        """How many trials."""
        if self.settings.algorithm == "grid":
            available = len(interleaved_grid(self.space))
            return min(available, self.settings.samples or available)
        return self.settings.samples or DEFAULT_TRIALS_PER_STRATEGY * len(self.space.strategies)

    @property
    def slots(self) -> int:
        """Trials that fit on this machine at once."""
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
        """The MLflow store."""
        return tracking_uri(self.settings.tracking_uri)

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

    def completed(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """A suggestion as a complete config."""
        config = {**self.constant, **chosen}
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
                model = self.problem.model(**self._first_config(self.space.strategies[0]).model_options)
            except Exception:
                return
        for strategy in self.space.strategies:
            config = self._first_config(strategy)
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

    def _first_config(self, strategy: str) -> Config:
        return resolve(self.problem, self.completed(next(self.space.grid(strategy))), self.settings.problem)


def check_grid(space: Space) -> None:
    """Refuse a grid that nobody could run."""
    for strategy in space.strategies:
        size = space.grid_size(strategy)
        if size > _LARGEST_GRID:
            raise UserError(
                f"the grid of strategy '{strategy}' has {size:.2g} trials ({len(space.of(strategy))} dimensions):"
                " decide some of them with --lr, --groups or --set, or use --algorithm optuna."
            )


def check_storage(given: str | None) -> None:
    """Refuse what is no folder: records are appended and locked there, which object stores cannot do."""
    if given is not None and "://" in given and not given.startswith("file:///"):
        raise UserError(
            f"storage {given} cannot be used: it must be a folder that all nodes share (NFS, EFS, a ReadWriteMany"
            " volume or a mounted bucket). Weights go to MLflow's artifact store, which may be an object store."
        )


def make_budget(problem: Problem, settings: Settings, configs: Sequence[Config]) -> Budget:
    """The budget of every trial.

    Counted in updates, everybody may take as many as the config that takes most of them within its epochs; so SUS may
    see the data several times as often.
    """
    epochs = configs[0].epochs
    if settings.budget == "seconds":
        assert settings.max_seconds is not None
        passes = settings.max_epochs or _NO_LIMIT
        limit = {"max_seconds": settings.max_seconds, "epochs": passes}
        return Budget("seconds", settings.max_seconds, settings.max_seconds * _GRACE, limit)
    if settings.budget == "updates":
        per_epoch = [mini_batches_per_epoch(problem, config) for config in configs]
        steps = [config.updates_per_batch(len(problem.tasks)) for config in configs]
        most = settings.max_updates or epochs * max(map(math.prod, zip(per_epoch, steps, strict=True)))
        limit = {"max_updates": most, "epochs": math.ceil(most / min(per_epoch))}
        return Budget("updates", most, most * _GRACE, limit)
    grace = min(epochs, max(configs[0].evaluate_every, math.ceil(epochs * _GRACE)))
    return Budget("epoch", epochs, grace, {"epochs": epochs})


def mini_batches_per_epoch(problem: Problem, config: Config) -> int:
    """How many; at least one."""
    data = problem.data("train")
    return max(1, (0 if data is None else len(data)) // config.batch_size)
