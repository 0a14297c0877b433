"""The keys that a trial's Ray config and its results have besides those of the trial config and its metrics."""

from collections.abc import Mapping
from typing import Any

TRIAL = "trial"
"""In a config: the search's own number of the trial; it is no part of the config proper."""

REPLICATE = "replicate"
"""In a config: the repetition of the tuning that the trial belongs to, likewise: 0, 1, ..."""

CONTINUES = "continues"
"""In a config: the ``run`` of which this one is a longer version, and the ``folder`` with its checkpoints."""

CONTINUED = "continued"
"""In a result: the run whose epochs were taken over."""

BEST, SMOOTHED = "best", "smoothed"
"""In a result: the objective's best value so far, and the mean of its last ``SMOOTHED_OVER`` values."""

SMOOTHED_OVER = 3

OUTCOME = "outcome"
"""In a result: an :class:`tune_mtl.core.outcome.Outcome`."""

REASON = "reason"
"""In a trial's last result: why it ended, where there is something to say."""

DIAGNOSIS = "diagnosis"
"""In a result: the cosines between tasks' gradients that were seen after its epoch, where they were looked at."""


def judged(judge: str, metric: str) -> str:
    """Return under which key of a result the value is by which ``judge``, as settings name it, judges an epoch."""
    return {"last": metric, "best": BEST, "smoothed": SMOOTHED}[judge]


def proper(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trial's config proper: what Ray was given, without the keys that say which trial it is."""
    return {key: value for key, value in config.items() if key not in (TRIAL, REPLICATE, CONTINUES)}
