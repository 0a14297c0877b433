"""A search: a space, a searcher, a scheduler, resources, tracking - put together on Ray Tune."""

import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import torch
from ray import tune
from ray.tune.logger import JsonLoggerCallback

from trainables.base import TRIAL, MTLTrainable
from trainables.sharing import SharedProblem
from tune_mtl.best import BestTrial, all_searches, best_by_strategy, trials
from tune_mtl.core.callable_module import make_callable
from tune_mtl.core.data import TensorData
from tune_mtl.core.errors import UserError
from tune_mtl.core.options import build
from tune_mtl.core.problem import Problem
from tune_mtl.problems.registry import load_problem
from tune_mtl.searching.halving import FairHalving, RungKeeper
from tune_mtl.searching.manage import SETTINGS, saved_settings
from tune_mtl.searching.plan import Plan
from tune_mtl.searching.screen import Screen
from tune_mtl.searching.settings import Settings
from tune_mtl.searching.suggest import FairSearcher
from tune_mtl.tracking import names
from tune_mtl.tracking.callback import Tracker
from tune_mtl.tracking.store import check_name, client, reachable
from tune_mtl.training.checkpoint import digest, write_json
from tune_mtl.training.trial import environment

if TYPE_CHECKING:
    import pandas as pd

LOG = "search.log"
_RETRIES = 2
_REACH_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """How a search ended.

    Attributes:
        name: Of the search.
        best: The best trial, or None if none ended well.
        best_by_strategy: The same for each strategy that has one.
        counts: Trials by outcome.
        complete: Whether all trials that were asked for have ended; else ``tune_mtl.resume(name)`` goes on.
        folder: Checkpoints and log.
    """

    name: str
    best: BestTrial | None
    best_by_strategy: dict[str, BestTrial]
    counts: dict[str, int]
    complete: bool
    folder: Path
    tracking_uri: str = field(repr=False)

    def trials(self) -> "pd.DataFrame":
        """One row per trial."""
        return trials(self.name, tracking_uri=self.tracking_uri)


def plan_search(problem: str | Problem, **options: Any) -> Plan:
    """What :func:`search` would run with the same arguments."""
    given = {key: value for key, value in options.items() if value is not None}
    loaded = load_problem(problem, given.get("fixed"))
    name = problem if isinstance(problem, str) else loaded.name
    if given.get("space") == "paper":
        given = {"algorithm": "grid", "scheduler": "none", **given}
    given.setdefault("name", f"{loaded.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    return Plan.make(loaded, build(Settings, {"problem": name, **given}))


def search(
    problem: str | Problem,
    *,
    name: str | None = None,
    space: str | None = None,
    strategies: Sequence[str] | None = None,
    lr: str | None = None,
    groups: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    algorithm: str | None = None,
    scheduler: str | None = None,
    balance: str | None = None,
    samples: int | None = None,
    max_epochs: int | None = None,
    seed: int | None = None,
    seeds: Sequence[int] | None = None,
    metric: str | None = None,
    time_budget: float | None = None,
    concurrency: int | None = None,
    cpus_per_trial: float | None = None,
    gpus_per_trial: float | None = None,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
) -> SearchResult:
    """Search the best strategy, group count and learning rate for ``problem``.

    Args:
        problem: A built-in name, ``package.module:attribute``, or a :class:`Problem`.
        name: Of the search, unique; default: problem and time.
        space: ``wide`` (default) or ``paper`` (a grid on three seeds, nobody stopped early), or one of the problem's.
        strategies: Which; default: those of the space.
        lr: ``1e-5:1e-2``, ``1e-3,1e-2`` or one value, instead of the space's.
        groups: ``2,4`` or ``1:4``, instead of the space's.
        fixed: Config values and options that every trial has.
        algorithm: ``optuna`` (default), ``random`` or ``grid``.
        scheduler: ``asha`` (default) stops the hopeless early; ``none``.
        balance: ``strategy`` (default): each strategy has its own study and rungs and as many trials as the others;
            ``none``: strategy is one more dimension, and the comparison is not fair.
        samples: Trials in all; default 8 per strategy, or the whole grid.
        max_epochs: Per trial; default: the problem's.
        seed: Of the trials and of the searcher.
        seeds: Of a grid, which runs every config on each; default: the space's.
        metric: The objective, ``name[:min|max]``; default: the problem's.
        time_budget: Seconds after which trials end at their next evaluation, and no other starts.
        concurrency: Trials at once; default: as many as fit.
        cpus_per_trial, gpus_per_trial: Resources; a trial uses as many threads as it has CPUs. Fractions share a GPU.
        address: Of a Ray cluster; default: a local one, started and stopped with the search.
        storage: Folder or URI that all nodes share; default: ``ray`` in the home.
        tracking_uri: The MLflow store; default: ``MLFLOW_TRACKING_URI``, else ``mlflow.db`` in the home.

    Raises:
        UserError: for anything that cannot be, before any trial starts.
    """
    given = {key: value for key, value in locals().items() if key != "problem"}
    plan = plan_search(problem, **given)
    reachable(plan.tracking_uri)
    _check_unused(plan)
    plan.check_strategies()
    plan.check_disk()
    with _Cluster(plan.settings, own_module=":" in plan.settings.problem):
        searcher = FairSearcher(
            plan.space,
            plan.objective,
            algorithm=plan.settings.algorithm,
            samples=plan.total,
            seed=plan.settings.seed,
            balanced=plan.settings.balance == "strategy",
            constant=plan.constant,
            tasks=len(plan.problem.tasks),
        )
        halving = FairHalving(
            plan.space.strategies if plan.settings.scheduler == "asha" else None,
            plan.objective,
            epochs=plan.epochs,
            grace=plan.grace,
            balanced=plan.settings.balance == "strategy",
            time_budget=plan.settings.time_budget,
        )
        screen = Screen(plan.settings.name, plan.objective, plan.space.strategies, plan.total)
        tracker = Tracker(
            plan.tracking_uri, plan.settings.problem, plan.settings.name, plan.varied, environment_tags(plan)
        )
        tuner = tune.Tuner(
            _trainable(plan),
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                scheduler=halving,
                num_samples=-1,
                max_concurrent_trials=plan.settings.concurrency,
                reuse_actors=True,
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
            ),
            run_config=tune.RunConfig(
                name=plan.settings.name,
                storage_path=plan.storage,
                callbacks=[tracker, RungKeeper(halving), screen, JsonLoggerCallback()],  # type: ignore[no-untyped-call]
                failure_config=tune.FailureConfig(max_failures=_RETRIES),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True, num_to_keep=2),
                verbose=0,
            ),
        )
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_json(plan.folder / SETTINGS, plan.settings.model_dump(mode="json"))
        return _fit(plan, tuner, halving, tracker, screen)


