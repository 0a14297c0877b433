"""The baselines written out in a few lines each, on flat numpy vectors, sharing nothing with the library.

The network is linear all the way: trunk ``z = x W`` (rows of x are samples), head ``p_k = z V_k``, and task k's loss
the mean of ``(p_k - y_k)^2``, so every gradient is a formula. SGD only: an optimizer's memory is tested elsewhere.
"""

import itertools

import numpy as np


def losses_and_gradients(trunk, heads, x, targets):
    """Per task: loss, gradient on the trunk, on its head, and on the trunk's output."""
    found = []
    z = x @ trunk
    for head, y in zip(heads, targets, strict=True):
        residual = z @ head - y
        slope = 2 * residual / residual.size
        on_output = slope @ head.T
        found.append((np.mean(residual**2), x.T @ on_output, z.T @ slope, on_output))
    return found


def pcgrad(gradients, orders):
    """Each gradient, projected off the original ones it conflicts with, in the given order; then their sum."""
    total = np.zeros_like(gradients[0])
    for index, order in enumerate(orders):
        projected = gradients[index].copy()
        for other in order:
            if other != index:
                inner = np.sum(projected * gradients[other])
                if inner < 0:
                    projected -= inner / np.sum(gradients[other] ** 2) * gradients[other]
        total += projected
    return total


def min_norm(gramian):
    """The simplex point of least ``a'Ga``: of all supports, the one whose stationary point meets every condition."""
    count = len(gramian)
    for support in (list(s) for size in range(1, count + 1) for s in itertools.combinations(range(count), size)):
        inside = np.linalg.lstsq(gramian[np.ix_(support, support)], np.ones(len(support)), rcond=None)[0]
        a = np.zeros(count)
        a[support] = inside / inside.sum()
        if (a >= -1e-12).all() and (gramian @ a >= a @ gramian @ a * (1 - 1e-9) - 1e-15).all():
            return a
    raise AssertionError("no support is optimal")


def relative_gap(gramian, weights):
    """How far ``weights`` are from optimal: ``(w'Gw - min(Gw)) / w'Gw``."""
    value = weights @ gramian @ weights
    return (value - np.min(gramian @ weights)) / value


class GradNormOracle:
    """The published recursion, with SGD for the network and for the weights."""

    def __init__(self, count, lr, alpha):
        self.weights, self.first, self.lr, self.alpha = np.ones(count), None, lr, alpha

    def step(self, trunk, heads, x, targets):
        found = losses_and_gradients(trunk, heads, x, targets)
        losses = np.array([loss for loss, *_ in found])
        self.first = losses if self.first is None else self.first
        norms = np.array([np.linalg.norm(gradient) for _, gradient, _, _ in found])
        scaled = np.abs(self.weights) * norms
        rates = losses / self.first
        target = scaled.mean() * (rates / rates.mean()) ** self.alpha
        used = self.weights
        self.weights = self.weights - self.lr * np.sign(scaled - target) * np.sign(self.weights) * norms
        self.weights = self.weights * len(heads) / self.weights.sum()
        new_trunk = trunk - self.lr * sum(w * gradient for w, (_, gradient, _, _) in zip(used, found, strict=True))
        new_heads = [h - self.lr * w * own for h, w, (_, _, own, _) in zip(heads, used, found, strict=True)]
        return new_trunk, new_heads
