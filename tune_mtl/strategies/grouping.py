"""Task grouping: the paper's random super-tasks."""

from collections import Counter
from collections.abc import Sequence
from numbers import Integral
from typing import TypeAlias

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.seeds import generator
from tune_mtl.strategies.group_draws import count_groupings

Grouping: TypeAlias = int | Sequence[Sequence[str]]
"""How tasks are grouped: a number of groups, drawn at random, or the groups themselves."""


def make_groups(tasks: Sequence[str], groups: Grouping, seed: int) -> list[list[str]]:
    """Spread ``tasks`` over groups: equally and at random for a count, as told for explicit lists.

    Sizes differ by at most one. Within a group tasks keep their order, and groups are ordered by their first task, so
    ``groups=len(tasks)`` is the task order for every seed and ``groups=1`` is one group in task order.

    Raises:
        UserError: for a count outside 1..N, or lists that do not hold every task exactly once.
    """
    position = {task: index for index, task in enumerate(tasks)}
    if isinstance(groups, Integral):
        groups = int(groups)
        if not 1 <= groups <= len(tasks):
            raise UserError(f"groups={groups} is impossible with {len(tasks)} tasks: choose 1 to {len(tasks)}.")
        shuffled = torch.randperm(len(tasks), generator=generator(seed, "groups")).tolist()
        chosen = [[tasks[index] for index in shuffled[start::groups]] for start in range(groups)]
    else:
        if not isinstance(groups, list | tuple) or not all(isinstance(group, list | tuple) for group in groups):
            raise UserError(f"groups={groups!r} must be a whole number, or lists of task names.")
        chosen = [list(group) for group in groups]
        if Counter(str(task) for group in chosen for task in group) != Counter(tasks) or not all(chosen):
            raise UserError(f"groups={chosen} must name every task exactly once: {', '.join(tasks)}.")
    ordered = [sorted(group, key=position.__getitem__) for group in chosen]
    return sorted(ordered, key=lambda group: position[group[0]])


def distinct_draws(tasks: Sequence[str], groups: int, first: int, at_most: int) -> list[int]:
    """Return the first seeds from ``first`` on that each draw another grouping, ``at_most`` or as many as there are.

    Groupings are equally likely, so these are a simple random sample of them, without replacement.
    """
    wanted = min(at_most, count_groupings(len(tasks), groups))
    found: dict[str, int] = {}
    seed = first
    while len(found) < wanted:
        found.setdefault(str(make_groups(tasks, groups, seed)), seed)
        seed += 1
    return list(found.values())
