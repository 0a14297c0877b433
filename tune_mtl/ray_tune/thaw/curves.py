"""A model of learning curves: a Gaussian process over config, epoch and trial.

Of trial i with config x, after the share s of a whole trial, a value (its logarithm, where it has one) is taken to be

    y = f(x) + g(x) (-log s) + a_i + b_i (-log s) + w_i(log s) + noise

``f`` is where configs end and ``g`` how steeply they come down, both smooth functions of the config around unknown
means; ``a`` and ``b`` are a trial's own luck, ``w`` its wandering (an Ornstein-Uhlenbeck process), and the noise jumps
from evaluation to evaluation. All of them are normal, so the posterior has a closed form. The sizes of these parts are
a :class:`Shape`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """How the learning curves of a problem behave. It says nothing of which configs are good.

    Attributes:
        level: Standard deviation of f, over the space; in units of y, as the others.
        length: Of f and g along a numeric dimension, as a share of its range.
        alike: Correlation of f and g between two values of a choice.
        slope: Standard deviation of g.
        luck, own_slope, wander: Standard deviations of a trial's a, b and w.
        noise: Standard deviation from evaluation to evaluation.
    """

    level: float = 0.7
    length: float = 0.45
    alike: float = 0.85
    slope: float = 0.15
    luck: float = 0.04
    own_slope: float = 0.02
    wander: float = 0.1
    noise: float = 0.05


_MEAN_LEVEL, _MEAN_SLOPE = 2.0, 0.3
"""Standard deviations of the means of f and g over the space."""
_WANDER_LENGTH = 0.7
"""How long a trial keeps a deviation, in units of log s."""
_JITTER = 1e-8


@dataclass(frozen=True)
class Points:
    """Places on curves.

    Attributes:
        shares: Of the ranges of numeric dimensions, ``[points, numeric]``.
        codes: Of choices, ``[points, choices]``.
        steep: -log s, ``[points]``.
        trial: Whose curve it is, ``[points]``.
    """

    shares: Floats
    codes: NDArray[np.int64]
    steep: Floats
    trial: NDArray[np.int64]

    def at(self, share: Floats) -> "Points":
        """Return the same trials elsewhere on their curves, after ``share`` of a whole trial."""
        return Points(self.shares, self.codes, -np.log(share), self.trial)


def covariance(shape: Shape, a: Points, b: Points) -> Floats:
    """Return the covariance of curves without noise, ``[points of a, points of b]``."""
    same = np.equal.outer(a.trial, b.trial)
    apart = np.abs(np.subtract.outer(a.steep, b.steep))
    return _covariance(shape, _likeness(shape, a, b), np.multiply.outer(a.steep, b.steep), same, apart)


def own_covariance(shape: Shape, a: Points, b: Points) -> Floats:
    """Return the covariance of every point of ``a`` with the one of ``b`` on the same curve, ``[points]``."""
    one = np.ones_like(a.steep)
    return _covariance(shape, one, a.steep * b.steep, one, np.abs(a.steep - b.steep))


def _covariance(shape: Shape, like: Floats, steep: Floats, same: NDArray[np.bool_] | Floats, apart: Floats) -> Floats:
    found: Floats = (
        _MEAN_LEVEL**2 + shape.level**2 * like
        + steep * (_MEAN_SLOPE**2 + shape.slope**2 * like + shape.own_slope**2 * same)
        + same * (shape.luck**2 + shape.wander**2 * np.exp(-apart / _WANDER_LENGTH))
    )  # fmt: skip
    return found


def _likeness(shape: Shape, a: Points, b: Points) -> Floats:
    """Return the correlation of configs: Matern 5/2 along numbers, a constant factor for each choice that differs."""
    apart = (a.shares[:, None, :] - b.shares[None, :, :]) / shape.length
    distance = np.sqrt(5.0 * (apart**2).sum(axis=2))
    differ = (a.codes[:, None, :] != b.codes[None, :, :]).sum(axis=2)
    found: Floats = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance) * shape.alike**differ
    return found


@dataclass(frozen=True)
class Ends:
    """What is expected of trials: the mean and standard deviation of where they end, and what one step would tell.

    ``moves`` is the standard deviation of the change of the expected end that the next step brings.
    """

    mean: Floats
    deviation: Floats
    moves: Floats


class Curves:
    """What observations say of curves.

    Raises:
        numpy.linalg.LinAlgError: if they cannot be explained, for example because values are not finite.
    """

    def __init__(self, shape: Shape, points: Points, values: Floats) -> None:
        self._shape, self._points = shape, points
        self._offset = float(values.min()) if len(values) else 0.0
        if not np.isfinite(values).all():
            raise np.linalg.LinAlgError("values are not finite")
        matrix = covariance(shape, points, points)
        matrix[np.diag_indices_from(matrix)] += shape.noise**2 + _JITTER
        self._root = np.linalg.cholesky(matrix)
        self._white = self._whiten(values - self._offset)

    def _whiten(self, right: Floats) -> Floats:
        found: Floats = solve_triangular(self._root, right, lower=True, check_finite=False)
        return found

    @property
    def evidence(self) -> float:
        """The logarithm of the marginal likelihood, but for a constant for each value."""
        return float(-0.5 * self._white @ self._white - np.log(np.diag(self._root)).sum())

    def expect(self, places: Points) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of curves (without noise) at ``places``."""
        cross = self._whiten(covariance(self._shape, self._points, places))
        left = own_covariance(self._shape, places, places) - (cross**2).sum(axis=0)
        return self._offset + cross.T @ self._white, np.sqrt(np.maximum(left, _JITTER))

    def ends(self, soon: Points) -> Ends:
        """Return where trials end, each of which is at a point of ``soon`` after its next step."""
        end = soon.at(np.ones_like(soon.steep))
        shape = self._shape
        at_end = self._whiten(covariance(shape, self._points, end))
        at_soon = self._whiten(covariance(shape, self._points, soon))
        left = own_covariance(shape, end, end) - (at_end**2).sum(axis=0)
        seen = own_covariance(shape, soon, soon) - (at_soon**2).sum(axis=0) + shape.noise**2
        shared = own_covariance(shape, end, soon) - (at_end * at_soon).sum(axis=0)
        return Ends(
            self._offset + at_end.T @ self._white,
            np.sqrt(np.maximum(left, _JITTER)),
            np.abs(shared) / np.sqrt(np.maximum(seen, _JITTER)),
        )
