"""Which loss left the finite numbers first, and when: known exactly, at no cost while all is well."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tune_mtl.core.model import MultiTaskModel
from tune_mtl.training.path import PathLength

_NAMED = 3


class Recent:
    """The losses since the device was last waited for, as they are: nothing is copied, computed or waited for.

    Args:
        path: Of the trunk, whose steps show when its weights were lost; None where it has none.
    """

    def __init__(self, path: PathLength | None) -> None:
        self._path = path
        self._kept: list[_Seen] = []
        if path is not None:
            path.steps = []

    def add(self, epoch: int, mini_batch: int, losses: Mapping[str, Tensor]) -> None:
        """Keep the detached losses of a mini-batch, both counted from 1, in the order in which they were computed."""
        steps: list[Tensor] = []
        if self._path is not None and self._path.steps is not None:
            steps, self._path.steps = self._path.steps, []
        self._kept.append(_Seen(epoch, mini_batch, losses, steps))

    def clear(self) -> None:
        """Forget what was finite; the last steps are not known to be."""
        del self._kept[:-1]

    def first_bad(self, groups: Sequence[Sequence[str]]) -> str | None:
        """Return what left the finite numbers first, in words; None if it happened before this was watched.

        Args:
            groups: The tasks that step together: which step came before which loss.
        """
        for seen in self._kept:
            lost = [index for index, step in enumerate(seen.steps) if not bool(torch.isfinite(step))]
            before = list(seen.losses)[: seen.computed(lost[0], groups) if lost else None]
            bad = [task for task in before if not bool(torch.isfinite(seen.losses[task]))]
            place = f"epoch {seen.epoch}, mini-batch {seen.mini_batch}: first to be not finite was"
            if bad:
                return f"{place} {_of(bad, seen.losses)}"
            if lost:
                return f"{place} a step of the trunk's weights, while the losses before it were finite"
        return None


class _Seen(NamedTuple):
    """One mini-batch: its losses, and the lengths of the trunk's steps."""

    epoch: int
    mini_batch: int
    losses: Mapping[str, Tensor]
    steps: Sequence[Tensor]

    def computed(self, step: int, groups: Sequence[Sequence[str]]) -> int:
        """Return how many of the losses were computed before the step of that index was taken."""
        if len(self.steps) == len(self.losses):
            return step + 1
        if len(self.steps) == len(groups):
            return sum(sum(task in self.losses for task in group) for group in groups[: step + 1])
        return len(self.losses)


def lost_weights(model: MultiTaskModel) -> str | None:
    """Return which weights are no finite numbers, in words; None if all are."""
    parts: dict[str, nn.Module] = {"the trunk's weights": model.trunk}
    parts |= {f"the weights of the head of task '{task}'": head for task, head in model.heads.items()}
    lost = [name for name, part in parts.items() if not all(bool(torch.isfinite(w).all()) for w in part.parameters())]
    return lost[0] if lost else None


def losses_of(tasks: Sequence[str], split: str = "") -> str:
    """Return whose losses they are, in words."""
    named = ", ".join(f"'{task}'" for task in tasks[:_NAMED])
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"the {split}loss{'es' if len(tasks) > 1 else ''} of task{'s' if len(tasks) > 1 else ''} {named}{more}"


def _of(tasks: Sequence[str], losses: Mapping[str, Tensor]) -> str:
    return f"{losses_of(tasks)} ({losses[tasks[0]].item()})"
