"""`MTLTrainable`: the engine's trainer as Ray Tune wants it."""

import errno
import gc
import logging
import time
from pathlib import Path
from typing import Any

import torch
from ray.tune import Trainable

from trainables.compat import SHOULD_CHECKPOINT, forget_iterations
from trainables.keys import OUTCOME, REASON, proper
from trainables.sharing import SharedProblem
from tune_mtl.core.errors import UserError
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.core.outcome import Outcome
from tune_mtl.problems.registry import load_problem
from tune_mtl.training import checkpoint
from tune_mtl.training.config import resolve
from tune_mtl.training.references.find import judged
from tune_mtl.training.saving import SavingPace
from tune_mtl.training.trainer import Diverged, Trainer
from tune_mtl.training.trial import CHECKPOINT, best_content

logger = logging.getLogger(__name__)

_DISK_PATIENCE, _DISK_PAUSE = 600.0, 2.0
"""Seconds that a trial waits for room on a full disk, and between two tries; the search itself gives up before."""


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
        self._pace = SavingPace(first_at_once=False)

    def step(self) -> dict[str, Any]:
        """Train to the next evaluation."""
        try:
            record = self.trainer.run_period()
        except Diverged as reason:
            return self._over(Outcome.DIVERGED, str(reason))
        except (torch.OutOfMemoryError, MemoryError) as error:
            return self._over(Outcome.FAILED, f"out of memory: {error}")
        finished = self.trainer.finished
        best = self.trainer.best
        objective = self.trainer.config.objective.metric
        return {
            **record,
            **self.trainer.summary(),
            **(self.trainer.test_best() if finished and self._test else {}),
            "best": best.record[objective] if best is not None else None,
            OUTCOME: str(Outcome.COMPLETED if finished else Outcome.RUNNING),
            "done": finished,
            SHOULD_CHECKPOINT: self._pace.due,
        }

    def _over(self, outcome: Outcome, reason: str) -> dict[str, Any]:
        """Return the last result of a trial that need not be tried again: the same config would end the same way."""
        spent = {"updates": self.trainer.updates, "seconds": self.trainer.seconds}
        return {OUTCOME: str(outcome), REASON: reason, "epoch": self.trainer.epoch, **spent, "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the best weights, and everything."""
        with self._pace.saving():
            folder = Path(checkpoint_dir)
            if self.trainer.best is not None:
                checkpoint.save(folder / BEST_WEIGHTS, best_content(self.trainer))
            checkpoint.save(folder / CHECKPOINT, self.trainer.state_dict())

    def load_checkpoint(self, checkpoint_dir: str) -> None:  # type: ignore[override]
        """Go on exactly where the checkpoint was taken."""
        self.trainer.load_state_dict(checkpoint.load(Path(checkpoint_dir) / CHECKPOINT))

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Save a checkpoint in the search's storage; wait where the disk is full."""
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
            forget_iterations(self)

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
