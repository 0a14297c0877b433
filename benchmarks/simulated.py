"""Trials without processes: Ray's own controller with actors that report a made-up learning curve at once.

``simulated_actors`` puts them in the place of Ray's; everything else of a search is as it is.
"""

import copy
import heapq
import itertools
import math
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ray.air.execution._internal import TrackedActor
from ray.train._internal.session import _TrainingResult
from ray.tune import Checkpoint, Trainable
from ray.tune.result import SHOULD_CHECKPOINT

from trainables.keys import OUTCOME, TRIAL
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.core.objective import Objective
from tune_mtl.problems.registry import load_problem
from tune_mtl.training import checkpoint
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Trainer

_SHARE_DIVERGED = 0.02
_SPAN = {"train": 1.0, "save": 0.01, "reset": 0.1, "start": 0.5, "stop": 0.01}
"""What takes how long in the simulated time, an epoch being one: it decides who reports when."""


@dataclass(frozen=True)
class Example:
    """What a real trial of a problem reports at its first evaluation, and a file like its best weights."""

    record: dict[str, Any]
    summary: dict[str, Any]
    objective: Objective
    weights: bytes


@cache
def example(problem: str, strategy: str = "sus") -> Example:
    """From one evaluation period in this process."""
    loaded = load_problem(problem)
    config = resolve(loaded, {"problem": problem, "strategy": strategy, "lr": 1e-3}, problem)
    trainer = Trainer(loaded, config)
    record = trainer.run_period()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(Path(folder) / BEST_WEIGHTS, {"epoch": 1})
        weights = (Path(folder) / BEST_WEIGHTS).read_bytes()
    found = Example(record, trainer.summary(), config.objective, weights)
    trainer.close()
    return found


class SimulatedTrial(Trainable):
    """Reports what ``MTLTrainable`` does, without training; the curve depends on the trial's config and ordinal."""

    def setup(self, config: dict[str, Any]) -> None:
        """Draw its curve."""
        self._example, self._epochs = example(config["problem"]), config["epochs"]
        self._name = f"{config[TRIAL]} {config['strategy']}"
        draw = random.Random(self._name)
        self._diverges = draw.random() < _SHARE_DIVERGED
        self._floor = 0.2 + 0.1 * abs(math.log10(config["lr"]) + 3) + 0.05 * draw.random()
        self._epoch, self._best = 0, None

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """The next evaluation."""
        self._epoch += 1
        first = self._example
        spent = {name: first.record[name] * self._epoch for name in ("updates", "seconds", "path/total")}
        if self._diverges:
            gone = {OUTCOME: "diverged", "reason": "train/loss is not finite", "epoch": self._epoch, "done": True}
            return {**gone, "updates": spent["updates"], "seconds": spent["seconds"]}
        noise = random.Random(f"{self._name} {self._epoch}").random()  # the same again after a restore
        left = self._floor + (1 - self._floor) * math.exp(-0.4 * (self._epoch - 1)) + 0.01 * noise
        record = {
            name: value * left if name.startswith(("train/", "val/")) and math.isfinite(value) else value
            for name, value in first.record.items()
        }
        record |= {**spent, "epoch": self._epoch}
        value = record[first.objective.metric]
        if first.objective.better(value, None if self._best is None else self._best[first.objective.metric]):
            self._best = record
        best = {f"best/{name}": kept for name, kept in self._best.items() if f"best/{name}" in first.summary}
        finished = self._epoch == self._epochs
        return {
            **record,
            **first.summary,
            **best,
            "updates": spent["updates"],
            "seconds": spent["seconds"],
            "best": self._best[first.objective.metric],
            OUTCOME: "completed" if finished else "running",
            "done": finished,
            SHOULD_CHECKPOINT: True,
        }

    def save(self, checkpoint_dir: str | None = None) -> _TrainingResult:  # noqa: ARG002
        """One small file in the search's storage."""
        self._storage._update_checkpoint_index({})
        folder = Path(self._storage.checkpoint_fs_path)
        folder.mkdir(parents=True, exist_ok=True)  # a killed search may have left it
        (folder / BEST_WEIGHTS).write_bytes(self._example.weights)
        kept = Checkpoint(str(folder), self._storage.storage_filesystem)
        return _TrainingResult(kept, {**self._last_result, "simulated": (self._epoch, self._best)})

    def restore(self, checkpoint_path: _TrainingResult) -> None:
        """Go on after that epoch; without its file, start again."""
        if not Path(checkpoint_path.checkpoint.path, BEST_WEIGHTS).exists():
            self.setup(self.config)
            return
        self._epoch, self._best = checkpoint_path.metrics["simulated"]
        self._iteration = self._epoch


@dataclass(order=True)
class _Event:
    """What happens at a simulated time."""

    at: float
    order: int
    kind: str = field(compare=False)
    actor: TrackedActor = field(compare=False)
    happen: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class _Handle:
    """What a trial knows of its actor."""

    def __init__(self, trial: SimulatedTrial) -> None:
        self.trial = trial
        self.get_auto_filled_metrics = SimpleNamespace(remote=trial.get_auto_filled_metrics)


