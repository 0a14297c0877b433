"""Laws that hold on a device whatever it is: the CPU's numbers, no needless wait, the same again, the same resumed."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch

from tune_mtl.core.nested import tensors
from tune_mtl.core.seeds import isolated
from tune_mtl.preflight.device.workload import FewDigits, config
from tune_mtl.strategies.info import count
from tune_mtl.testing.device import waits as waits_on_the_host
from tune_mtl.training import checkpoint
from tune_mtl.training.trainer import Trainer
from tune_mtl.training.trial import CHECKPOINT, torch_settings

CountWaits: TypeAlias = Callable[[list[torch.Tensor]], AbstractContextManager[list[Any]]]
"""Counts how often the host waits for the device in a ``with``, given what is on it."""

TOLERANCE = 0.02
"""How far a device's weights may be from the CPU's after six steps, as a share of the way that they went."""


@dataclass(frozen=True)
class Verdict:
    """What came of a law.

    Attributes:
        law: Its name.
        state: ``ok``, ``failed``; ``-`` where it has no meaning.
        said: What was measured, or what went wrong.
    """

    law: str
    state: str
    said: str


def check(strategy: str, device: torch.device, count_waits: CountWaits | None = None) -> list[Verdict]:
    """Return what comes of every law, for one strategy on one device; whatever it raises is a verdict too."""
    laws: dict[str, Callable[[], tuple[bool | None, str]]] = {
        "numbers": lambda: _numbers(strategy, device),
        "waits": lambda: _waits(strategy, device, count_waits or waits_counter(device)),
        "repeats": lambda: _repeats(strategy, device),
        "gathered": lambda: _gathered(strategy, device),
    }
    verdicts = []
    for name, law in laws.items():
        try:
            with isolated(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                good, said = law()
        except Exception as error:  # whatever it is, it is what people want to send
            good, said = False, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        verdicts.append(Verdict(name, "-" if good is None else "ok" if good else "failed", said))
    return verdicts


def trained(strategy: str, device: str, *, resumed: bool = False, **more: Any) -> Trainer:
    """Return a trial that is over; with ``resumed``, another trainer took over from a checkpoint of the first epoch."""
    problem = FewDigits()
    trainer = Trainer(problem, config(problem, strategy, device, **more))
    trainer.run_period()
    if resumed:
        with TemporaryDirectory() as folder:
            checkpoint.save(Path(folder) / CHECKPOINT, trainer.state_dict())
            trainer.close()
            trainer = Trainer(problem, config(problem, strategy, device, **more))
            trainer.load_state_dict(checkpoint.load(Path(folder) / CHECKPOINT))
    trainer.run_period()
    trainer.close()
    return trainer


def weights(trainer: Trainer) -> torch.Tensor:
    """Return all trainable weights of a trial, on the CPU."""
    return torch.cat([weight.detach().cpu().double().flatten() for weight in trainer.strategy.model.parameters()])


def _start(strategy: str, **more: Any) -> torch.Tensor:
    problem = FewDigits()
    return weights(Trainer(problem, config(problem, strategy, "cpu", **more)))


def _apart(one: torch.Tensor, other: torch.Tensor, start: torch.Tensor) -> float:
    """Return how far two ends of a way are apart, as a share of its length."""
    return float((one - other).norm() / (other - start).norm().clamp(min=1e-12))


def _said(apart: float) -> str:
    return f"{apart:.1e} of the way apart" if apart else "the same"


def _numbers(strategy: str, device: torch.device) -> tuple[bool, str]:
    """Hold a trial there, evaluated and resumed, against one on the CPU."""
    with exact_kernels():
        there, here = trained(strategy, str(device), resumed=True), trained(strategy, "cpu")
    apart = _apart(weights(there), weights(here), _start(strategy))
    homeless = [name for name, w in there.strategy.model.state_dict().items() if w.device.type != device.type]
    if homeless:
        return False, f"not on {device}: {', '.join(homeless[:3])}"
    return apart <= TOLERANCE, _said(apart)


def _waits(strategy: str, device: torch.device, counter: CountWaits) -> tuple[bool, str]:
    """Count waits in steps beyond the first, which may have to choose kernels."""
    problem = FewDigits()
    trainer = Trainer(problem, config(problem, strategy, str(device)))
    batches = [trainer.few_samples(20) for _ in range(3)]
    found = []
    for index, batch in enumerate(batches):
        on_device = [*trainer.strategy.model.state_dict().values(), *tensors(batch.inputs), *tensors(batch.targets)]
        if index == 0:
            trainer.strategy.step(*batch)
            continue
        with counter(on_device) as waits:
            trainer.strategy.step(*batch)
        found.append(len(waits))
    trainer.close()
    info = trainer.strategy.info
    allowed = count(info.waits, len(trainer.strategy.tasks), len(trainer.strategy.groups))
    return max(found) <= allowed, f"{max(found)} in a step; declared: {info.waits}"


def _repeats(strategy: str, device: torch.device) -> tuple[bool, str]:
    """Train twice with deterministic kernels, the second time resumed: not a bit may differ."""
    with torch_settings(deterministic=True):
        once, again = (trained(strategy, str(device), resumed=resumed, deterministic=True) for resumed in (False, True))
    if torch.equal(weights(once), weights(again)) and _timeless(once) == _timeless(again):
        return True, "bit for bit, resumed too"
    return False, f"{float((weights(once) - weights(again)).abs().max()):.1e} apart"


def _gathered(strategy: str, device: torch.device) -> tuple[bool, str]:
    """Hold updates gathered from mini-batches, with the trunk computed again, against the same on the CPU."""
    more: dict[str, Any] = {"batch_size": 10, "accumulate": 2, "checkpoint_trunk": True}
    with exact_kernels():
        there, here = trained(strategy, str(device), **more), trained(strategy, "cpu", **more)
    apart = _apart(weights(there), weights(here), _start(strategy, **more))
    return apart <= TOLERANCE, _said(apart)


def _timeless(trainer: Trainer) -> list[Mapping[str, str]]:
    return [{name: repr(value) for name, value in record.items() if name != "seconds"} for record in trainer.history]


@contextmanager
def exact_kernels() -> Iterator[None]:
    """Have CUDA multiply in float32 as it is, without TF32, within a ``with``."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def waits_counter(device: torch.device) -> CountWaits:
    """Return what counts waits: on CUDA the driver's own word, elsewhere the CPU is watched as if it were a GPU."""
    return _cuda_waits if device.type == "cuda" else waits_on_the_host


@contextmanager
def _cuda_waits(_: list[torch.Tensor]) -> Iterator[list[Any]]:
    found: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode("default")
            found += [warning for warning in caught if "synchronizing" in str(warning.message)]
