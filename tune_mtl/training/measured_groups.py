"""Groups that are formed by what the tasks' gradients are like before training."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from tune_mtl.core.data import Batch, Data
from tune_mtl.core.model import MultiTaskModel
from tune_mtl.core.problem import Problem
from tune_mtl.core.seeds import generator, isolated
from tune_mtl.strategies.alike import alike_groups
from tune_mtl.strategies.grouping import Grouping
from tune_mtl.strategies.labels import Labelled
from tune_mtl.strategies.make import make_strategy
from tune_mtl.training.config import Config
from tune_mtl.training.diagnosis.agreement import Agreement
from tune_mtl.training.diagnosis.gradients import trunk_gramian
from tune_mtl.training.diagnosis.quiet import without_a_trace
from tune_mtl.training.loader import batches, training_order

MEASURED = 8
"""Mini-batches of the first epoch over which cosines are averaged; training sees them all the same."""


@dataclass(frozen=True)
class Grouped:
    """The groups of a trial, and the seconds that it took to find them; None where nothing had to be measured."""

    groups: Grouping | None
    seconds: float | None = None


def choose_groups(
    problem: Problem,
    config: Config,
    model: MultiTaskModel,
    train: Data,
    place: Callable[[Batch, torch.Generator], Batch],
    device: torch.device,
) -> Grouped:
    """Return the config's groups; those by affinity or conflict are formed from cosines at ``model``'s weights.

    The cosine of two tasks is the mean over the first ``MEASURED`` mini-batches of training, wherever both have labels.
    One group, and one for each task, are what they are.
    """
    groups, by, tasks = config.groups, config.groups_by, [task.name for task in problem.tasks]
    if by in (None, "random") or not isinstance(groups, int) or groups in (1, len(tasks)):
        return Grouped(groups)
    started = time.perf_counter()
    autocast = torch.bfloat16 if config.precision == "bf16" else None
    order = training_order(len(train), config.batch_size, config.seed, 0)[:MEASURED]
    augmented = partial(place, random=generator(config.seed, "groups", device=device))  # type: ignore[call-arg]
    with isolated():
        looking = make_strategy("sus", model.train(), problem.tasks, lr=config.lr, autocast=autocast)
        found = []
        for batch in batches(train, order, augmented, device, config.seed, 0):
            with without_a_trace(model):
                products = trunk_gramian(looking, Labelled.of(looking.tasks, *batch))
            found.append(Agreement.of(products, torch.ones(len(tasks), dtype=torch.float64)).cosines)
    cosines = torch.stack(found).nanmean(dim=0).numpy()
    affinity = -cosines if by == "conflict" else cosines
    seed = config.seed if config.groups_seed is None else config.groups_seed
    return Grouped(alike_groups(tasks, affinity, groups, seed), time.perf_counter() - started)