def resume(
    name: str,
    *,
    address: str | None = None,
    storage: str | None = None,
    tracking_uri: str | None = None,
    problem: Problem | None = None,
) -> SearchResult:
    """Go on with an interrupted search: finished trials stay, running ones continue from their checkpoints.

    Args:
        name: Of the search.
        address: Of another cluster than before.
        storage: Where the search's folder is now, if it was moved.
        tracking_uri: Of the MLflow store, if it was moved.
        problem: The problem itself, where the search was started with one that has no importable name.

    Raises:
        UserError: if there is no such search here.
    """
    given = {"address": address, "storage": storage, "tracking_uri": tracking_uri}
    changes = {key: value for key, value in given.items() if value is not None}
    settings = saved_settings(check_name(name), storage, tracking_uri).model_copy(update=changes)
    plan = Plan.make(load_problem(problem or settings.problem, settings.fixed), settings)
    reachable(plan.tracking_uri)
    with _Cluster(settings, own_module=":" in settings.problem):
        if not (plan.folder / "tuner.pkl").exists():
            raise UserError(
                f"search '{name}' was stopped before its first trial: tune-mtl rm {name}, then start again."
            )
        tuner = tune.Tuner.restore(str(plan.folder), _trainable(plan), resume_errored=False)
        assert tuner._local_tuner is not None
        halving = tuner._local_tuner._tune_config.scheduler
        assert isinstance(halving, FairHalving)
        callbacks = tuner._local_tuner._run_config.callbacks or []
        tracker = next(callback for callback in callbacks if isinstance(callback, Tracker))
        screen = next(callback for callback in callbacks if isinstance(callback, Screen))
        return _fit(plan, tuner, halving, tracker, screen)


