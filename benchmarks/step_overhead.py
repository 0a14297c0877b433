"""What the harness adds to a training step, and what path tracing costs.

The same strategy, model and batches go through ``Strategy`` + ``PathLength`` and through a bare hand-written loop, in
blocks that alternate and change places, in one process: only ratios are reported (medians of the ratios of paired
blocks, with the interval of the median at 95 %). Times are the process's CPU times, which other work on the machine
disturbs less than the clock on the wall.

    python benchmarks/step_overhead.py [--blocks 21] [--threads 1] [--strategies sus,io] [--parts overhead,cost,tracing]

With `PYTHONPATH` at another version of the project it measures that version.
"""

import argparse
import copy
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import torch
import torch.nn.functional as F
from bare_loops import LR, bare_loop
from torch import Tensor

from tune_mtl import Batch, MultiTaskModel, PathLength, Task, load_problem, make_strategy
from tune_mtl.core.options import ShareOfRun
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.strategies.jacobian.family import SCALARIZERS
from tune_mtl.strategies.registry import registry, strategy_info
from tune_mtl.training.path import traced_weights


@dataclass(frozen=True)
class Setting:
    """A network, its tasks and some batches."""

    title: str
    model: MultiTaskModel
    tasks: Sequence[Task]
    batches: list[Batch]
    steps: int


def multidigits() -> Setting:
    problem = load_problem("multidigits")
    data = problem.data("train")
    assert data is not None
    batches = [data.batch(torch.arange(100) + 100 * index) for index in range(8)]
    return Setting("multidigits net, 4 tasks, batch 100", problem.model(), problem.tasks, batches, 10)


def celeba(batch_size: int = 8, side: int = 32) -> Setting:
    names = [f"attribute-{index}" for index in range(40)]
    tasks = [Task(name, F.binary_cross_entropy_with_logits) for name in names]
    batches = [
        Batch(torch.rand(batch_size, 3, side, side), {name: (torch.rand(batch_size) > 0.5).float() for name in names})
        for _ in range(2)
    ]
    title = f"CelebA net, 40 tasks, batch {batch_size} of {side}x{side}"
    return Setting(title, celeba_net(names), tasks, batches, 2)


def block(step: Callable[[Batch], object], batches: Iterator[Batch], count: int) -> float:
    """The median step of a block, so that a neighbour's burst does not decide it."""
    seconds = []
    for _ in range(count):
        started = time.process_time()
        step(next(batches))
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


def paired_ratios(
    ours: Callable[[Batch], object], bare: Callable[[Batch], object], setting: Setting, blocks: int
) -> list[float]:
    """Ours over bare, block by block; who goes first alternates."""
    ratios = []
    sources = [cycle(setting.batches), cycle(setting.batches)]
    for number in range(-1, blocks):
        seconds = {}
        order = [(0, ours), (1, bare)]
        for which, step in order if number % 2 else reversed(order):
            seconds[which] = block(step, sources[which], setting.steps)
        if number >= 0:
            ratios.append(seconds[0] / seconds[1])
    return ratios


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and the order statistics that hold it with 95 % probability (binomial)."""
    ordered = sorted(values)
    count = len(ordered)
    reach = round(0.98 * count**0.5)
    low, high = max(0, (count - 1) // 2 - reach), min(count - 1, count // 2 + reach)
    return statistics.median(ordered), ordered[low], ordered[high]


def run_options(name: str) -> dict[str, int]:
    """Far away, what a strategy does once in a while: it is no part of a step. A trimmed mean that trims."""
    far = {f"{name}_{option}": 10**6 for option in strategy_info(name).options.marked(ShareOfRun)}
    return far | ({f"{name}_trim_number": TRIMMED} if name == "jd_trimmedmean" else {})


def own_copy(setting: Setting) -> Setting:
    return replace(setting, model=copy.deepcopy(setting.model))


def overhead(setting: Setting, strategy: str, groups: int | None, blocks: int) -> tuple[float, float, float]:
    """Our strategy with tracing on, against the bare loop, each on its own copy of the model."""
    own = own_copy(setting)
    ours = make_strategy(strategy, own.model, own.tasks, lr=LR, groups=groups, **run_options(strategy))
    shared = ours.info.shares_trunk
    path = PathLength(ours.model, ours.optimizers) if shared else None
    losses = {task.name: task.loss for task in setting.tasks}
    hand_written = bare_loop(strategy, own_copy(setting).model, losses, ours.groups)
    ratios = paired_ratios(lambda batch: ours.step(*batch), hand_written, setting, blocks)
    if path is not None:
        path.close()
    return median_interval(ratios)


def cost(setting: Setting, strategy: str, blocks: int) -> tuple[float, float]:
    """A step's time next to one of SUS, and the peak of memory above what was held before, in MiB."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    own, other = own_copy(setting), own_copy(setting)
    sus = make_strategy("sus", other.model, other.tasks, lr=LR)
    sus.step(*setting.batches[0])
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    ours = make_strategy(strategy, own.model, own.tasks, lr=LR, **run_options(strategy))
    for batch in setting.batches[:2]:
        ours.step(*batch)
    peak = (memory("VmHWM") - before) / 1024
    ratios = paired_ratios(lambda batch: ours.step(*batch), lambda batch: sus.step(*batch), setting, blocks)
    return statistics.median(ratios), peak


