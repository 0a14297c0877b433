"""What paused trials keep on disk: a checkpoint, as long as they promise something, and always their best weights."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from ray.tune.experiment import Trial

from trainables.keys import REPLICATE, TRIAL
from tune_mtl.core.errors import UserError
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.core.objective import Objective
from tune_mtl.ray_tune.thaw.conductor import KEPT
from tune_mtl.training import checkpoint
from tune_mtl.training.trial import CHECKPOINT


class PausedCheckpoints:
    """Keeps the disk bounded while trials pause."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._paused: list[str] = []

    def drop_hopeless(self, paused: Sequence[Trial], needed: Collection[str]) -> None:
        """Drop the checkpoints of all but the best paused trials of each tuning, and of those ``needed`` soon."""
        found = [trial.config[TRIAL] for trial in paused]
        if found == self._paused:
            return
        self._paused = found
        tunings: dict[tuple[str, int], list[Trial]] = defaultdict(list)
        for trial in paused:
            tunings[trial.config["strategy"], trial.config.get(REPLICATE, 0)].append(trial)
        for trials in tunings.values():
            for trial in sorted(trials, key=self._rank)[KEPT:]:
                if trial.config[TRIAL] not in needed:
                    drop(trial)

    def _rank(self, trial: Trial) -> tuple[bool, float]:
        best = trial.last_result.get("best")
        return best is None, 0.0 if best is None else best if self._objective.mode == "min" else -best


def drop(trial: Trial) -> None:
    """Drop a trial's checkpoint but for its best weights: thawed, it starts again."""
    if trial.checkpoint is not None:
        (Path(trial.checkpoint.path) / CHECKPOINT).unlink(missing_ok=True)


def has_lost_weights(trial: Trial) -> bool:
    """Return whether the best weights of a paused trial are gone, or damaged."""
    if trial.last_result.get("best") is None:
        return False
    if trial.checkpoint is None:
        return True
    try:
        checkpoint.load(Path(trial.checkpoint.path) / BEST_WEIGHTS)
    except (UserError, OSError):
        return True
    return False
