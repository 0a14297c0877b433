"""One trial's diagnosis: a fixed validation batch, looked at after epochs."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.errors import UserError
from tune_mtl.core.seeds import generator
from tune_mtl.strategies.base import Labelled, Strategy, weights_of
from tune_mtl.training.config import Config
from tune_mtl.training.diagnosis.agreement import Agreement, as_lists
from tune_mtl.training.diagnosis.gradients import trunk_gramian
from tune_mtl.training.diagnosis.quiet import without_a_trace

SHARE_OF_EPOCH = 0.02
"""What a look may cost, in the time that one epoch of SUS takes: it decides how many samples are looked at."""

_FEWEST, _MOST = 16, 256


class Diagnosis:
    """Looks at the tasks' gradients on the same samples of the validation data, for every trial of a problem.

    Attributes:
        every: Epochs between two looks; evaluations are when it can look, the last one always counts.
        samples: How many samples are looked at.
        cosines: What was seen so far: ``[N, N]`` by epoch, see :class:`Agreement`.
    """

    def __init__(
        self, config: Config, strategy: Strategy[Any], train: Data, val: Data, place: Callable[..., Batch]
    ) -> None:
        """Prepare to look, as ``config`` asks for it; ``place`` puts a batch on the device, with a generator."""
        assert config.diagnose_every is not None
        if not weights_of(strategy.model.trunk):
            raise UserError("all weights of the trunk are frozen: there are no gradients to diagnose. Drop --diagnose.")
        self._tasks = list(strategy.tasks)
        self.every, self._compiled, self._val, self._place = config.diagnose_every, config.compile, val, place
        wanted = config.diagnose_samples or affordable_samples(len(train), len(self._tasks))
        self.samples = min(wanted, len(val))
        self.cosines: dict[int, torch.Tensor] = {}
        self._batch: Batch | None = None

    def look(
        self, strategy: Strategy[Any], epoch: int, history: Sequence[Mapping[str, float]], *, last: bool
    ) -> dict[str, float]:
        """Return what the gradients are like after ``epoch``; empty if that is not due.

        Args:
            strategy: What is trained; nothing of it changes.
            epoch: Epochs completed.
            history: The records of the evaluations before.
            last: Whether the trial is over.
        """
        before = int(history[-1]["epoch"]) if history else 0
        if epoch // self.every == before // self.every and not last:
            return {}
        started = time.perf_counter()
        with without_a_trace(strategy.model, compiled=self._compiled):
            batch = Labelled.of(strategy.tasks, *self._fixed_batch(next(strategy.model.parameters()).device))
            products = trunk_gramian(strategy, batch)
        weights = torch.tensor([task.weight for task in strategy.tasks.values()], dtype=torch.float64)
        seen = Agreement.of(products, weights)
        self.cosines[epoch] = seen.cosines
        values = {
            "diagnosis/conflict_share": seen.conflict_share,
            "diagnosis/mean_cosine": seen.mean_cosine,
            "diagnosis/norm_spread": seen.norm_spread,
            "diagnosis/norm_variation": seen.norm_variation,
            **{f"diagnosis/norm/{task}": norm for task, norm in zip(strategy.tasks, seen.norms.tolist(), strict=True)},
        }
        known = {name: value for name, value in values.items() if not math.isnan(value)}
        return {**known, "diagnosis/seconds": time.perf_counter() - started}

    def told(self, epochs: Collection[int] | None = None) -> dict[str, Any]:
        """Return what was seen after ``epochs`` (default: all) as JSON has it: tasks, and cosines by epoch."""
        chosen = {epoch: seen for epoch, seen in self.cosines.items() if epochs is None or epoch in epochs}
        return {"tasks": self._tasks, "cosines": {str(epoch): as_lists(seen) for epoch, seen in chosen.items()}}

    def state_dict(self) -> dict[str, Any]:
        """Return what was seen so far; the batch is found again."""
        return {"cosines": dict(self.cosines)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        self.cosines = dict(state["cosines"])

    def _fixed_batch(self, device: torch.device) -> Batch:
        """Return the samples, drawn once for all trials: no trial's seed decides them."""
        if self._batch is None:
            drawn = torch.randperm(len(self._val), generator=generator(0, "diagnosis"))[: self.samples]
            got = self._val.batch(drawn.sort().values)
            batch = got if isinstance(got, Batch) else Batch(*got)
            self._batch = self._place(batch, generator(0, "diagnosis", device=device))
        return self._batch


def affordable_samples(train: int, tasks: int) -> int:
    """Return how many samples a look costs no more than ``SHARE_OF_EPOCH`` with, within bounds.

    A forward pass counts as one, a backward pass as two: an epoch of SUS costs 3 for each training sample, a look
    1 + 2 N for each of its own.
    """
    return max(_FEWEST, min(_MOST, int(SHARE_OF_EPOCH * 3 * train / (1 + 2 * tasks))))
