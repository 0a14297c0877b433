"""Whole searches on recorded curves, by the project's schedulers and by others: each gives its epochs in their order.

Peers are used as their own documentation shows, in two forms. `FREE`: strategy and group count are dimensions beside
the learning rate, and everything may be spent on one strategy. `FAIR`: a study and a scheduler of its own for every
strategy, and the next epoch always goes to the one that has had fewest, as somebody does who compares strategies.
"""

import logging
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import Any

import optuna
from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler
from ray.tune.search.optuna import OptunaSearch

from benchmarks.curves_table import World
from benchmarks.replay import LEARNING_RATES, Design, replay
from benchmarks.stand_in import Epoch, Events, StandIn
from search_spaces import Choice, LogRange

GRID_RATES = LogRange(5e-4, 2e-2).points()
WIDE_GRID_RATES = LEARNING_RATES.points()
"""Of a grid that looks wherever the others do."""
TRIALS = 15
"""Of each strategy, at most, in our own searches."""
Story = Iterator[Epoch]
Policy = Callable[[World, int], Story]
"""A way to search: in a world, with a seed of its own."""


def ours(design: Design) -> Policy:
    """Return a search of the project: one tuning of each strategy."""
    return lambda world, seed: iter(replay(world, design, seed=seed).story)


def drawn(world: World, random_: random.Random) -> dict[str, Any]:
    """Return a random config."""
    strategy = random_.choice(list(world.contestants))
    counts = world.groups[strategy]
    groups = {"groups": random_.choice(counts)} if counts else {}
    return {"strategy": strategy, **groups, "lr": LEARNING_RATES.at(random_.random()), "seed": 0}


def whole(world: World, configs: Iterator[Mapping[str, Any]]) -> Story:
    """Train configs to their ends, one after the other."""
    for name, config in enumerate(configs):
        for epoch, value in enumerate(world.run(config)[0], 1):
            yield Epoch(str(name), config, epoch, float(value))


def random_search(world: World, seed: int) -> Story:
    """Random configs, each trained to its end."""
    random_ = random.Random(seed)
    return whole(world, (drawn(world, random_) for _ in count()))


def grid(rates: Sequence[float]) -> Policy:
    """Return a grid: every config at these learning rates, in random order, each trained to its end."""

    def told(world: World, seed: int) -> Story:
        configs = [
            {"strategy": strategy, **({"groups": groups} if groups else {}), "lr": lr, "seed": 0}
            for strategy in world.contestants
            for groups in (world.groups[strategy] or (0,))
            for lr in rates
        ]
        random.Random(seed).shuffle(configs)
        return whole(world, iter(configs))

    return told


def asked(world: World) -> Callable[[optuna.Trial], dict[str, Any]]:
    """Return what Optuna is asked for."""

    def ask(trial: optuna.Trial) -> dict[str, Any]:
        strategy = trial.suggest_categorical("strategy", list(world.contestants))
        counts = world.groups[strategy]
        groups = {"groups": Choice(counts).suggest(trial, f"{strategy}_groups")} if counts else {}
        return {"strategy": strategy, **groups, "lr": LEARNING_RATES.suggest(trial, "lr"), "seed": 0}

    return ask


def optuna_hyperband(world: World, seed: int) -> Story:
    """Optuna by itself: TPE and its Hyperband pruner, both as they come, one trial at a time."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=world.table.epochs, reduction_factor=3)
    study = optuna.create_study(study_name=str(seed), sampler=optuna.samplers.TPESampler(seed=seed), pruner=pruner)
    ask = asked(world)
    while True:
        trial = study.ask()
        config = ask(trial)
        state, value = optuna.trial.TrialState.COMPLETE, math.nan
        for epoch, value in enumerate(map(float, world.run(config)[0]), 1):
            trial.report(value, epoch)
            yield Epoch(str(trial.number), config, epoch, value)
            if epoch < world.table.epochs and trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, value if state == optuna.trial.TrialState.COMPLETE else None, state=state)


def stock_ray(world: World, seed: int, slots: int = 2) -> Story:
    """Ray Tune by itself: its ASHA scheduler and `OptunaSearch`, both as they come, two trials at once."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    scheduler = AsyncHyperBandScheduler("training_iteration", "loss", "min", max_t=world.table.epochs)
    ask, config = asked(world), dict[str, Any]()

    def define(trial: optuna.Trial) -> None:
        config.clear()
        config.update(ask(trial))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        searcher = OptunaSearch(define, metric="loss", mode="min", seed=seed)
    events = Events(random.Random(seed))

    def start() -> None:
        name = str(next(names))
        searcher.suggest(name)
        trial = StandIn(name, dict(config), [float(value) for value in world.run(config)[0]])
        scheduler.on_trial_add(None, trial)  # type: ignore[arg-type]
        events.add(trial)

    names = count()
    for _ in range(slots):
        start()
    for trial in events:
        value = trial.train()
        yield Epoch(trial.trial_id, trial.config, trial.epoch, value)
        result = {"training_iteration": trial.epoch, "loss": value}
        done = trial.epoch == world.table.epochs
        if not done:
            searcher.on_trial_result(trial.trial_id, result)
            done = scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP  # type: ignore[arg-type]
        if done:
            scheduler.on_trial_complete(None, trial, result)  # type: ignore[arg-type]
            searcher.on_trial_complete(trial.trial_id, result)
            start()
        else:
            events.add(trial)


def fair(policy: Policy) -> Policy:
    """Return the same for every strategy by itself; who has trained least is next, as long as there is something left.

    All strategies have the same seed, and so begin with the same draws.
    """

    def told(world: World, seed: int) -> Story:
        worlds = {name: World(world.table, {name: its}, world.seed) for name, its in world.contestants.items()}
        stories = {name: policy(its, seed) for name, its in worlds.items()}
        spent = dict.fromkeys(stories, 0)
        while stories:
            name = min(stories, key=spent.__getitem__)
            one = next(stories[name], None)
            if one is None:
                del stories[name]
            else:
                spent[name] += 1
                yield replace(one, trial=f"{name} {one.trial}")

    return told


OURS = Design(trials=TRIALS, replicates=1)
STOCK_RAY = "Ray: ASHA + OptunaSearch"
PEERS: dict[str, Policy] = {
    STOCK_RAY: stock_ray,
    "Optuna: TPE + Hyperband": optuna_hyperband,
    "random search": random_search,
    "grid": grid(GRID_RATES),
    "grid, all rates": grid(WIDE_GRID_RATES),
}
FAIR: dict[str, Policy] = {
    "thaw": ours(replace(OURS, scheduler="thaw")),
    "asha": ours(OURS),
    "no early stopping": ours(replace(OURS, scheduler="none")),
    **{name: fair(policy) for name, policy in (PEERS | {STOCK_RAY: partial(stock_ray, slots=1)}).items()},
}
"""Equal epochs for every strategy; `asha` and those without early stopping have equal trials. Stock Ray has one trial
of each strategy at once here, two of all in `FREE`."""
FREE: dict[str, Policy] = {
    "thaw, free": ours(replace(OURS, scheduler="thaw", balanced=False)),
    "asha, free": ours(replace(OURS, balanced=False)),
    **{f"{name}, free": policy for name, policy in PEERS.items()},
}
"""Strategy is one more dimension."""
POLICIES = {**FAIR, **FREE}


def story(policy: str, world: World, seed: int, most: int) -> list[Epoch]:
    """Return the first ``most`` epochs of a search, fewer if it ends."""
    return list(islice(POLICIES[policy](world, seed), most))
