"""The shape of learning curves, learnt from all trials of a search: what tunings may tell each other.

A shape says how far configs differ, how smooth that is, how much luck and noise there is. It says nothing of where the
best config is: the observations of tunings meet in their likelihoods alone.
"""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from scipy.optimize import minimize

from tune_mtl.ray_tune.thaw.curves import Curves, Floats, Points, Shape

USUAL = Shape()
"""The shape to begin with."""
_SPREAD = Shape(level=0.5, length=0.35, alike=0.2, slope=0.7, luck=0.7, own_slope=0.7, wander=0.7, noise=0.7)
"""Standard deviations of the logarithms of a shape around the usual ones, before anything was seen."""
_MOST_ALIKE = 0.98
_ITERATIONS = 12


def learn_shape(tunings: Sequence[tuple[Points, Floats]]) -> Shape:
    """Return the most probable shape of what was observed in each of ``tunings``, given what is usual.

    Raises:
        numpy.linalg.LinAlgError: if no shape explains it.
    """
    usual, spread = np.log(astuple(USUAL)), np.array(astuple(_SPREAD))

    def implausibility(logs: Floats) -> float:
        try:
            evidence = sum(Curves(_shape(logs), points, values).evidence for points, values in tunings)
        except np.linalg.LinAlgError:
            return 1e9
        return 0.5 * float((((logs - usual) / spread) ** 2).sum()) - evidence

    bounds = list(zip(usual - 3 * spread, usual + 3 * spread, strict=True))
    found = minimize(implausibility, usual, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS})
    if not found.fun < 1e9:
        raise np.linalg.LinAlgError("no shape explains the values")
    return _shape(found.x)


def _shape(logs: Floats) -> Shape:
    level, length, alike, *others = (float(value) for value in np.exp(logs))
    return Shape(level, length, min(alike, _MOST_ALIKE), *others)
