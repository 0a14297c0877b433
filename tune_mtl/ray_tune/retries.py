"""Whose fault a failure is: a trial is not blamed for a worker or a node that was lost."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.exceptions import RayActorError
from ray.tune import Callback
from ray.tune.experiment import Trial

from trainables.keys import TRIAL

logger = logging.getLogger(__name__)

RETRIES = 2
"""Of a trial whose own code raises."""
LOST_WORKERS = 20
"""That a trial may survive; one whose worker dies more often kills it itself."""


class Retries(Callback):
    """Gives a trial back the failures that were none of its own: it continues from its checkpoint elsewhere."""

    def __init__(self) -> None:
        self._lost: Counter[str] = Counter()

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:  # noqa: ARG002
        """A trial is to be retried."""
        name = trial.config[TRIAL]
        if not worker_was_lost(trial) or self._lost[name] >= LOST_WORKERS:
            logger.warning("trial %s failed and is tried again", name)
            return
        self._lost[name] += 1
        logger.warning("trial %s lost its worker and continues elsewhere", name)
        trial.run_metadata.num_failures = max(0, trial.run_metadata.num_failures - 1)


def worker_was_lost(trial: Trial) -> bool:
    """Whether the process that ran ``trial`` died, rather than raised."""
    file = trial.pickled_error_file
    if file is None or not Path(file).exists():
        return False
    return isinstance(cloudpickle.loads(Path(file).read_bytes()), RayActorError)
