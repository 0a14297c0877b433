"""Selective task group updates: groups formed, while training, by how tasks' steps help each other."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from tune_mtl.core.options import Options, ShareOfRun, Tunable
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo


class SelectiveOptions(Options):
    """Selective task group updates: ``rate`` is that of the affinities' exponential average.

    The first regrouping comes after ``warmup`` mini-batches, the others follow every ``every`` mini-batches.
    """

    rate: Annotated[float, Field(gt=0, le=1), Tunable(1e-4, 1e-1, log=True)] = 1e-3
    warmup: Annotated[int, Field(ge=1), ShareOfRun(0.1), Tunable(0.02, 0.5, log=True)] = 1000
    every: Annotated[int, Field(ge=1), Tunable(values=(10, 50, 200))] = 50


class SelectiveGroups(Strategy[SelectiveOptions]):
    """Groups step in random order through one optimizer, as in IUS, and are redrawn by affinity.

    After the step of group l, for each of its tasks i and every task t:
    A_it <- (1 - rate) A_it + rate (1 - L_t(after) / L_t(before)). After a warm-up with single tasks, affinity
    propagation on the symmetrised A_it / |A_tt| forms the groups anew, every so many mini-batches.
    """

    info = StrategyInfo(
        name="selective",
        title="Selective task group updates",
        rule="one step per group in random order through one optimizer, tasks regrouped by how they help each other",
        family="later work",
        options=SelectiveOptions,
        forwards="G + 1",
        backwards="G",
        updates="G",
        memory="N x N affinities",
        waits="1, when groups are formed anew",
        fp16=True,
        reference="Jeong and Yoon 2025, Selective Task Group Updates for Multi-Task Optimization",
    )

    def setup(self) -> None:
        """Start with single tasks and affinities of zero: the strategy finds its own groups."""
        self.groups = [[task] for task in self.tasks]
        count, device = len(self.tasks), next(self.model.parameters()).device
        self.affinities = torch.zeros(count, count, dtype=torch.float64, device=device)

    def learn(self, batch: Labelled) -> Losses:
        """Take one update per group; the losses after a group's step are those before the next one's."""
        order = torch.randperm(len(self.groups), generator=self.recipe.generator).tolist()
        labelled = [[task for task in self.groups[index] if task in batch.rows] for index in order]
        labelled = [group for group in labelled if group]
        seen: Losses = {}
        losses = self.losses(self.tasks, batch)
        for position, group in enumerate(labelled):
            seen |= {task: losses[task].detach() for task in group}
            total = self.total({task: losses[task] for task in group})
            if not total.requires_grad:
                continue
            self.descend(self.optimizers[0], total)
            if len(self.tasks) > 1:
                last = position + 1 == len(labelled)
                after = self.look(batch) if last else self.losses(self.tasks, batch)
                self._observe(group, losses, after)
                losses = after
        count = self.mini_batches + 1
        if count >= self.options.warmup and (count - self.options.warmup) % self.options.every == 0:
            self._regroup()
        return {task: seen[task] for task in self.tasks if task in seen}

    @torch.no_grad()
    def _observe(self, group: Sequence[str], before: Losses, after: Losses) -> None:
        names = list(self.tasks)
        columns = self.positions(after)
        gains = torch.stack([1 - after[task].detach() / before[task].detach() for task in after]).double()
        for task in group:
            row = self.affinities[names.index(task)]
            row[columns] = torch.where(
                gains.isfinite(), torch.lerp(row[columns], gains, self.options.rate), row[columns]
            )

    def _regroup(self) -> None:
        labels = clusters(self.affinities.cpu().numpy())
        if labels is not None:
            names = list(self.tasks)
            self.groups = [
                [name for name, own in zip(names, labels, strict=True) if own == label]
                for label in dict.fromkeys(labels)
            ]

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the affinities; the groups are part of it already."""
        return super().state_dict() | {"affinities": self.affinities}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``, with its groups."""
        self.groups = [list(group) for group in state["groups"]]
        super().load_state_dict(state)
        self.affinities.copy_(state["affinities"])


def clusters(affinities: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> list[int] | None:
    """Return the group of each task; None where the affinities say nothing (not finite, or no clear groups)."""
    from sklearn.cluster import AffinityPropagation  # seconds of loading that only this strategy needs
    from sklearn.exceptions import ConvergenceWarning

    own = np.abs(np.diag(affinities))
    if len(own) < 2 or not np.isfinite(affinities).all() or not (own > 0).all():
        return None
    normalised = affinities / own[None, :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        propagation = AffinityPropagation(affinity="precomputed", random_state=0)
        labels = propagation.fit_predict((normalised + normalised.T) / 2)
    return None if (labels < 0).any() else [int(label) for label in labels]
