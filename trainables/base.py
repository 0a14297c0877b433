"""`MTLTrainable`: the engine's trainer as Ray Tune wants it."""

import errno
import gc
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from ray.tune import Trainable
from ray.tune.result import SHOULD_CHECKPOINT

from trainables.sharing import SharedProblem
from tune_mtl.core.errors import UserError
from tune_mtl.problems.registry import load_problem
from tune_mtl.training import checkpoint
from tune_mtl.training.config import resolve
from tune_mtl.training.references.find import judged
from tune_mtl.training.trainer import Diverged, Trainer
from tune_mtl.training.trial import BEST, CHECKPOINT, CHECKPOINT_SHARE, best_content

TRIAL = "trial"
"""The key of the search's own ordinal in a trial's Ray config; it is no part of the config proper."""

REPLICATE = "replicate"
"""The key of the repetition of the tuning that a trial belongs to, likewise: 0, 1, ..."""

OUTCOME = "outcome"

logger = logging.getLogger(__name__)

_DISK_PATIENCE, _DISK_PAUSE = 600.0, 2.0
"""Seconds that a trial waits for room on a full disk, and between two tries; the search itself gives up before."""


def proper(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trial's config proper: what Ray was given, without the keys that say which trial it is."""
    return {key: value for key, value in config.items() if key not in (TRIAL, REPLICATE)}


class MTLTrainable(Trainable):
    """One ``step()`` is one evaluation period. Results carry ``epoch``, ``updates``, ``seconds`` and all metrics.

    ``outcome`` is ``running``, ``completed`` or ``diverged``. A diverged trial reports no metric and is done: nothing
    non-finite ever reaches scheduler or searcher. Checkpoints are exact, and taken as often as they cost at most 3 % of
    the training time. With ``test``, the last result carries ``test/...`` of the best weights.
    """

    strategy: str | None = None

    def setup(self, config: dict[str, Any], shared: SharedProblem | None = None, *, test: bool = False) -> None:
        """Build everything for ``config``, a flat trial config."""
        self._shared, self._test = shared, test
        self._begin(config)

    def _begin(self, config: dict[str, Any]) -> None:
        flat = proper(config)
        if self.strategy is not None:
            flat["strategy"] = self.strategy
        name = flat["problem"]
        problem = judged(load_problem(name, flat), flat) if self._shared is None else self._shared.load()
        self.trainer = Trainer(problem, resolve(problem, flat, name))
        self._saved_at, self._save_cost = time.monotonic(), 0.0

    def step(self) -> dict[str, Any]:
        """Train to the next evaluation."""
        try:
            record = self.trainer.run_period()
        except Diverged as reason:
            return self._over("diverged", str(reason))
        except (torch.OutOfMemoryError, MemoryError) as error:
            return self._over("failed", f"out of memory: {error}")
        finished = self.trainer.finished
        best = self.trainer.best
        objective = self.trainer.config.objective.metric
        return {
            **record,
            **self.trainer.summary(),
            **(self.trainer.test_best() if finished and self._test else {}),
            "best": best.record[objective] if best is not None else None,
            OUTCOME: "completed" if finished else "running",
            "done": finished,
            SHOULD_CHECKPOINT: (time.monotonic() - self._saved_at) * CHECKPOINT_SHARE >= self._save_cost,
        }

    def _over(self, outcome: str, reason: str) -> dict[str, Any]:
        """The last result of a trial that need not be tried again: the same config would end the same way."""
        spent = {"updates": self.trainer.updates, "seconds": self.trainer.seconds}
        return {OUTCOME: outcome, "reason": reason, "epoch": self.trainer.epoch, **spent, "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """The best weights, and everything."""
        started = time.monotonic()
        folder = Path(checkpoint_dir)
        if self.trainer.best is not None:
            checkpoint.save(folder / BEST, best_content(self.trainer))
        checkpoint.save(folder / CHECKPOINT, self.trainer.state_dict())
        self._saved_at = time.monotonic()
        self._save_cost = self._saved_at - started

    def load_checkpoint(self, checkpoint_dir: str) -> None:  # type: ignore[override]
        """Go on exactly where the checkpoint was taken."""
        self.trainer.load_state_dict(checkpoint.load(Path(checkpoint_dir) / CHECKPOINT))

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """A checkpoint in the search's storage; a disk that is full is waited for."""
        given_up_at = time.monotonic() + _DISK_PATIENCE
        while True:
            try:
                return super().save(checkpoint_dir)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or time.monotonic() > given_up_at:
                    raise
                logger.warning("the disk is full; trying to save again in %d s", _DISK_PAUSE)
                time.sleep(_DISK_PAUSE)

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a checkpoint; one that is gone or damaged costs time, not the trial: it starts from the beginning.

        The numbers are the same either way.
        """
        try:
            super().restore(checkpoint_path)
        except (UserError, OSError, ValueError) as error:
            logger.warning("the trial starts again: %s", error)
            self.reset_config(self.config)
            self._iteration, self._time_total = 0, 0.0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial: model, optimizers, generators and history are all made anew."""
        self.cleanup()
        self._begin(new_config)
        return True

    def cleanup(self) -> None:
        """Give the memory back."""
        if hasattr(self, "trainer"):
            self.trainer.close()
            del self.trainer
        if torch.cuda.is_available():
            gc.collect()
            torch.cuda.empty_cache()