def memory(field: str) -> int:
    """KiB, from the kernel."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


class HostCopies:
    """Path tracing as the paper's scripts do it: all weights to the host, flattened, at every update."""

    def __init__(self, model: MultiTaskModel) -> None:
        self.weights = traced_weights(model.trunk)
        self.before, self.total = self.flat(), 0.0

    def flat(self) -> Tensor:
        return torch.cat([weight.detach().cpu().clone().flatten() for weight in self.weights])

    def update(self) -> None:
        now = self.flat()
        self.total += float((now - self.before).norm())
        self.before = now


def tracing(setting: Setting, repeats: int = 60) -> tuple[float, float]:
    """Milliseconds per update: ours, and copying to the host."""
    optimizer = torch.optim.SGD(setting.model.trunk.parameters(), lr=0.0)
    path, copies = PathLength(setting.model, [optimizer]), HostCopies(setting.model)
    ours, theirs = [], []
    for _ in range(repeats):
        started = time.process_time()
        path._before()
        path._after()
        middle = time.process_time()
        copies.update()
        ours.append(middle - started)
        theirs.append(time.process_time() - middle)
    path.close()
    return 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=21, help="paired blocks per line")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--strategies", default=",".join(registry), help="comma-separated")
    parser.add_argument("--networks", default="multidigits,celeba", help="comma-separated")
    parser.add_argument("--parts", default="overhead,cost,tracing", help="comma-separated")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    names, parts = arguments.strategies.split(","), arguments.parts.split(",")
    made = {"multidigits": multidigits, "celeba": celeba}
    settings = [made[name]() for name in arguments.networks.split(",")]
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), {arguments.blocks} paired blocks\n")
    if "overhead" in parts:
        print("| network | strategy | ours / bare | 95 % interval |\n|---|---|---|---|")
        for setting in settings:
            for strategy in names:
                groups = few_groups(setting, strategy)
                blocks = arguments.blocks if len(setting.tasks) < 10 or strategy in QUICK else 7
                chosen = setting if blocks == arguments.blocks else replace(setting, steps=1)
                middle, low, high = overhead(chosen, strategy, groups, blocks)
                label = strategy + (f", {groups} groups" if groups else "")
                print(f"| {setting.title} | {label} | {middle:.3f} | {low:.3f} - {high:.3f} |", flush=True)
    if "cost" in parts:
        columns = "".join(f" {len(setting.tasks)} tasks: time / SUS | peak MiB |" for setting in settings)
        print(f"\n| strategy |{columns} waits |\n|---|{'---|---|' * len(settings)}---|")
        for strategy in names:
            cells = ""
            for setting in settings:
                few = setting if len(setting.tasks) < 10 else replace(setting, steps=1)
                ratio, peak = cost(few, strategy, arguments.blocks if few is setting else min(3, arguments.blocks))
                cells += f" {ratio:.1f} | {peak:.0f} |"
            waits = getattr(strategy_info(strategy), "waits", "?")  # another version may not say
            print(f"| {strategy} |{cells} {waits} |", flush=True)
    if "tracing" in parts:
        print("\n| network | tracing one update, ours | copying all weights to the host | ratio |\n|---|---|---|---|")
        for setting in settings:
            ours, theirs = tracing(setting)
            print(f"| {setting.title} | {ours:.3f} ms | {theirs:.3f} ms | {theirs / ours:.1f} |", flush=True)


TRIMMED = 1
"""With none, a trimmed mean is a mean."""
QUICK = ("sus", "scalar", "ius", "io", "gradnorm", "mgda_ub", *(kind.info.name for kind in SCALARIZERS))
"""Those whose step with 40 tasks takes no 40 passes through the trunk (four groups, where there are groups)."""


def few_groups(setting: Setting, strategy: str) -> int | None:
    return 4 if len(setting.tasks) > 10 and strategy_info(strategy).has_groups else None


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
