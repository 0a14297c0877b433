"""How long steps take on a device and what they hold there, next to a bare loop of plain torch."""

import copy
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tune_mtl.core.options import ShareOfRun
from tune_mtl.core.problem import Problem
from tune_mtl.preflight.device.workload import Workload
from tune_mtl.problems.multidigits import MultiDigits
from tune_mtl.strategies.make import make_strategy
from tune_mtl.strategies.registry import strategy_info
from tune_mtl.training.config import resolve
from tune_mtl.training.loader import batches, training_order
from tune_mtl.training.path import PathLength
from tune_mtl.training.trainer import Trainer

_STEPS = 7
LR = 1e-3


@dataclass(frozen=True)
class Cost:
    """What a step costs.

    Attributes:
        seconds: The median of a few.
        ratio: The median of its time over that of a bare loop's step, which took turns with it.
        peak: Bytes on the device at most, above what the network itself took; None where nobody counts them.
    """

    seconds: float
    ratio: float
    peak: int | None


def finish(device: torch.device) -> None:
    """Wait until the device has done all that it was told."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def timed(step: Callable[[], object], beside: Callable[[], object], device: torch.device) -> Cost:
    """Return what a step costs; the first ones, which choose kernels and make optimizer states, do not count."""
    on_cuda = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if on_cuda else 0
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    step()
    step()
    finish(device)
    peak = torch.cuda.max_memory_allocated(device) - before if on_cuda else None
    beside()
    pairs = [(_seconds(beside, device), _seconds(step, device)) for _ in range(_STEPS)]
    ratio = statistics.median(own / bare for bare, own in pairs)
    return Cost(statistics.median(own for _, own in pairs), ratio, peak)


def _seconds(step: Callable[[], object], device: torch.device) -> float:
    finish(device)
    started = time.perf_counter()
    step()
    finish(device)
    return time.perf_counter() - started


def bare(work: Workload, device: torch.device) -> Callable[[], None]:
    """Return a step of plain torch: the sum of all losses, one fused Adam."""
    model = copy.deepcopy(work.model)
    kind: dict[str, Any] = {"fused": True} if device.type in ("cpu", "cuda") else {"foreach": True}
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, **kind)

    def step() -> None:
        features = model.trunk(work.batch.inputs)
        losses = [task.loss(model.heads[task.name](features), work.batch.targets[task.name]) for task in work.tasks]
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def cost(strategy: str, work: Workload, device: torch.device, **settings: Any) -> Cost:
    """Return what a step of a strategy costs, its path traced."""
    far: dict[str, Any] = {
        f"{strategy}_{option}": 10**6 for option in strategy_info(strategy).options.marked(ShareOfRun)
    }
    made = make_strategy(strategy, copy.deepcopy(work.model), work.tasks, lr=LR, **far, **settings)
    made.model.train()
    path = PathLength(made.model, made.optimizers) if made.info.shares_trunk else None
    try:
        return timed(lambda: made.step(*work.batch), bare(work, device), device)
    finally:
        if path is not None:
            path.close()


def ways(work: Workload, device: torch.device) -> Iterable[tuple[str, Callable[[], Cost]]]:
    """Yield other ways to take a step of SUS, by name."""
    yield "checkpoint_trunk=true", lambda: cost("sus", work, device, checkpoint_trunk=True)
    if device.type in ("cpu", "cuda"):
        yield "precision=bf16", lambda: cost("sus", work, device, autocast=torch.bfloat16)

        def channels_last() -> Cost:
            model = copy.deepcopy(work.model).to(memory_format=torch.channels_last)
            inputs = work.batch.inputs.contiguous(memory_format=torch.channels_last)
            return cost("sus", Workload(work.title, model, work.tasks, work.batch._replace(inputs=inputs)), device)

        yield "channels_last=true", channels_last


def loading(device: torch.device, problem: Problem | None = None) -> tuple[float, float]:
    """Return the seconds that data of an epoch take to come to the device, and those of the whole epoch of SUS."""
    problem = problem or MultiDigits()
    config = resolve(problem, {"strategy": "sus", "lr": LR, "epochs": 2, "device": str(device)})
    trainer = Trainer(problem, config)
    data = problem.data("train")
    assert data is not None
    trainer._run_epoch(None)
    finish(device)
    started = time.perf_counter()
    order = training_order(len(data), config.batch_size, config.seed, 1)
    for _ in batches(data, order, trainer.place, device, config.seed, 1):
        pass
    finish(device)
    loaded = time.perf_counter()
    trainer._run_epoch(None)
    finish(device)
    trainer.close()
    return loaded - started, time.perf_counter() - loaded
