"""Values of an objective as levels that can be modelled: less is better, and a unit means about the same everywhere."""

from collections.abc import Sequence

import numpy as np

from tune_mtl.ray_tune.thaw.curves import Floats

WORST = 2.5
"""A level is at most so far above the best one: what is hopeless need not be explained precisely."""
_USUAL_LEVEL = 0.7
"""The median distance from the best, in levels, where values have no logarithm."""


def levels(values: Sequence[float], mode: str, diverged: Sequence[bool]) -> Floats:
    """Return values as levels.

    Losses above zero become their logarithms, so that levels differ by ratios. Others are measured by their median
    distance from the best. What has diverged is at the worst level.

    Raises:
        numpy.linalg.LinAlgError: if there is no finite value, or where they have no logarithm and do not differ.
    """
    found = np.asarray(values, dtype=float)
    sound = np.isfinite(found) & ~np.asarray(diverged, dtype=bool)
    if not sound.any():
        raise np.linalg.LinAlgError("no finite values")
    if mode == "min" and (found[sound] > 0).all():
        found = np.log(np.where(sound, found, 1.0))
    else:
        found = found if mode == "min" else -found
        spread = float(np.median(found[sound] - found[sound].min()))
        if spread == 0.0:
            spread = float(np.ptp(found[sound]))
        if not spread > 0.0:
            raise np.linalg.LinAlgError("all values are the same")
        found = found / spread * _USUAL_LEVEL
    best = float(found[sound].min())
    return np.minimum(np.where(sound, found, np.inf), best + WORST)
