"""A strategy that is held to laws, with the settings it was asked to be held to them with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tune_mtl.core.data import Batch
from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.options import ShareOfRun, build, flat_names
from tune_mtl.core.seeds import seed_everything
from tune_mtl.core.task import Task
from tune_mtl.strategies.admission import Contestant, class_of
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.info import StrategyInfo, count
from tune_mtl.strategies.make import check_groups_allowed, make_strategy, option_owners
from tune_mtl.strategies.own_optimizers import admit_optimizer
from tune_mtl.testing.cases import Case, Meter

if TYPE_CHECKING:
    from tune_mtl.strategies.own_optimizers import AskedOptimizer

LENGTH = 6
"""Mini-batches of a run, as far as options are shares of it."""
RATE = 0.03


@dataclass(frozen=True)
class Subject:
    """A strategy and its settings.

    Attributes:
        kind: Its class.
        optimizer: The one asked for; None: what a law needs.
        groups: How many were asked for; None: one per task.
        options: Flat options that were given.
    """

    kind: type[Strategy[Any]]
    optimizer: str | None = None
    groups: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        strategy: Contestant,
        *,
        optimizer: "AskedOptimizer | None" = None,
        groups: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> "Subject":
        """Return the subject for what was asked for.

        Raises:
            UserError: if there is no such strategy, optimizer or option, or it has no groups.
        """
        kind = class_of(strategy)
        info = kind.info
        check_groups_allowed(info, groups)
        if groups is not None and (not isinstance(groups, int) or isinstance(groups, bool) or groups < 1):
            raise UserError(f"groups={groups!r} must be a number of groups >= 1 here: the tasks are the suite's own.")
        subject = cls(kind, None if optimizer is None else admit_optimizer(optimizer), groups, dict(options or {}))
        owners = option_owners(info, subject.optimizer or "adam", "constant")
        known = flat_names(owners)
        for key in subject.options:
            if key not in known:
                raise UserError(f"unknown option '{key}'. {did_you_mean(key, known)}")
        for owner, record in owners.items():
            given = {known[key][1]: value for key, value in subject.options.items() if known[key][0] == owner}
            build(record, given, f"{owner}_")
        return subject

    @property
    def info(self) -> StrategyInfo:
        """Return the strategy's record."""
        return self.kind.info

    @property
    def name(self) -> str:
        """Return the strategy's short name."""
        return self.kind.info.name

    def under(self, **options: Any) -> "Subject":
        """Return the same with more of the strategy's own options."""
        return replace(self, options={**self.options, **{f"{self.name}_{key}": v for key, v in options.items()}})

    def updates(self, strategy: Strategy[Any]) -> int:
        """Return how many updates a mini-batch takes, as its record says."""
        joined = self.info.joined_by
        if joined is not None and getattr(strategy.options, joined):
            return 1
        return self.declared("updates", strategy)

    def declared(self, cost: str, strategy: Strategy[Any]) -> int:
        """Return a cost of a mini-batch as its record says, with the options and groups that ``strategy`` has now."""
        tasks = len(strategy.tasks)
        return count(getattr(self.info.under(strategy.options), cost), tasks, len(strategy.groups) or tasks)

    def make(
        self,
        case: Case,
        *,
        network: MultiTaskModel | None = None,
        tasks: list[Task] | None = None,
        meter: Meter | None = None,
        optimizer: str | None = None,
        groups: int | None = None,
        schedule: str = "constant",
        lr: float = RATE,
        **more: Any,
    ) -> Strategy[Any]:
        """Return the strategy, made anew for a case; its network is in training mode.

        Global random states are set first: who draws from them breaks the laws about them, and no others.
        """
        network = network or case.network(meter)
        network.train()
        chosen = optimizer or self.optimizer or "adam"
        known = flat_names(option_owners(self.info, chosen, schedule))
        shares = {
            f"{self.name}_{option}": mark.in_mini_batches(None, LENGTH)
            for option, mark in self.info.options.marked(ShareOfRun).items()
        }
        options = {key: value for key, value in {**shares, **self.options, **more}.items() if key in known}
        set_global_randomness()
        asked = groups or self.groups if self.info.has_groups else None
        return make_strategy(
            self.kind,
            network,
            tasks or case.make_tasks(),
            lr=lr,
            optimizer=chosen,
            groups=None if asked is None else min(asked, case.tasks),
            seed=case.seed,
            schedule=schedule,
            **options,
        )

    def trained(
        self, case: Case, strategy: Strategy[Any] | None = None, *, missing: float | None = None
    ) -> Strategy[Any]:
        """Return the strategy after all mini-batches of a case."""
        strategy = strategy or self.make(case)
        take(strategy, (case.batch(step, missing=missing) for step in range(case.steps)))
        return strategy


def set_global_randomness(noise: int = 0) -> None:
    """Set all global random states."""
    seed_everything(noise, "noise", cuda=False)


def take(strategy: Strategy[Any], batches: Iterable[Batch]) -> None:
    """Step on each mini-batch."""
    for batch in batches:
        strategy.step(*batch)


def values(module: nn.Module) -> list[Tensor]:
    """Return copies of everything that a network's state holds."""
    return [tensor.detach().clone() for tensor in module.state_dict().values()]


def same(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Return whether tensors are equal bit for bit, NaN included."""
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and same_nans(a, b)
        for a, b in zip(first, second, strict=True)
    )


def same_nans(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors of one shape are NaN at the same places."""
    return torch.equal(first.isnan(), second.isnan())


def near(first: list[Tensor], second: list[Tensor], *, rtol: float = 1e-6, atol: float = 1e-9) -> bool:
    """Return whether tensors are equal up to rounding, NaN included."""
    return len(first) == len(second) and all(
        torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True) for a, b in zip(first, second, strict=True)
    )


def apart(first: list[Tensor], second: list[Tensor]) -> str:
    """Return how far tensors are apart at most, for people."""
    largest = max((float((a.double() - b.double()).abs().max()) for a, b in zip(first, second, strict=True)), default=0)
    return f"{largest:.2g}"
