"""Groups that are not drawn: tasks that are alike, or unlike, come together."""

from collections.abc import Sequence
from numbers import Integral
from typing import Literal, TypeAlias

import numpy as np
import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.seeds import generator
from tune_mtl.strategies.grouping import Grouping, make_groups
from tune_mtl.strategies.info import StrategyInfo

GroupsBy: TypeAlias = Literal["random", "affinity", "conflict"]
"""Who come into one group: whoever was drawn, tasks whose gradients agree, or tasks whose gradients disagree."""

_STARTS = 20
"""Draws from which exchanges lead to groups; the best result counts."""
_GAIN = 1e-12
"""What an exchange must bring: rounding errors bring less."""


def alike_groups(
    tasks: Sequence[str], affinity: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", groups: int, seed: int
) -> list[list[str]]:
    """Spread ``tasks`` over groups equally, so that the affinities of pairs within groups sum to as much as possible.

    From each of several draws, the first of them that of :func:`make_groups`, the best exchange of two tasks (or move,
    where groups differ in size) is made until none brings anything. No exchange can better the result; the best of all
    divisions is more than anybody can search with many tasks.

    Args:
        tasks: Their names.
        affinity: Symmetric ``[N, N]``; NaN, and the diagonal, count as 0.
        groups: How many.
        seed: Of the draws.
    """
    pairs = np.nan_to_num(np.asarray(affinity, dtype=np.float64))
    pairs = (pairs + pairs.T) / 2
    np.fill_diagonal(pairs, 0.0)
    draws = generator(seed, "groups")
    best, most = np.zeros(len(tasks), dtype=np.int64), -np.inf
    for _ in range(_STARTS):
        labels = np.empty(len(tasks), dtype=np.int64)
        labels[torch.randperm(len(tasks), generator=draws).numpy()] = np.arange(len(tasks)) % groups
        labels = _exchanged(pairs, labels, groups)
        total = float(pairs[labels[:, None] == labels].sum())
        if total > most + _GAIN:
            best, most = labels, total
    chosen = [[task for task, label in zip(tasks, best, strict=True) if label == group] for group in range(groups)]
    return make_groups(tasks, chosen, seed)


def _exchanged(
    pairs: "np.ndarray[tuple[int, int], np.dtype[np.float64]]",
    labels: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    groups: int,
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return ``labels`` after the best exchanges and moves, until none brings anything; sizes stay as they are."""
    labels = labels.copy()
    while True:
        with_group = pairs @ np.eye(groups)[labels]
        leaving = with_group - with_group[np.arange(len(labels)), labels][:, None]
        apart = labels[:, None] != labels
        swaps = np.where(apart, leaving[:, labels] + leaving[:, labels].T - 2 * pairs, 0.0)
        sizes = np.bincount(labels, minlength=groups)
        moves = np.where(sizes[labels][:, None] == sizes + 1, leaving, -np.inf)
        if max(swaps.max(), moves.max()) <= _GAIN:
            return labels
        if swaps.max() >= moves.max():
            one, other = np.unravel_index(swaps.argmax(), swaps.shape)
            labels[one], labels[other] = labels[other], labels[one]
        else:
            one, group = np.unravel_index(moves.argmax(), moves.shape)
            labels[one] = group


def check_groups_by(info: StrategyInfo, groups: Grouping | None, by: GroupsBy | None) -> None:
    """Refuse a way to form groups where there are none to form.

    Raises:
        UserError: for a strategy without groups, or groups that are listed already.
    """
    if by is None:
        return
    if not info.has_groups:
        raise UserError(
            f"groups_by={by} cannot be used with strategy '{info.name}', which has no groups: drop groups_by."
        )
    if by != "random" and not isinstance(groups, Integral | None):
        raise UserError(f"groups_by={by} forms the groups, but groups={groups} lists them: drop one of them.")
