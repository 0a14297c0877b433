"""A few steps of an optimizer that a user brings, on two small weights: what a trial relies on has to be so."""

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from tune_mtl.core.errors import UserError
from tune_mtl.core.imports import in_a_line
from tune_mtl.core.seeds import global_state, isolated, seed_everything, set_global_state
from tune_mtl.strategies.optimizers import OptimizerInfo, named_factory
from tune_mtl.strategies.own_optimizers import check_step

if TYPE_CHECKING:
    from tune_mtl.core.options import Options

_SHAPES = ((4, 3), (4,))
_LR = 0.01
_STEPS, _KEPT_AFTER = 12, (1, 7)
"""Steps in all, and after how many of them a run is interrupted."""

_passed: set[tuple[Any, str]] = set()
"""Which optimizers have passed, with which options."""


def try_optimizer(info: OptimizerInfo, options: "Options") -> None:
    """Take a few steps and hold them against what trials rely on; done once for the same options.

    Raises:
        UserError: for the first thing that is not so: it fails, changes nothing, ignores the learning rate of its
            parameter groups, does not repeat from the same seed, or ``state_dict`` does not carry all of its state.
    """
    key = (info.brought, options.model_dump_json())
    if info.brought is None or key in _passed:
        return
    who = f"optimizer '{info.reference}'"
    with isolated(cuda=False):
        _Tried(info, options, who).check()
    _passed.add(key)


class _Tried:
    """One optimizer under examination."""

    def __init__(self, info: OptimizerInfo, options: "Options", who: str) -> None:
        self.info, self.options, self.who = info, options, who
        self.shapes = self._shapes()

    def check(self) -> None:
        """Check everything, the plainest mistake first."""
        self._check_kind()
        self._check_learning_rate()
        weights, optimizer = self._fresh()
        seen = _hooked(optimizer)
        self._steps(weights, optimizer, range(_STEPS))
        if len(seen) < _STEPS:
            raise UserError(
                f"{self.who}: torch's hooks do not see its steps, by which the path is measured: define step in the"
                " class, and call super().__init__(params, defaults)."
            )
        if all(torch.equal(now, before) for now, before in zip(weights, self._fresh()[0], strict=True)):
            raise UserError(f"{self.who} changes no weights in {_STEPS} steps on gradients that are not zero.")
        again, other = self._fresh()
        self._steps(again, other, range(_STEPS))
        if not _equal(weights, again):
            raise UserError(
                f"{self.who} does not repeat: the same seed, weights and gradients gave other weights. Draw random"
                " numbers from torch, numpy or random, which are seeded for each trial."
            )
        for kept_after in _KEPT_AFTER:
            if not _equal(weights, self._resumed(kept_after)):
                raise UserError(
                    f"{self.who} cannot be resumed: after load_state_dict its steps are others than without an"
                    " interruption. Keep all that a step depends on in self.state or in param_groups, which state_dict"
                    " carries."
                )

    def _shapes(self) -> Sequence[tuple[int, ...]]:
        """Return the shapes of the weights: matrices alone for an optimizer that takes no others."""
        try:
            self._fresh(_SHAPES)
        except UserError:
            self._fresh(_SHAPES[:1])
            return _SHAPES[:1]
        return _SHAPES

    def _check_kind(self) -> None:
        optimizer: Any = self._fresh()[1]
        if not isinstance(optimizer, Optimizer):
            raise UserError(
                f"{self.who} returns a value of type {type(optimizer).__name__}, not a torch.optim.Optimizer."
            )
        check_step(type(optimizer), self.who)
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if len(held) < len(self.shapes):
            raise UserError(f"{self.who} leaves out some of the weights that it is given: put all into param_groups.")

    def _check_learning_rate(self) -> None:
        """Refuse an optimizer whose parameter groups do not follow ``lr``, or whose steps do not follow them."""
        one, two = (self._fresh(lr=lr)[1].param_groups for lr in (_LR, 2 * _LR))
        rates = [(float(a.get("lr", 0.0)), float(b.get("lr", 0.0))) for a, b in zip(one, two, strict=True)]
        if any(abs(b - 2 * a) > 1e-9 * abs(b) or a <= 0 for a, b in rates):
            raise UserError(
                f"{self.who} ignores lr: its param_groups must each have an 'lr' in proportion to the one given, since"
                " schedules set it there."
            )
        ends = []
        for factor in (1.0, 0.5):
            weights, optimizer = self._fresh()
            for group in optimizer.param_groups:
                group["lr"] *= factor
            self._steps(weights, optimizer, range(_STEPS))
            ends.append(weights)
        if _equal(*ends) and not _equal(ends[0], self._fresh()[0]):
            raise UserError(
                f"{self.who} ignores the 'lr' of its param_groups: with half of it the steps are the same. Read it from"
                " there at every step, since schedules set it there."
            )

    def _resumed(self, kept_after: int) -> list[Parameter]:
        """Return the weights of a run that another process takes up from what a checkpoint holds."""
        weights, optimizer = self._fresh()
        self._steps(weights, optimizer, range(kept_after))
        file = io.BytesIO()
        try:
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            kept = torch.load(file, weights_only=True)
        except Exception as error:
            raise UserError(
                f"{self.who}: a checkpoint cannot keep what its state_dict holds ({type(error).__name__}): it must be"
                " numbers, texts and tensors, and lists and dicts of them."
            ) from error
        random = global_state(cuda=False)
        fresh, other = self._fresh()
        with torch.no_grad():
            for new, old in zip(fresh, weights, strict=True):
                new.copy_(old)
        try:
            other.load_state_dict(kept)
        except Exception as error:
            raise UserError(f"{self.who}: load_state_dict fails: {in_a_line(error)}") from error
        set_global_state(random)
        self._steps(fresh, other, range(kept_after, _STEPS), seeded=True)
        return fresh

    def _fresh(
        self, shapes: Sequence[tuple[int, ...]] | None = None, lr: float = _LR
    ) -> tuple[list[Parameter], Optimizer]:
        drawn = torch.Generator().manual_seed(0)
        shapes = self.shapes if shapes is None else shapes
        weights = [Parameter(torch.randn(shape, generator=drawn)) for shape in shapes]
        seed_everything(0, "optimizer", cuda=False)
        return weights, named_factory(self.info, self.options, lr)(weights)

    def _steps(
        self, weights: Sequence[Parameter], optimizer: Optimizer, places: range, *, seeded: bool = False
    ) -> None:
        """Take the steps at some places of a run, on gradients that depend on the place alone."""
        if not seeded:
            seed_everything(0, "optimizer", cuda=False)
        for place in places:
            drawn = torch.Generator().manual_seed(place + 1)
            for weight in weights:
                weight.grad = torch.randn(weight.shape, generator=drawn)
            try:
                optimizer.step()
            except Exception as error:
                which = "first step" if not place else f"step {place + 1}"
                raise UserError(f"{self.who} fails at its {which}: {in_a_line(error)}") from error


def _hooked(optimizer: Optimizer) -> list[None]:
    """Return a list that gets an entry for each step that torch's hooks see."""
    seen: list[None] = []
    with suppress(AttributeError):  # of an optimizer that never called that of torch
        optimizer.register_step_post_hook(lambda *_: seen.append(None))
    return seen


def _equal(first: Sequence[Parameter], second: Sequence[Parameter]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
