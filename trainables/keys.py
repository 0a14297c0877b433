"""The keys that a trial's Ray config and its results have besides those of the trial config and its metrics."""

from collections.abc import Mapping
from typing import Any

TRIAL = "trial"
"""In a config: the search's own number of the trial; it is no part of the config proper."""

REPLICATE = "replicate"
"""In a config: the repetition of the tuning that the trial belongs to, likewise: 0, 1, ..."""

OUTCOME = "outcome"
"""In a result: an :class:`tune_mtl.core.outcome.Outcome`."""

REASON = "reason"
"""In a trial's last result: why it ended, where there is something to say."""


def proper(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trial's config proper: what Ray was given, without the keys that say which trial it is."""
    return {key: value for key, value in config.items() if key not in (TRIAL, REPLICATE)}