class SimulatedActors:
    """Stands in for Ray's actor manager: ``slots`` actors in this process.

    Args:
        slots: How many trials have room.
        elsewhere: Entered while the work of a trial is done, which is none of the driver's.
        tell: Told the kind of each event before the controller hears of it: train, save, reset, start, stop.
    """

    def __init__(
        self,
        slots: int,
        elsewhere: Callable[[], AbstractContextManager[None]] = nullcontext,
        tell: Callable[[str], None] = lambda _: None,
        resource_manager: Any = None,  # noqa: ARG002 - Ray's, which is not asked
    ) -> None:
        self._slots, self._elsewhere, self._tell = slots, elsewhere, tell
        self._live_actors_to_ray_actors_resources: dict[TrackedActor, tuple[_Handle, None]] = {}
        self._pending: dict[TrackedActor, dict[str, Any]] = {}
        self._events: list[_Event] = []
        self._of_actor: dict[TrackedActor, set[int]] = {}
        self._tasks: dict[int, _Event] = {}
        self._order, self._now = itertools.count(), 0.0
        self._draw = random.Random(0)

    def add_actor(self, cls: type, resource_request: Any, kwargs: dict[str, Any], **callbacks: Any) -> TrackedActor:  # noqa: ARG002
        """Wait for room."""
        actor = TrackedActor(next(self._order), **callbacks)
        self._pending[actor] = kwargs
        return actor

    def next(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Let the next event happen."""
        while self._pending and len(self._live_actors_to_ray_actors_resources) < self._slots:
            actor = next(iter(self._pending))
            self._start(actor, self._pending.pop(actor))
        while self._events:
            event = heapq.heappop(self._events)
            if event.cancelled:
                continue
            self._forget(event)
            self._now = event.at
            self._tell(event.kind)
            event.happen()
            return True
        return False

    def _start(self, actor: TrackedActor, kwargs: dict[str, Any]) -> None:
        with self._elsewhere():
            trial = SimulatedTrial(**{**kwargs, "storage": copy.copy(kwargs["storage"])})
        self._live_actors_to_ray_actors_resources[actor] = (_Handle(trial), None)
        self._add("start", actor, lambda: actor._on_start(actor))

    def schedule_actor_task(
        self,
        tracked_actor: TrackedActor,
        method_name: str,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        on_result: Callable[[TrackedActor, Any], None] | None = None,
        on_error: Any = None,  # noqa: ARG002
        _return_future: bool = False,
    ) -> int | None:
        """Have a method called; its result is made when its time has come."""
        if tracked_actor not in self._live_actors_to_ray_actors_resources:
            return None
        trial = self._live_actors_to_ray_actors_resources[tracked_actor][0].trial
        given = {key: copy.copy(value) for key, value in (kwargs or {}).items()}

        def happen() -> None:
            with self._elsewhere():
                result = pickle.loads(pickle.dumps(getattr(trial, method_name)(*args, **given)))
            if on_result is not None:
                on_result(tracked_actor, result)

        return self._add(method_name, tracked_actor, happen)

    def _add(self, kind: str, actor: TrackedActor, happen: Callable[[], None]) -> int:
        after = _SPAN.get(kind, 0.1) * self._draw.uniform(0.8, 1.25)
        event = _Event(self._now + after, next(self._order), kind, actor, happen)
        heapq.heappush(self._events, event)
        self._of_actor.setdefault(actor, set()).add(event.order)
        self._tasks[event.order] = event
        return event.order

    def _forget(self, event: _Event) -> None:
        del self._tasks[event.order]
        self._of_actor[event.actor].discard(event.order)

    def clear_actor_task_futures(self, tracked_actor: TrackedActor) -> None:
        """What was to happen to it does not."""
        for order in list(self._of_actor.get(tracked_actor, ())):
            self._tasks[order].cancelled = True
            self._forget(self._tasks[order])

    def remove_actor(self, tracked_actor: TrackedActor, kill: bool = False, stop_future: int | None = None) -> bool:  # noqa: ARG002
        """Give its room to another; it hears of it if it had started."""
        if self._pending.pop(tracked_actor, None) is not None:
            return False
        self.clear_actor_task_futures(tracked_actor)

        def happen() -> None:
            handle, _ = self._live_actors_to_ray_actors_resources.pop(tracked_actor)
            with self._elsewhere():
                handle.trial.stop()
            if tracked_actor._on_stop is not None:
                tracked_actor._on_stop(tracked_actor)

        self._add("stop", tracked_actor, happen)
        return True

    def is_actor_started(self, tracked_actor: TrackedActor) -> bool:
        """Whether it has room."""
        return tracked_actor in self._live_actors_to_ray_actors_resources

    def is_actor_failed(self, tracked_actor: TrackedActor) -> bool:  # noqa: ARG002
        """Never."""
        return False

    @property
    def num_live_actors(self) -> int:
        """With room."""
        return len(self._live_actors_to_ray_actors_resources)

    @property
    def num_pending_actors(self) -> int:
        """Without."""
        return len(self._pending)

    @property
    def num_total_actors(self) -> int:
        """All."""
        return self.num_live_actors + self.num_pending_actors

    @property
    def num_actor_tasks(self) -> int:
        """What is to happen."""
        return len(self._tasks)

    def cleanup(self) -> None:
        """Nothing is left behind."""
        self._live_actors_to_ray_actors_resources.clear()


@contextmanager
def simulated_actors(
    slots: int,
    elsewhere: Callable[[], AbstractContextManager[None]] = nullcontext,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[None]:
    """Searches of this process run simulated trials, ``slots`` at once."""
    actors = partial(SimulatedActors, slots, elsewhere, tell)
    with (
        mock.patch("ray.tune.execution.tune_controller.RayActorManager", actors),
        mock.patch.dict("os.environ", {"RAY_CHDIR_TO_TRIAL_DIR": "0"}),
    ):
        yield
