"""GO4Align: tasks whose losses behave alike share a weight."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from tune_mtl.core.options import Options, Tunable, TunableCount
from tune_mtl.strategies.base import Labelled, Losses, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.labels import times

_LEAST = 1e-8
"""What a loss at least counts as: it is divided by."""


class GroupAlignmentOptions(Options):
    """GO4Align: tasks form at most ``clusters`` clusters; ``rate`` is that of the tasks' shares."""

    clusters: Annotated[int, Field(ge=1), TunableCount(2)] = 2
    rate: Annotated[float, Field(ge=0), Tunable(1e-5, 1.0, log=True)] = 1e-4


class GroupAlignment(Strategy[GroupAlignmentOptions]):
    """GO4Align: w <- w - lr * m(sum_k a_k c_k g_k(w)), heads included.

    On the simplex, q_k <- q_k exp(-rate L_k) / sum_j q_j exp(-rate L_j), q_k = 1/N at first. The numbers
    v_k = q_k sum_j L_j / L_k are put into clusters with the least sum of squared distances to their means, and a_k is
    the mean of k's cluster. Where labels are missing, the n tasks with labels share among themselves what they had
    together, and q counts in v as if it were theirs alone; all others keep theirs. A loss counts as 1e-8 at least; one
    below 0 leaves weights that are not finite: the trial diverges.
    """

    info = StrategyInfo(
        name="go4align",
        title="GO4Align",
        rule="one step on a weighted sum: weights that bring losses to one scale, averaged over clusters of like tasks",
        family="loss weights",
        options=GroupAlignmentOptions,
        weighs_otherwise="it brings losses to one scale, and multiplies by weights then",
        fp16=True,
        reference="Shen et al. 2024, GO4Align: Group Optimization for Multi-Task Alignment",
    )

    def setup(self) -> None:
        """Start with equal shares."""
        device = next(self.model.parameters()).device
        self._log_shares = torch.zeros(len(self.tasks), dtype=torch.float64, device=device)

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        losses = self.losses(self.tasks, batch)
        chosen = self.taking_part(losses)
        if chosen:
            seen = torch.stack([loss.detach() for loss in chosen.values()]).double()
            weights = cluster_means(self._scales(self.positions(chosen), seen), self.options.clusters)
            self.descend(self.optimizers[0], self.total(times(weights, chosen)))
        return {task: loss.detach() for task, loss in losses.items()}

    def _scales(self, at: Tensor, losses: Tensor) -> Tensor:
        """Update the shares of the tasks ``at`` these positions, and return their v."""
        every = len(at) == len(self.tasks)
        before = self._log_shares if every else self._log_shares[at]
        after = before - self.options.rate * losses
        after = after + before.logsumexp(dim=0) - after.logsumexp(dim=0)
        if every:
            self._log_shares.copy_(after)
        else:
            self._log_shares[at] = after
        counted = torch.where(losses < 0, torch.nan, losses.clamp(min=_LEAST))
        return torch.softmax(after, dim=0) * counted.sum() / counted

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the tasks' shares."""
        return super().state_dict() | {"log_shares": self._log_shares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._log_shares.copy_(state["log_shares"])


def cluster_means(values: Tensor, clusters: int) -> Tensor:
    """Return, for each of ``values``, the mean of its cluster: exact k-means with at most so many clusters.

    On a line the best clusters are runs of the sorted values, and the best k of the first j values are the best k - 1
    of the first i and one more run. Everything stays on the device of ``values``, and nothing waits for it.
    """
    count = len(values)
    clusters = min(clusters, count)
    order = torch.argsort(values)
    line = values[order]
    starts = _starts(_scatter_of_runs(line), clusters)
    places, *_ = _runs(count, line.dtype, line.device)
    own = (places[:, None] >= starts).sum(dim=1, keepdim=True) - 1
    member = (own == places[:clusters]).to(values.dtype)
    means = (member.T @ line) / member.sum(dim=0)
    return torch.empty_like(values).index_copy_(0, order, member @ means)


def _scatter_of_runs(line: Tensor) -> Tensor:
    """Return the sum of squared distances to their mean of the sorted values i to j; infinite where i is behind j."""
    _, before, lengths, behind = _runs(len(line), line.dtype, line.device)
    centred = line - line.mean()
    sums, squares = (torch.nn.functional.pad(before @ part, (1, 0)) for part in (centred, centred.square()))
    total, square = sums[None, 1:] - sums[:-1, None], squares[None, 1:] - squares[:-1, None]
    scatter = (square - total.square() / lengths).clamp(min=0.0)
    return scatter.masked_fill(behind, torch.inf)


@lru_cache(maxsize=16)
def _runs(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return all places, what sums the first values, the lengths of the runs i to j, and where i is behind j."""
    places = torch.arange(count, device=device)
    before = (places[:, None] >= places).to(dtype)  # no cumsum: on CUDA it is not deterministic
    lengths = places[None, :] + 1 - places[:, None]
    return places, before, lengths.clamp(min=1), lengths < 1


def _starts(scatter: Tensor, clusters: int) -> Tensor:
    """Return where the best ``clusters`` runs of all values start, none of them empty."""
    best, choices = scatter[0], []
    for _ in range(clusters - 1):
        before = torch.nn.functional.pad(best[:-1], (1, 0), value=torch.inf)
        best, chosen = (before[:, None] + scatter).min(dim=0)
        choices.append(chosen)
    starts: list[Tensor] = []
    for chosen in reversed(choices):
        starts.append(chosen[starts[-1] - 1] if starts else chosen[-1:])
    return torch.cat([torch.zeros(1, dtype=torch.long, device=scatter.device), *reversed(starts)])
