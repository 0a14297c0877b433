"""Trials on Ray Tune: how a search, and the confirmation after it, are run, tracked, shown and taken up again."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher

from trainables.base import TRIAL, MTLTrainable
from trainables.sharing import SharedProblem
from tune_mtl.core.problem import Problem
from tune_mtl.core.stopping import Lent
from tune_mtl.searching.halving import FairHalving, RungKeeper
from tune_mtl.searching.plan import Plan
from tune_mtl.searching.retries import RETRIES, Retries
from tune_mtl.searching.screen import Screen
from tune_mtl.searching.snapshot import SNAPSHOT, Snapshots, put_back, reopen
from tune_mtl.searching.suggest import FairSearcher
from tune_mtl.tracking.callback import Tracker
from tune_mtl.tracking.diary import Diary
from tune_mtl.training.checkpoint import fingerprint
from tune_mtl.training.trial import environment


@dataclass(frozen=True)
class Ending:
    """How trials ended: whether all of them did, or the time was up; and what else ends the search, if something does.

    Who asks to stop when the last trial has ended wants nothing to follow it.
    """

    complete: bool
    failure: BaseException | None = None

    def raise_failure(self) -> None:
        """Let it go on its way."""
        if self.failure is not None:
            raise self.failure


@dataclass(frozen=True)
class Trials:
    """What is to be run, with those who watch it.

    Attributes:
        folder: Where they are kept.
        tuner: Ray's.
        halving: Who is stopped.
        tracker: Records in MLflow.
        screen: Shows.
        retries: Decides who is tried again.
    """

    folder: Path
    tuner: tune.Tuner
    halving: FairHalving
    tracker: Tracker
    screen: Screen
    retries: Retries

    @classmethod
    def make(
        cls,
        plan: Plan,
        folder: Path,
        searcher: Searcher,
        halving: FairHalving,
        tracker: Tracker,
        screen: Screen,
        *,
        test: bool = False,
    ) -> "Trials":
        """New ones, kept in ``folder``. ``test``: evaluate each one's best weights on the test split at its end."""
        retries = Retries()
        tuner = tune.Tuner(
            _trainable(plan, test=test),
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
                name=folder.name,
                storage_path=str(folder.parent),
                callbacks=[tracker, RungKeeper(halving), screen, retries, JsonLoggerCallback()],  # type: ignore[no-untyped-call]
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
                verbose=0,
            ),
        )
        return cls(folder, tuner, halving, tracker, screen, retries)

    @classmethod
    def exist(cls, folder: Path) -> bool:
        """Whether ``folder`` holds trials to go on with."""
        return (folder / SNAPSHOT).exists()

    @classmethod
    def restore(cls, plan: Plan, folder: Path, *, test: bool = False, retry: bool = False) -> "Trials":
        """Those that ``folder`` holds, where a kill left them; ``retry``: the failed ones too."""
        put_back(folder)
        tuner = tune.Tuner.restore(str(folder), _trainable(plan, test=test), resume_errored=retry)
        assert tuner._local_tuner is not None
        halving = tuner._local_tuner._tune_config.scheduler
        searcher = tuner._local_tuner._tune_config.search_alg
        assert isinstance(halving, FairHalving)
        callbacks = tuner._local_tuner._run_config.callbacks or []
        tracker = next(callback for callback in callbacks if isinstance(callback, Tracker))
        screen = next(callback for callback in callbacks if isinstance(callback, Screen))
        retries = next(callback for callback in callbacks if isinstance(callback, Retries))
        tracker.uri, tracker.folder = plan.tracking_uri, spool_folder(plan, tracker.kind)
        halving.diary = Diary.read(tracker.folder)
        if isinstance(searcher, FairSearcher):
            if plan.total > searcher.total:
                reopen(folder)
            searcher.diary, searcher.turns, searcher.seeds = halving.diary, plan.turns, plan.seeds
            screen.total = plan.total
            halving.time_budget = plan.settings.time_budget
        return cls(folder, tuner, halving, tracker, screen, retries)

    def run(self) -> "Ending":
        """Run them, until all have ended or something stops it; what stops it is not raised, but told."""
        self.screen.open()
        snapshots = Snapshots(self.folder, self.tracker.delivered)
        self.halving.at_rest = lambda controller, soon: snapshots.take_if_due(controller, soon=soon)
        try:
            asked = self._fit()
            # Ray's own status does not tell: what Ctrl-C cuts off is TERMINATED too
            timed_out = self.halving.time_is_up and not self.screen.running
            complete = timed_out or self.screen.done >= self.screen.total
            ending = Ending(complete=complete, failure=KeyboardInterrupt() if complete and asked else None)
            if ending.complete:
                snapshots.take_last()
        except BaseException as error:  # raised again by whoever has recorded what there is
            ending = Ending(complete=False, failure=error)
        self.screen.close()
        return ending

    def _fit(self) -> bool:
        """Have Ray Tune run them; returns whether it was asked to stop, by Ctrl-C or SIGTERM."""
        lent = Lent()
        try:
            with self.retries.deciding():
                self.tuner.fit()
        finally:
            asked = lent.take_back()
        return asked and not int(os.environ.get("TUNE_DISABLE_SIGINT_HANDLER", "0"))

    def tidy(self) -> None:
        """Once everything has ended and is delivered: no checkpoint is needed any more."""
        for folder in self.folder.glob("trial_*/checkpoint_*"):
            shutil.rmtree(folder, ignore_errors=True)


def make_tracker(plan: Plan, kind: str) -> Tracker:
    """Records runs of ``kind`` under the search's run."""
    settings, folder = plan.settings, spool_folder(plan, kind)
    return Tracker(
        plan.tracking_uri, settings.problem, settings.name, plan.varied, environment_tags(plan), kind, folder
    )


def spool_folder(plan: Plan, kind: str) -> Path:
    """Where what MLflow is to be told of runs of ``kind`` is kept, beside the search."""
    return plan.folder / "tracking" / kind


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
        if data is not None:
            parts.append(fingerprint(data) or f"{type(data).__name__}-{len(data)}")
    return "/".join(parts)


def _trainable(plan: Plan, *, test: bool) -> Any:
    shared = SharedProblem.put(plan.problem, plan.settings.problem, plan.settings.fixed)
    resources = {"cpu": plan.settings.cpus_per_trial, "gpu": plan.settings.gpus_per_trial}
    return tune.with_resources(tune.with_parameters(MTLTrainable, shared=shared, test=test), resources)


def _trial_name(trial: Any) -> str:
    return f"trial_{trial.config[TRIAL]}"
