"""Jacobian descent: one step on an aggregation of the tasks' gradients, by any of TorchJD's aggregators."""

import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torchjd import Stateful
from torchjd.aggregation import GramianWeightedAggregator
from torchjd.autojac import jac_to_grad

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.options import Options
from tune_mtl.core.task import Task
from tune_mtl.strategies.base import Labelled, Losses, SharedPass, Strategy
from tune_mtl.strategies.info import StrategyInfo
from tune_mtl.strategies.recipe import Recipe
from tune_mtl.strategies.torchjd_state import memory, remember

_MEMORIES = 16
"""Sets of tasks labelled together whose aggregators' memories are kept."""


class JacobianDescent(Strategy):
    """One step on ``A(J)``: w <- w - lr * m(A(c_1 g_1(w), ..., c_N g_N(w))); each head takes its own gradient.

    The Jacobian has one row per labelled task. An aggregator that remembers earlier mini-batches has one memory for
    each set of tasks that were labelled together, of which the 16 last used are kept; where it needs more rows than a
    mini-batch has, they are summed. A Jacobian that is not finite leaves weights that are not: the trial diverges, it
    does not crash.
    """

    def __init__(
        self, info: StrategyInfo, model: MultiTaskModel, tasks: Sequence[Task], groups: list[list[str]], recipe: Recipe
    ) -> None:
        super().__init__(info, model, tasks, groups, recipe)
        needed = fewest_rows(info, recipe.options)
        if len(tasks) < needed:
            raise UserError(f"strategy '{info.name}' needs {needed} tasks with these options, not {len(tasks)}.")
        self._aggregators: dict[tuple[str, ...], nn.Module] = {}
        self._aggregator(tuple(self.tasks))

    def make_optimizers(self) -> list[Optimizer]:
        """One, over everything."""
        return [self.recipe.optimizer(self.trainable(self.tasks))]

    def learn(self, batch: Labelled) -> Losses:
        """One update."""
        shared = self.shared_pass(batch)
        rows = self.rows(shared.losses)
        if rows:
            self.optimizers[0].zero_grad()
            if shared.leaves and len(rows) >= fewest_rows(self.info, self.recipe.options):
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
        """The trunk's gradient; whatever the aggregator makes of them, not finite where products of the Jacobian's rows
        are not, and zero where they vanish."""
        aggregator = self._aggregator(tasks)
        for weight, jacobian in zip(trunk, jacobians, strict=True):
            weight.jac = jacobian  # type: ignore[attr-defined]
        try:
            with self._own_randomness(jacobians[0].device):
                if isinstance(aggregator, GramianWeightedAggregator):
                    jac_to_grad(trunk, aggregator, optimize_gramian_computation=True)
                else:
                    jac_to_grad(trunk, aggregator)  # type: ignore[call-overload]
        except Exception:
            lengths = _squared_lengths(jacobians)
            if bool(lengths.isfinite().all()) and bool((lengths > 0).any()):
                raise
            step = 0.0 if bool(lengths.isfinite().all()) else torch.nan
            return [torch.full_like(weight, step) for weight in trunk]
        finally:
            for weight in trunk:
                if hasattr(weight, "jac"):
                    del weight.jac
        return [weight.grad for weight in trunk]

    @contextmanager
    def _own_randomness(self, device: torch.device) -> Iterator[None]:
        """TorchJD draws from torch's global generators: for its time they are seeded from the strategy's own."""
        seed = int(torch.randint(2**62, (), generator=self.recipe.generator))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def _aggregator(self, tasks: tuple[str, ...]) -> nn.Module:
        """The aggregator of this set of tasks; the dict's order is that of their last use."""
        found = self._aggregators.pop(tasks, None)
        if found is None:
            found = make_aggregator(self.info, self.recipe.options, tasks, self.tasks, next(self.model.parameters()))
        if isinstance(found, Stateful) or len(tasks) == len(self.tasks):
            self._aggregators[tasks] = found
            if len(self._aggregators) > _MEMORIES:
                del self._aggregators[next(iter(self._aggregators))]
        return found

    def state_dict(self) -> dict[str, Any]:
        """With what the aggregators remember."""
        memories = [[list(tasks), memory(aggregator)] for tasks, aggregator in self._aggregators.items()]
        return super().state_dict() | {"aggregators": memories}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``."""
        super().load_state_dict(state)
        self._aggregators.clear()
        for tasks, remembered in state["aggregators"]:
            remember(self._aggregator(tuple(tasks)), remembered)


def _squared_lengths(jacobians: Sequence[Tensor]) -> Tensor:
    """Of each row, in its own precision, as aggregators see them: they may overflow or vanish where the rows do not."""
    return torch.stack([jacobian.flatten(1).square().sum(dim=1) for jacobian in jacobians]).sum(dim=0)


def _split(found: Sequence[Tensor | None], *sizes: int) -> list[Sequence[Tensor | None]]:
    """Parts of the given sizes, and the rest."""
    ends = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    return [*(found[start:end] for start, end in pairwise(ends)), found[ends[-1] :]]


def fewest_rows(info: StrategyInfo, options: Options) -> int:
    """How many rows the aggregator needs."""
    trimmed, distrusted = getattr(options, "trim_number", 0), getattr(options, "n_byzantine", 0)
    return max(info.needs_tasks + distrusted, 2 * trimmed + 1, getattr(options, "n_selected", 1))


def make_aggregator(
    info: StrategyInfo, options: Options, tasks: Sequence[str], all_tasks: Mapping[str, Task], like: Tensor
) -> nn.Module:
    """TorchJD's aggregator behind a record, for the rows of ``tasks``, with gradients ``like`` this.

    Raises:
        UserError: if what it needs is not installed, or there are too few tasks.
    """
    module = importlib.import_module("torchjd.aggregation")
    classes = {name.lower(): getattr(module, name) for name in module.__all__}
    make = classes[info.name.removeprefix("jd_")]
    arguments = options.model_dump()
    for unknown in arguments.get("weights", {}).keys() - all_tasks.keys():
        raise UserError(f"{info.name}_weights names an unknown task '{unknown}'. {did_you_mean(unknown, all_tasks)}")
    if "weights" in arguments:
        arguments["weights"] = like.new_tensor([arguments["weights"].get(task, 1.0) for task in tasks])
    if "leak" in arguments:
        arguments["leak"] = like.new_full((len(tasks),), arguments["leak"])
    if info.name == "jd_nashmtl":
        arguments["n_tasks"] = len(tasks)
        warnings.filterwarnings("ignore", message="You are solving a parameterized problem that is not DPP")
    try:
        return make(**arguments)  # type: ignore[no-any-return]
    except ImportError as error:
        where = f'pip install "tune-mtl[{info.extra}]"' if info.extra else str(error)
        raise UserError(f"strategy '{info.name}' needs packages that are not installed: {where}.") from None