def _fit(plan: Plan, tuner: tune.Tuner, scheduler: FairHalving, tracker: Tracker, screen: Screen) -> SearchResult:
    settings = plan.settings
    parent_tags = {names.OBJECTIVE: str(plan.objective), names.PROBLEM: settings.problem}
    with _logged_to(plan.folder / LOG):
        tracker.open(settings.model_dump(mode="json"), parent_tags)
        screen.open()
        complete = False
        try:
            grid = tuner.fit()
            ended = sum(trial.status in ("TERMINATED", "ERROR") for trial in grid._experiment_analysis.trials)
            complete = ended >= plan.total or scheduler.time_is_up
        finally:
            screen.close()
            tracker.flush()
            winners = best_by_strategy(settings.name, tracking_uri=plan.tracking_uri)
            overall = _best_of(winners)
            table = trials(settings.name, tracking_uri=plan.tracking_uri)
            best_tags = {} if overall is None else {names.BEST_RUN: overall.run_id}
            tracker.close(
                complete=complete, tags=best_tags, table=table, best=None if overall is None else overall.config
            )
    return SearchResult(
        name=settings.name,
        best=overall,
        best_by_strategy=winners,
        counts=dict(Counter(table["outcome"])) if len(table) else {},
        complete=complete,
        folder=plan.folder,
        tracking_uri=plan.tracking_uri,
    )


def _best_of(winners: Mapping[str, BestTrial]) -> BestTrial | None:
    best: BestTrial | None = None
    for trial in winners.values():
        if best is None or trial.objective.better(trial.value, best.value):
            best = trial
    return best


def _trainable(plan: Plan) -> Any:
    shared = SharedProblem.put(plan.problem, plan.settings.problem, plan.settings.fixed)
    resources = {"cpu": plan.settings.cpus_per_trial, "gpu": plan.settings.gpus_per_trial}
    return tune.with_resources(tune.with_parameters(MTLTrainable, shared=shared), resources)


def _trial_name(trial: Any) -> str:
    return f"trial_{trial.config[TRIAL]}"


def _check_unused(plan: Plan) -> None:
    name = plan.settings.name
    taken = plan.folder.exists() or name in all_searches(client(plan.tracking_uri))
    if taken:
        raise UserError(
            f"search '{name}' exists already: tune-mtl resume {name} goes on with it, or choose another --name."
        )


def environment_tags(plan: Plan) -> dict[str, str]:
    """Versions and device, for every run."""
    device = torch.device("cuda" if plan.settings.gpus_per_trial else "cpu")
    found = environment(device if torch.cuda.is_available() else torch.device("cpu"))
    found |= {"ray": ray.__version__, "data": data_fingerprint(plan.problem)}
    return {f"tune_mtl.{key}": value for key, value in found.items()}


def data_fingerprint(problem: Problem) -> str:
    """Tells one training and validation set from another: content where it is tensors, else kind and size."""
    parts = []
    for split in ("train", "val"):
        data = problem.data(split)
        if isinstance(data, TensorData):
            parts.append(digest(tuple(data.everything))[:12])
        elif getattr(data, "fingerprint", None):
            parts.append(data.fingerprint)  # type: ignore[union-attr]
        elif data is not None:
            parts.append(f"{type(data).__name__}-{len(data)}")
    return "/".join(parts)


class _Cluster:
    """Ray for the duration of a search: the one that runs already, one at an address, or a local one of our own."""

    def __init__(self, settings: Settings, *, own_module: bool) -> None:
        self._settings, self._own_module = settings, own_module
        self._ours = False

    def __enter__(self) -> None:
        os.environ.setdefault("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "2")
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        if ray.is_initialized():
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        address = self._settings.address
        try:
            if address is None:
                ray.init(include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
            else:
                _check_address(address)
                ship = {"working_dir": str(Path.cwd()), "excludes": ["runs", ".venv", ".git"]}
                ray.init(address, runtime_env=ship if self._own_module else None, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = address or "the local machine"
            raise UserError(f"Ray at {where} cannot be used: {str(error).splitlines()[0]}") from None
        self._ours = True

    def __exit__(self, *_: object) -> None:
        if self._ours:
            ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address where nobody listens, within seconds."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
    except OSError as error:
        raise UserError(f"Ray address {address} does not answer ({error}). Is the cluster running?") from None


class _logged_to:  # noqa: N801 - reads like a function
    """Sends what Ray, Optuna and MLflow have to say to a file, off the screen."""

    _LOGGERS = ("ray", "optuna", "mlflow", "tune_mtl")

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._handler = logging.FileHandler(self._path)
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._before = {}
        for name in self._LOGGERS:
            logger = logging.getLogger(name)
            self._before[name] = (logger.handlers[:], logger.propagate)
            logger.handlers[:] = [self._handler]
            logger.propagate = False

    def __exit__(self, *_: object) -> None:
        for name, (handlers, propagate) in self._before.items():
            logger = logging.getLogger(name)
            logger.handlers[:] = handlers
            logger.propagate = propagate
        self._handler.close()


make_callable(__name__)
