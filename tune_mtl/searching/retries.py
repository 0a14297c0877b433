"""Whose fault a failure is: a trial is not blamed for a worker or a node that was lost, but it is for its memory."""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.tune import Callback
from ray.tune.experiment import Trial

from trainables.base import TRIAL

logger = logging.getLogger(__name__)

RETRIES = 2
"""Of a trial whose own code raises."""
LOST_WORKERS = 20
"""That a trial may survive; one whose worker dies more often kills it itself."""
MEMORY_RETRIES = 1
"""Of a trial whose worker was killed because it, or what ran beside it, took too much memory."""

_WAY_OUT = "Use a smaller batch_size, or fewer trials at once: --concurrency, or more --cpus-per-trial."
_KERNEL_COUNTS = Path("/proc/vmstat")


class OutOfMemory(RayActorError):
    """The worker of a trial was killed for want of memory."""


class Retries(Callback):
    """Decides how often a trial is tried again; it continues from its checkpoint, on whatever node has room.

    A trial gets those failures back that were none of its own. Of want of memory it fails after one retry: with the
    same config the next try would end likewise, and each one endangers what else runs on the node.
    """

    def setup(self, *_: Any, **__: Any) -> None:
        """Begin to count; a resumed search begins anew."""
        self._lost: Counter[str] = Counter()
        self._starved: Counter[str] = Counter()
        self._kills: dict[str, int] = {}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """Remember how many processes the kernel had killed when the trial was alive."""
        self._kills[trial.config[TRIAL]] = kernel_kills()

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Trial],  # noqa: ARG002
        trial: Trial,
        result: dict[str, Any],  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Remember the same, since it is alive still."""
        self._kills[trial.config[TRIAL]] = kernel_kills()

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Have all failures of trials judged here, for the length of a ``with``.

        Ray Tune tells of a failure only when it has decided about it, and gives up the whole experiment on any error
        of Ray's that it does not know, such as a worker that was killed for its memory.
        """
        handle, fail = Trial.handle_error, RayActorManager._actor_task_failed

        def handle_error(trial: Trial, exc: Any = None) -> None:
            before = trial.run_metadata.num_failures
            error = self._understood(trial, exc)
            handle(trial, error)
            self._decide(trial, error, before)

        def task_failed(manager: RayActorManager, tracked_actor_task: Any, exception: Exception) -> None:
            fail(manager, tracked_actor_task, _of_a_kind_that_tune_knows(exception))

        Trial.handle_error = handle_error  # type: ignore[method-assign,assignment]
        RayActorManager._actor_task_failed = task_failed  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            Trial.handle_error = handle  # type: ignore[method-assign]
            RayActorManager._actor_task_failed = fail  # type: ignore[method-assign]

    def _understood(self, trial: Trial, error: Any) -> Any:
        """Return the error, as want of memory where it was that."""
        if isinstance(error, OutOfMemoryError):
            return _killed_by_ray(error)
        lost = isinstance(error, RayActorError) and not isinstance(error, OutOfMemory)
        name = trial.config[TRIAL]
        if lost and _was_here(error) and kernel_kills() > self._kills.get(name, kernel_kills()):
            return OutOfMemory(
                error_msg=f"{error}\nout of memory: the kernel killed the worker of the trial. {_WAY_OUT}"
            )
        return error

    def _decide(self, trial: Trial, error: Any, failures_before: int) -> None:
        """Set how many failures of ``trial`` count: beyond Ray's limit, it is not tried again."""
        name = trial.config[TRIAL]
        self._kills[name] = kernel_kills()
        if isinstance(error, OutOfMemory):
            self._starved[name] += 1
            again = self._starved[name] <= MEMORY_RETRIES
            logger.warning("trial %s ran out of memory and is %s", name, "tried once more" if again else "given up")
            trial.run_metadata.num_failures = failures_before if again else RETRIES + 1
        elif isinstance(error, RayActorError) and self._lost[name] < LOST_WORKERS:
            self._lost[name] += 1
            trial.run_metadata.num_failures = failures_before
            logger.warning("trial %s lost its worker and continues elsewhere", name)
        else:
            again = trial.run_metadata.num_failures <= RETRIES
            logger.warning("trial %s failed and is %s", name, "tried again" if again else "given up")


def _of_a_kind_that_tune_knows(error: Exception) -> Exception:
    """Return the error as one of a trial's worker, where Ray Tune would take it for the end of everything."""
    if isinstance(error, OutOfMemoryError):
        return _killed_by_ray(error)
    if isinstance(error, RayError) and not isinstance(error, RayActorError | RayTaskError):
        return RayActorError(error_msg=str(error))
    return error


def kernel_kills() -> int:
    """Return how many processes the kernel of this machine has killed for want of memory; 0 where it does not say."""
    try:
        found = re.search(r"^oom_kill (\d+)$", _KERNEL_COUNTS.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _was_here(error: RayActorError) -> bool:
    """Return whether the worker that died ran on the driver's machine, whose kernel can be asked."""
    found = re.search(r"^\s*ip: (\S+)$", str(error), re.MULTILINE)
    return found is not None and found[1] == str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _killed_by_ray(error: RayError) -> OutOfMemory:
    """Return what Ray's guard of the memory says, with the reason in its last line."""
    used = re.search(r"[\d.]+\s?[KMGT]?B used / [\d.]+\s?[KMGT]?B limit", str(error))
    why = f" when its node had {used[0]}" if used else ""
    return OutOfMemory(error_msg=f"{error}\nout of memory: Ray killed the worker of the trial{why}. {_WAY_OUT}")
