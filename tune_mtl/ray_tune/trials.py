"""Trials on Ray Tune: how those of a search, or of its confirmation, are run, and taken up again after a kill."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search import Searcher

from trainables.base import MTLTrainable
from trainables.keys import TRIAL
from trainables.sharing import SharedProblem
from tune_mtl.core.problem import Problem
from tune_mtl.core.process.signals import Lent
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.callbacks import ProgressCallback, TrackingCallback
from tune_mtl.ray_tune.loop import Decisions, LoopState, TrialLoop
from tune_mtl.ray_tune.retries import RETRIES, Retries
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.ray_tune.snapshots import Snapshots, put_back
from tune_mtl.ray_tune.thaw.policy import Policy
from tune_mtl.ray_tune.thawing import ThawLoop
from tune_mtl.ray_tune.turns import Turn
from tune_mtl.strategies.parts import Part
from tune_mtl.tracking.names import SNAPSHOT
from tune_mtl.tracking.progress import Observer, Progress
from tune_mtl.tracking.replay import Replay
from tune_mtl.tracking.tracker import Tracker

_Kind = TypeVar("_Kind")

_ALL = 10**6
"""More trials than ever run at once. Without a number, Ray asks for no trial while another one waits for its worker."""


@dataclass(frozen=True)
class Ending:
    """How trials ended: whether all of them did, or the time was up; and what else ends the search, if something does.

    Who asks to stop when the last trial has ended wants nothing to follow it.
    """

    complete: bool
    failure: BaseException | None = None

    def raise_failure(self) -> None:
        """Raise what ended the search, if something did."""
        if self.failure is not None:
            raise self.failure


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What every trial trains, and what it may use.

    Attributes:
        problem: What is learned.
        name: As configs name it.
        options: What it is made with, among other config values.
        strategies: The names of those that train it.
        parts: The optimizers and schedules that trials may have: which of both, and its name.
        cpus, gpus: Of each trial.
        at_once: How many trials at the same time; None: as many as fit.
        test: Whether a trial's best weights are evaluated on the test split at its end.
    """

    problem: Problem
    name: str
    options: Mapping[str, Any]
    strategies: Sequence[str]
    cpus: float
    gpus: float
    at_once: int | None = None
    parts: Sequence[tuple[Part, str]] = ()
    test: bool = False

    def trainable(self) -> Any:
        """Return the class whose instances Ray trains, with its problem and its resources."""
        shared = SharedProblem.put(self.problem, self.name, self.options, self.strategies, self.parts)
        trained = tune.with_parameters(MTLTrainable, shared=shared, test=self.test)
        return tune.with_resources(trained, {"cpu": self.cpus, "gpu": self.gpus})


@dataclass(frozen=True)
class Followers:
    """Who is told what happens to trials.

    Attributes:
        tracker: Records it.
        progress: Counts it.
        observer: Shows it.
    """

    tracker: Tracker
    progress: Progress
    observer: Observer


