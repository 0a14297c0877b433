"""What the harness adds to a training step, and what path tracing costs.

The same strategy, model and batches go through ``Strategy`` + ``PathLength`` and through a bare hand-written loop, in
blocks that alternate and change places, in one process: only ratios are reported (medians of the ratios of paired
blocks, with the interval of the median at 95 %).

    python benchmarks/step_overhead.py [--blocks 21] [--threads 1]
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle

import torch
import torch.nn.functional as F
from torch import Tensor

from tune_mtl import Batch, MultiTaskModel, PathLength, Task, load_problem, make_strategy
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.training.path import traced_weights

LR = 1e-4


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
    return Setting("multidigits net, 4 tasks, batch 100", problem.model(), problem.tasks, batches, 30)


def celeba(batch_size: int = 8) -> Setting:
    names = [f"attribute-{index}" for index in range(40)]
    tasks = [Task(name, F.binary_cross_entropy_with_logits) for name in names]
    batches = [
        Batch(torch.rand(batch_size, 3, 64, 64), {name: (torch.rand(batch_size) > 0.5).float() for name in names})
        for _ in range(2)
    ]
    return Setting(f"CelebA net, 40 tasks, batch {batch_size}", celeba_net(names), tasks, batches, 3)


def bare_loop(strategy: str, setting: Setting, groups: list[list[str]]) -> Callable[[Batch], None]:
    """The rule as one would write it by hand for this one model."""
    model, losses = setting.model, {task.name: task.loss for task in setting.tasks}
    if strategy == "io":
        optimizers = [
            torch.optim.Adam(
                [*model.trunk.parameters(), *(p for task in group for p in model.heads[task].parameters())],
                lr=LR,
                fused=True,
            )
            for group in groups
        ]
    else:
        optimizers = [torch.optim.Adam(model.parameters(), lr=LR, fused=True)] * len(groups)

    def step(batch: Batch) -> None:
        for group, optimizer in zip(groups, optimizers, strict=True):
            features = model.trunk(batch.inputs)
            terms = [losses[task](model.heads[task](features), batch.targets[task]) for task in group]
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            optimizer.zero_grad()
            total.backward()
            optimizer.step()

    return step


def block(step: Callable[[Batch], object], batches: Iterator[Batch], count: int) -> float:
    """The median step of a block, so that a neighbour's burst does not decide it."""
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        step(next(batches))
        seconds.append(time.perf_counter() - started)
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


def overhead(setting: Setting, strategy: str, groups: int | None, blocks: int) -> tuple[float, float, float]:
    """Our strategy with tracing on, against the bare loop, each on its own copy of the model."""
    own = Setting(setting.title, copy.deepcopy(setting.model), setting.tasks, setting.batches, setting.steps)
    ours = make_strategy(strategy, own.model, own.tasks, lr=LR, groups=groups)
    path = PathLength(own.model, ours.optimizers)
    bare = Setting(setting.title, copy.deepcopy(setting.model), setting.tasks, setting.batches, setting.steps)
    hand_written = bare_loop(strategy, bare, ours.groups)
    ratios = paired_ratios(lambda batch: ours.step(*batch), hand_written, setting, blocks)
    path.close()
    return median_interval(ratios)


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
        started = time.perf_counter()
        path._before()
        path._after()
        middle = time.perf_counter()
        copies.update()
        ours.append(middle - started)
        theirs.append(time.perf_counter() - middle)
    path.close()
    return 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=21, help="paired blocks per line")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = [multidigits(), celeba()]
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), {arguments.blocks} paired blocks\n")
    print("| network | strategy | ours / bare | 95 % interval |")
    print("|---|---|---|---|")
    for setting in settings:
        few = None if len(setting.tasks) < 10 else 4
        for strategy, groups in (("sus", None), ("ius", few), ("io", few)):
            middle, low, high = overhead(setting, strategy, groups, arguments.blocks)
            label = strategy + (f", {groups} groups" if groups else "")
            print(f"| {setting.title} | {label} | {middle:.3f} | {low:.3f} - {high:.3f} |", flush=True)
    print("\n| network | tracing one update, ours | copying all weights to the host | ratio |")
    print("|---|---|---|---|")
    for setting in settings:
        ours, theirs = tracing(setting)
        print(f"| {setting.title} | {ours:.3f} ms | {theirs:.3f} ms | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
