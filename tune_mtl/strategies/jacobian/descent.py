"""Jacobian descent: one step on an aggregation of the tasks' gradients, by any of TorchJD's aggregators."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.options import Options
from tune_mtl.strategies.base import Labelled, Losses, SharedPass, Strategy
from tune_mtl.strategies.jacobian.compat import aggregate, make_aggregator, memory, remember, remembers

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


class JacobianDescent(Strategy[AggregatorOptions]):
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
        jacobians = [weight.new_zeros(len(rows), *weight.shape) for weight in trunk]
        held = {id(weight) for weight in trunk}
        for index, (task, loss) in enumerate(rows.items()):
            head = [weight for weight in self.trainable((task,)) if id(weight) not in held]
            found = torch.autograd.grad(loss, [*shared.leaves, *head, *trunk], retain_graph=True, allow_unused=True)
            at_leaves, own, direct = _split(found, len(shared.leaves), len(head))
            for weight, gradient in zip(head, own, strict=True):
                if gradient is not None:
                    self.set_gradient(weight, gradient if weight.grad is None else weight.grad + gradient)
            outputs = [(output, g) for output, g in zip(shared.outputs, at_leaves, strict=True) if g is not None]
            through = (
                torch.autograd.grad(
                    [output for output, _ in outputs],
                    trunk,
                    [gradient for _, gradient in outputs],
                    retain_graph=index + 1 < len(rows),
                    allow_unused=True,
                )
                if outputs
                else ()
            )
            for part in (through, direct):
                for jacobian, gradient in zip(jacobians, part, strict=False):
                    if gradient is not None:
                        jacobian[index] += gradient
        for weight, gradient in zip(trunk, self._aggregated(tuple(rows), trunk, jacobians), strict=True):
            self.set_gradient(weight, gradient)

    def _aggregated(
        self, tasks: tuple[str, ...], trunk: list[nn.Parameter], jacobians: list[Tensor]
    ) -> list[Tensor | None]:
        """Return the trunk's gradient, whatever the aggregator makes of the Jacobian.

        It is not finite where products of the Jacobian's rows are not, and zero where they vanish.
        """
        aggregator = self._aggregator(tasks)
        try:
            with self._own_randomness(jacobians[0].device):
                aggregate(aggregator, trunk, jacobians)
        except Exception:
            lengths = _squared_lengths(jacobians)
            if bool(lengths.isfinite().all()) and bool((lengths > 0).any()):
                raise
            step = 0.0 if bool(lengths.isfinite().all()) else torch.nan
            return [torch.full_like(weight, step) for weight in trunk]
        return [weight.grad for weight in trunk]

    @contextmanager
    def _own_randomness(self, device: torch.device) -> Iterator[None]:
        """Seed torch's global generators from the strategy's own, for as long as TorchJD draws from them."""
        seed = int(torch.randint(2**62, (), generator=self.recipe.generator))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def _aggregator(self, tasks: tuple[str, ...]) -> nn.Module:
        """Return the aggregator of this set of tasks; the dict's order is that of their last use."""
        found = self._aggregators.pop(tasks, None)
        if found is None:
            arguments = self.options.arguments(tasks, next(self.model.parameters()))
            found = make_aggregator(self.kind, self.info, arguments)
        if remembers(found) or len(tasks) == len(self.tasks):
            self._aggregators[tasks] = found
            if len(self._aggregators) > _MEMORIES:
                del self._aggregators[next(iter(self._aggregators))]
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return the state with what the aggregators remember."""
        memories = [[list(tasks), memory(aggregator)] for tasks, aggregator in self._aggregators.items()]
        return super().state_dict() | {"aggregators": memories}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._aggregators.clear()
        for tasks, remembered in state["aggregators"]:
            remember(self._aggregator(tuple(tasks)), remembered)


def _squared_lengths(jacobians: Sequence[Tensor]) -> Tensor:
    """Return each row's, in its own precision, as aggregators see it: it may overflow or vanish where rows do not."""
    return torch.stack([jacobian.flatten(1).square().sum(dim=1) for jacobian in jacobians]).sum(dim=0)


def _split(found: Sequence[Tensor | None], *sizes: int) -> list[Sequence[Tensor | None]]:
    """Return parts of the given sizes, and the rest."""
    ends = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    return [*(found[start:end] for start, end in pairwise(ends)), found[ends[-1] :]]
