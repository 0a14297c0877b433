"""`MTLTrainable`: the engine's trainer as Ray Tune wants it."""

import errno
import gc
import logging
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from ray.tune import Trainable

from trainables.compat import SHOULD_CHECKPOINT, forget_iterations
from trainables.keys import BEST, CONTINUED, CONTINUES, DIAGNOSIS, OUTCOME, REASON, SMOOTHED, SMOOTHED_OVER, proper
from trainables.sharing import SharedProblem
from tune_mtl.core.errors import UserError
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.core.outcome import Outcome
from tune_mtl.problems.registry import load_problem
from tune_mtl.training import checkpoint
from tune_mtl.training.beginning import continue_run
from tune_mtl.training.config import resolve
from tune_mtl.training.memory import explained, is_out_of_memory
from tune_mtl.training.references.find import judged
from tune_mtl.training.saving import SavingPace
from tune_mtl.training.trainer import Diverged, Record, Trainer
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
        self._untold: list[Record] = []
        self._continued: str | None = None
        if CONTINUES in config:
            self._take_over(config, **config[CONTINUES])

    def _take_over(self, config: dict[str, Any], run: str, folder: str) -> None:
        """Go on where ``run``, a shorter one of this config, has ended; its evaluations are reported as this run's.

        What it left may be gone or damaged: then all epochs are trained, with the same numbers.
        """
        try:
            left = max(Path(folder).glob(f"checkpoint_*/{CHECKPOINT}"), default=Path(folder) / CHECKPOINT)
            continue_run(self.trainer, checkpoint.load(left))
        except (UserError, OSError, ValueError, KeyError, RuntimeError) as error:
            logger.warning("nothing of %s is taken over, all epochs are trained: %s", run, error)
            self.trainer.close()
            self._begin({key: value for key, value in config.items() if key != CONTINUES})
        else:
            self._untold, self._continued = list(self.trainer.history), run

    def step(self) -> dict[str, Any]:
        """Train to the next evaluation; those that were taken over come first."""
        told_again = bool(self._untold)
        try:
            record = self._untold.pop(0) if told_again else self.trainer.run_period()
        except Diverged as reason:
            return self._over(Outcome.DIVERGED, str(reason))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return self._over(Outcome.FAILED, explained(self.trainer, error))
        finished = self.trainer.finished and not self._untold
        return {
            **({} if told_again and not finished else self.trainer.summary()),  # which is of all that was trained
            **record,
            **self._seen(int(record["epoch"])),
            **self._standing(record),
            **(self.trainer.test_best() if finished and self._test else {}),
            **({} if self._continued is None else {CONTINUED: self._continued}),
            OUTCOME: str(Outcome.COMPLETED if finished else Outcome.RUNNING),
            "done": finished,
            SHOULD_CHECKPOINT: self._pace.due and not self._untold,
        }

    def _standing(self, record: Record) -> dict[str, float | None]:
        """Return what the objective was like up to an evaluation: the values by which others may judge it."""
        objective = self.trainer.config.objective
        values = [one[objective.metric] for one in self.trainer.history if one["epoch"] <= record["epoch"]]
        best = None
        for value in values:
            best = value if objective.better(value, best) else best
        return {BEST: best, SMOOTHED: statistics.fmean(values[-SMOOTHED_OVER:])}

    def _seen(self, epoch: int) -> dict[str, Any]:
        """Return what was seen of the tasks' gradients after ``epoch``."""
        diagnosis = self.trainer.diagnosis
        return {DIAGNOSIS: diagnosis.told([epoch])} if diagnosis is not None and epoch in diagnosis.cosines else {}

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
            told = {"untold": len(self._untold), CONTINUED: self._continued}
            checkpoint.save(folder / CHECKPOINT, {**self.trainer.state_dict(), **told})

    def load_checkpoint(self, checkpoint_dir: str) -> None:  # type: ignore[override]
        """Go on exactly where the checkpoint was taken."""
        state = checkpoint.load(Path(checkpoint_dir) / CHECKPOINT)
        self.trainer.load_state_dict(state)
        told = len(self.trainer.history) - state.get("untold", 0)
        self._untold, self._continued = self.trainer.history[told:], state.get(CONTINUED)

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
