"""Jacobian descent: one step on an aggregation of the tasks' gradients, by any of TorchJD's aggregators."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.options import Options
from tune_mtl.strategies.base import Labelled, Losses, OptionsT, SharedPass, Strategy
from tune_mtl.strategies.jacobian.compat import make_aggregator, memory, remember, remembers, weighting
from tune_mtl.strategies.jacobian.matrix import Jacobian
from tune_mtl.strategies.jacobian.passes import Arrived, TrunkJacobian

PASSES = "N, and one more where the trunk is large"
HELD = "one Jacobian row per task, of a part of the trunk where it is large"
"""What records say of rules that weigh the rows of the Jacobian by their Gramian."""
_MEMORIES = 16
"""Sets of tasks labelled together whose aggregators' memories are kept."""


class AggregatorOptions(Options):
    """The options of an aggregator, and what follows from them; this one has none."""

    def arguments(self, tasks: Sequence[str], like: Tensor) -> dict[str, Any]:  # noqa: ARG002 - for those that need it
        """Return what TorchJD's class is made with, for the rows of ``tasks``, with gradients ``like`` this."""
        return self.model_dump()

    def fewest_rows(self) -> int:
        """Return how many rows these options need."""
        return 1

    def named_tasks(self) -> Set[str]:
        """Return the tasks that these options name."""
        return frozenset()


class JacobianStep(Strategy[OptionsT]):
    """One step on what a rule makes of the Jacobian: w <- w - lr * m(A(J)); each head takes its own gradient.

    The Jacobian has one row per labelled task, the gradient of what :meth:`rows` makes of its loss.
    """

    _fewest_rows = 1
    """How many rows the rule needs: where a mini-batch has fewer, they are summed."""

    def learn(self, batch: Labelled) -> Losses:
        """Take one update."""
        shared = self.shared_pass(batch)
        rows = self.rows(shared.losses)
        if rows:
            self.optimizers[0].zero_grad()
            if shared.leaves and len(rows) >= self._fewest_rows:
                self._backward(rows, shared)
            else:
                torch.autograd.backward(list(rows.values()))
                shared.finish()
            self.apply(self.optimizers[0])
        return {task: loss.detach() for task, loss in shared.losses.items()}

    def _backward(self, rows: Losses, shared: SharedPass) -> None:
        trunk = self.trainable(())
        jacobian = self._jacobian(list(rows.items()), trunk, shared)
        for weight, gradient in zip(trunk, self._aggregated(tuple(rows), jacobian), strict=True):
            self.set_gradient(weight, gradient)

    def _jacobian(
        self, rows: Sequence[tuple[str, Tensor]], trunk: list[nn.Parameter], shared: SharedPass
    ) -> TrunkJacobian:
        """Return the gradients of losses on the trunk, a row each; those on the heads are added up there."""
        arriving = (self._through_head(task, loss, shared, trunk) for task, loss in rows)
        return TrunkJacobian(shared, trunk, arriving, len(rows))

    def _through_head(self, task: str, loss: Tensor, shared: SharedPass, trunk: list[nn.Parameter]) -> Arrived:
        """Give the task's head its gradient; return the one at the leaves, and that of trunk weights it uses itself."""
        held = {id(weight) for weight in trunk}
        head = [weight for weight in self.trainable((task,)) if id(weight) not in held]
        found = torch.autograd.grad(loss, [*shared.leaves, *head, *trunk], retain_graph=True, allow_unused=True)
        at_leaves, own, direct = _split(found, len(shared.leaves), len(head))
        self.add_gradients(head, own)
        return Arrived(at_leaves, direct)

    @abstractmethod
    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:
        """Return the gradient of each tensor of the ``jacobian``, made of its rows, which are those of ``tasks``."""