@dataclass(frozen=True)
class Trials:
    """Trials that are to be run, with those who follow them.

    Attributes:
        folder: Where they are kept.
        tuner: Ray's.
        loop: Who is next, and until when.
        followers: Who is told.
        retries: Who is tried again.
    """

    folder: Path
    tuner: tune.Tuner
    loop: TrialLoop
    followers: Followers
    retries: Retries

    @property
    def tracker(self) -> Tracker:
        """The one who records."""
        return self.followers.tracker

    @classmethod
    def make(
        cls, folder: Path, workload: Workload, searcher: Searcher, loop: TrialLoop, followers: Followers
    ) -> "Trials":
        """Return new trials, kept in ``folder``."""
        retries = Retries()
        if isinstance(loop, ThawLoop):
            loop.conductor.record = followers.tracker.decide
        callbacks = [
            Decisions(loop),  # before all who read what was decided
            TrackingCallback(followers.tracker),
            LoopState(loop),
            ProgressCallback(followers.progress, followers.observer),
            retries,
            JsonLoggerCallback(),  # type: ignore[no-untyped-call]
        ]
        tuner = tune.Tuner(
            workload.trainable(),
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                scheduler=loop,
                num_samples=-1,
                max_concurrent_trials=_ALL if isinstance(loop, ThawLoop) else workload.at_once,
                reuse_actors=True,
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
            ),
            run_config=tune.RunConfig(
                name=folder.name,
                storage_path=str(folder.parent),
                callbacks=callbacks,
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
                verbose=0,
            ),
        )
        return cls(folder, tuner, loop, followers, retries)

    @classmethod
    def exist(cls, folder: Path) -> bool:
        """Return whether ``folder`` holds trials to go on with."""
        return (folder / SNAPSHOT).exists()

    @classmethod
    def restore(cls, folder: Path, workload: Workload, followers: Followers, *, retry: bool = False) -> "Trials":
        """Return the trials that ``folder`` holds, where a kill left them; ``retry``: the failed ones too."""
        put_back(folder)
        tuner = tune.Tuner.restore(str(folder), workload.trainable(), resume_errored=retry)
        loop, searcher, callbacks = compat.scheduler_of(tuner), compat.searcher_of(tuner), compat.callbacks_of(tuner)
        assert isinstance(loop, TrialLoop)
        _one_of(callbacks, TrackingCallback).tracker = followers.tracker
        shown = _one_of(callbacks, ProgressCallback)
        shown.progress, shown.observer = followers.progress, followers.observer
        loop.replay = Replay.read(followers.tracker.folder)
        if isinstance(searcher, FairSearcher):
            searcher.replay = loop.replay
            searcher.starter = loop if isinstance(loop, ThawLoop) else None
        if isinstance(loop, ThawLoop):
            loop.conductor.replay, loop.conductor.record = loop.replay, followers.tracker.decide
        return cls(folder, tuner, loop, followers, _one_of(callbacks, Retries))

    def go_on_as_planned(
        self,
        turns: Sequence[Turn],
        seeds: Mapping[int, int],
        time_budget: float | None,
        policy: Policy | None = None,
    ) -> "Trials":
        """Have restored trials of a search follow its plan, which may have grown since; returns itself.

        ``policy``: who decides where trials pause.
        """
        searcher = compat.searcher_of(self.tuner)
        assert isinstance(searcher, FairSearcher)
        grown = len(turns) > searcher.total
        if grown:
            compat.ask_for_more(self.folder)
        if policy is not None and isinstance(self.loop, ThawLoop):
            self.loop.conductor.follow(policy, grown=grown)
        searcher.turns, searcher.seeds = list(turns), dict(seeds)
        self.loop.time.seconds = time_budget
        return self

    def run(self) -> Ending:
        """Run them, until all have ended or something stops it; what stops it is not raised, but told."""
        progress, observer = self.followers.progress, self.followers.observer
        observer.open()
        snapshots = Snapshots(self.folder, self.tracker.delivered)
        self.loop.at_rest = lambda controller, soon: snapshots.take_if_due(controller, soon=soon)
        try:
            asked = self._fit()
            # Ray's own status does not tell: what Ctrl-C cuts off is TERMINATED too
            complete = progress.complete or self.loop.over or (self.loop.time.is_up and not progress.running)
            ending = Ending(complete=complete, failure=KeyboardInterrupt() if complete and asked else None)
            if ending.complete:
                snapshots.take_last()
        except BaseException as error:  # raised again by whoever has recorded what there is
            ending = Ending(complete=False, failure=error)
        observer.close()
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
        """Remove all checkpoints but those that stay: nobody needs them once everything has ended and is delivered."""
        kept = {trial_folder(trial) for trial in self.tracker.kept}
        for folder in self.folder.glob("trial_*/checkpoint_*"):
            if folder.parent.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)


def _one_of(callbacks: Sequence[tune.Callback], kind: type[_Kind]) -> _Kind:
    """Return the callback of one class."""
    return next(callback for callback in callbacks if isinstance(callback, kind))


def _trial_name(trial: Any) -> str:
    return trial_folder(trial.config[TRIAL])


def trial_folder(trial: str) -> str:
    """Return the name of the folder that holds the checkpoints of a trial."""
    return f"trial_{trial}"
