"""What `--diagnose` costs: a look at the tasks' gradients next to one epoch, and the path by layer next to a step.

Looks and mini-batches of SUS alternate in one process, so that a busy machine slows both; an epoch is as many
mini-batches as the data set has. Ratios of medians of CPU seconds are reported.

    python benchmarks/diagnosis.py [--rounds 7] [--threads 1] [--networks multidigits,celeba]
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from step_overhead import Setting, celeba, multidigits

from tune_mtl import PathLength, TensorData, make_strategy
from tune_mtl.core.data import Batch
from tune_mtl.strategies.labels import Labelled
from tune_mtl.training.diagnosis.diagnosis import affordable_samples
from tune_mtl.training.diagnosis.gradients import trunk_gramian
from tune_mtl.training.diagnosis.quiet import without_a_trace

MULTIDIGITS, CELEBA = 3000, 162_770
"""Training samples."""


def seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def resized(batch: Batch, count: int) -> Batch:
    """The samples of a batch again and again, until there are ``count``."""
    data = TensorData(batch.inputs, batch.targets)
    return data.batch(torch.arange(count) % len(data))


def look(setting: Setting, train: int, strategy: str, rounds: int) -> tuple[int, float, float]:
    """Samples of a look, and its cost next to an epoch of SUS, and of ``strategy``."""
    samples = affordable_samples(train, len(setting.tasks))
    batch, looked = setting.batches[0], resized(setting.batches[0], samples)
    sus, other = (
        make_strategy(name, copy.deepcopy(setting.model), setting.tasks, lr=1e-3) for name in ("sus", strategy)
    )

    def diagnose() -> None:
        with without_a_trace(sus.model):
            trunk_gramian(sus, Labelled.of(sus.tasks, *looked))

    timed: Sequence[list[float]] = [[], [], []]
    sus.step(*batch)
    other.step(*batch)
    for _ in range(rounds):
        found = [seconds(action) for action in (diagnose, lambda: sus.step(*batch), lambda: other.step(*batch))]
        for values, value in zip(timed, found, strict=True):
            values.append(value)
    cost, step, others = map(statistics.median, timed)
    epoch = train / len(batch.inputs)
    return samples, cost / (step * epoch), cost / (others * epoch)


def by_layer(setting: Setting, rounds: int) -> float:
    """A step of SUS whose path is traced by layer too, next to one whose path is traced as a whole."""
    made = [make_strategy("sus", copy.deepcopy(setting.model), setting.tasks, lr=1e-3) for _ in range(2)]
    paths = [PathLength(one.model, one.optimizers, by_layer=layered) for one, layered in zip(made, (0, 1), strict=True)]
    timed: Sequence[list[float]] = [[], []]
    for number in range(rounds * setting.steps + 1):
        batch = setting.batches[number % len(setting.batches)]
        for one, values in zip(made, timed, strict=True):
            spent = seconds(lambda one=one, batch=batch: one.step(*batch))
            if number:
                values.append(spent)
    for path in paths:
        path.close()
    return statistics.median(timed[1]) / statistics.median(timed[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--networks", default="multidigits,celeba")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print("| network | samples of a look | of an epoch of `sus` | of an epoch of `io` | step with the path by layer |")
    print("|---|---|---|---|---|")
    known = {"multidigits": (multidigits, MULTIDIGITS, 10 * asked.rounds), "celeba": (celeba, CELEBA, asked.rounds)}
    for name in asked.networks.split(","):
        make, train, rounds = known[name]
        setting = make()
        samples, of_sus, of_io = look(setting, train, "io", rounds)
        layered = by_layer(setting, rounds)
        print(f"| {setting.title} | {samples} | {of_sus:.2%} | {of_io:.2%} | {layered:.3f} |", flush=True)


if __name__ == "__main__":
    main()