class JacobianDescent(JacobianStep[AggregatorOptions]):
    """One step on ``A(J)``: w <- w - lr * m(A(c_1 g_1(w), ..., c_N g_N(w))); each head takes its own gradient.

    The Jacobian has one row per labelled task. An aggregator that remembers earlier mini-batches has one memory for
    each set of tasks that were labelled together, of which the 16 last used are kept; where it needs more rows than a
    mini-batch has, they are summed. A Jacobian that is not finite leaves weights that are not: the trial diverges, it
    does not crash.
    """

    kind: ClassVar[str]
    """The aggregator's class in TorchJD."""

    def setup(self) -> None:
        """Make the aggregator of all tasks, which refuses what it cannot work with."""
        name = self.info.name
        self._fewest_rows = max(self.info.needs_tasks, self.options.fewest_rows())
        if len(self.tasks) < self._fewest_rows:
            raise UserError(
                f"strategy '{name}' needs {self._fewest_rows} tasks with these options, not {len(self.tasks)}."
            )
        for unknown in self.options.named_tasks() - self.tasks.keys():
            raise UserError(f"{name}_weights names an unknown task '{unknown}'. {did_you_mean(unknown, self.tasks)}")
        self._aggregators: dict[tuple[str, ...], nn.Module] = {}
        self._aggregator(tuple(self.tasks))

    def _aggregated(self, tasks: tuple[str, ...], jacobian: Jacobian) -> Sequence[Tensor]:
        """Return the sum of the Jacobian's rows, with weights that the host makes of their Gramian.

        The Gramian is summed in float64 on the device, copied once, and rounded to the rows' own precision: TorchJD's
        tolerances are multiples of it, and products finer than their factors would let rounding pass for rank. The sum
        is not finite where these products are not, and zero where they vanish.
        """
        precision = torch.promote_types(jacobian.dtype, torch.float32)
        products = jacobian.gramian(precision).cpu().to(precision)
        weigh = weighting(self._aggregator(tasks))
        assert weigh is not None, f"{self.kind} needs the rows themselves"
        try:
            with self._own_randomness():
                weights = self._weights(tasks, weigh, products)
        except Exception:
            step = _hopeless(products.diagonal())
            if step is None:
                raise
            return [torch.full_like(tensor, step) for tensor in jacobian.tensors]
        return jacobian.combined(weights.to(jacobian.device, non_blocking=True))

    def _weights(self, tasks: tuple[str, ...], weigh: Callable[[Tensor], Tensor], gramian: Tensor) -> Tensor:  # noqa: ARG002
        """Return one weight per row, on the host as the Gramian is."""
        return weigh(gramian)

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Seed torch's global generators from the strategy's own, for as long as TorchJD draws from them."""
        seed, on_cuda = int(torch.randint(2**62, (), generator=self.recipe.generator)), self._device.type == "cuda"
        with torch.random.fork_rng([self._device] if on_cuda else []):
            if on_cuda:
                torch.manual_seed(seed)
            else:  # torch.manual_seed notes for every kind of device that there might be who has called it
                torch.default_generator.manual_seed(seed)
            yield

    def _aggregator(self, tasks: tuple[str, ...]) -> nn.Module:
        """Return the aggregator of this set of tasks; the dict's order is that of their last use."""
        found = self._aggregators.pop(tasks, None)
        if found is None:
            found = self._made(tasks)
        if remembers(found) or len(tasks) == len(self.tasks):
            self._aggregators[tasks] = found
            if len(self._aggregators) > _MEMORIES:
                del self._aggregators[next(iter(self._aggregators))]
        return found

    def _made(self, tasks: tuple[str, ...]) -> nn.Module:
        return make_aggregator(self.kind, self.info, self.options.arguments(tasks, next(self.model.parameters())))

    def state_dict(self) -> dict[str, Any]:
        """Return the state with what the aggregators remember."""
        memories = [[list(tasks), memory(aggregator)] for tasks, aggregator in self._aggregators.items()]
        return super().state_dict() | {"aggregators": memories}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._aggregators.clear()
        for tasks, remembered in state["aggregators"]:
            aggregator = self._aggregator(tuple(tasks))
            remember(aggregator, remembered, self._device if weighting(aggregator) is None else torch.device("cpu"))

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def _hopeless(squared_lengths: Tensor) -> float | None:
    """Return the step where no aggregator can work: NaN if a row is not finite, 0 if all vanish; else None."""
    if not bool(squared_lengths.isfinite().all()):
        return torch.nan
    return None if bool((squared_lengths > 0).any()) else 0.0


def _split(found: Sequence[Tensor | None], *sizes: int) -> list[Sequence[Tensor | None]]:
    """Return parts of the given sizes, and the rest."""
    ends = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    return [*(found[start:end] for start, end in pairwise(ends)), found[ends[-1] :]]
