"""Whole searches without training: the real searcher, scheduler, choice of what is confirmed, and statistics.

Trials report recorded learning curves (see `curves_table.py`); everything else is the code that runs a real search. The
same seed gives the same search.

    python benchmarks/replay.py --strategies sus,io --trials 4 --replicates 8 --searches 200

prints how often each pair is told apart, and what that costs. `verdicts.py` prints the tables of docs/statistics.md.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.stand_in import Epoch, Events, StandIn
from search_spaces import Choice, LogRange, Space
from trainables.keys import OUTCOME, REPLICATE, SMOOTHED_OVER, TRIAL, judged, proper
from tune_mtl.core.objective import Objective
from tune_mtl.experiment.growth import undecided
from tune_mtl.experiment.planning.plan import GRACE
from tune_mtl.experiment.planning.replication import (
    DEFAULT_REPLICATES,
    FIRST_REPLICATES,
    MOST_REPLICATES,
    TRIALS_PER_TUNING,
    looks_between,
)
from tune_mtl.ray_tune.halving import FairHalving
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.ray_tune.thaw.policy import Begin
from tune_mtl.ray_tune.thaw.thaw import Thaw
from tune_mtl.ray_tune.turns import ANY, Turn, fresh_seeds, guided_turns
from tune_mtl.reporting.results import Results
from tune_mtl.results.best_trial import BestTrial
from tune_mtl.results.search_data import SearchData, Trained
from tune_mtl.results.settings import FIRST_TRIALS, Growth
from tune_mtl.tracking import names
from tune_mtl.tracking.ranking import Ranking

METRIC = "val/loss"
LEARNING_RATES = LogRange(1e-4, 1e-1)


@dataclass(frozen=True, kw_only=True)
class Design:
    """How a search is made.

    Attributes:
        trials: Of each tuning.
        replicates: Tunings of each strategy.
        looks: After how many replicates a growing search is judged; empty: it does not grow.
        fresh: Seeds on which each choice is judged.
        algorithm: ``optuna`` or ``random``.
        scheduler: ``asha``, ``thaw`` or ``none``.
        judge: By which value an epoch is judged: ``last``, ``best``, ``smoothed``; None: as a search does by default.
        share: What a tuning may train with ``thaw``, of what its trials would cost in full; None: the default.
        startup: Its first trials, drawn evenly, with ``thaw``.
        slots: Trials at once.
        common_draws: Whether the strategies of a replicate begin with the same draws.
        balanced: Whether every strategy has tunings of its own and equal shares; else strategy is one more dimension.
        naive_looks: Whether a growing search is judged at every look as if it were the only one, to show what that
            does.
    """

    trials: int = TRIALS_PER_TUNING
    replicates: int = DEFAULT_REPLICATES
    looks: tuple[int, ...] = ()
    fresh: int = 1
    algorithm: str = "optuna"
    scheduler: str = "asha"
    judge: str | None = None
    share: float | None = None
    startup: int = FIRST_TRIALS
    slots: int = 2
    common_draws: bool = True
    balanced: bool = True
    naive_looks: bool = False


AUTO = Design(
    replicates=FIRST_REPLICATES,
    looks=looks_between(FIRST_REPLICATES, MOST_REPLICATES),
)


@dataclass(frozen=True)
class Replayed:
    """A search that was replayed: what a report would say, and what it cost in epochs.

    Attributes:
        results: What a report is made of.
        search_epochs: Of all trials.
        confirm_epochs: Of all runs on fresh seeds.
        story: Every epoch of the trials, in the order in which they were trained.
    """

    results: Results
    search_epochs: int
    confirm_epochs: int
    story: Sequence[Epoch] = ()

    @property
    def told_apart(self) -> list[tuple[str, str]]:
        """The pairs of strategies that the verdict tells apart, the better one first."""
        return [(one.a, one.b) for one in self.results.comparisons() if one.told_apart]

    @property
    def epochs(self) -> int:
        """All that was trained."""
        return self.search_epochs + self.confirm_epochs


def replay(world: World, design: Design, *, lr: LogRange = LEARNING_RATES, seed: int | None = None) -> Replayed:
    """Replay one search in ``world``; ``seed`` is the searcher's (default: the world's)."""
    driver = _Driver(world, design, lr, world.seed if seed is None else seed)
    driver.run(design.replicates)
    for size in (look for look in design.looks if look > design.replicates):
        open_ = undecided(driver.results())
        if len(open_) < 2:
            break
        driver.grow(size, tuple(name for name in world.contestants if name in open_))
    return Replayed(driver.results(), driver.search_epochs, driver.confirm_epochs, driver.story)


class _Driver:
    """Runs the trials of a search and what confirms them, in simulated time."""

    def __init__(self, world: World, design: Design, lr: LogRange, seed: int) -> None:
        self.world, self.design, self.seed = world, design, seed
        self.space = Space(
            name="replay",
            strategies=tuple(world.contestants),
            dimensions={"lr": lr},
            per_strategy={name: {"groups": Choice(counts)} for name, counts in world.groups.items() if counts},
        )
        self.objective = Objective(METRIC)
        self.trials: list[Trained] = []
        self.reruns: list[Trained] = []
        self.story: list[Epoch] = []
        self.search_epochs = self.confirm_epochs = 0
        self.replicates = self.started = 0
        self.searchers = [self._searcher(name) for name in ([None] if design.common_draws else world.contestants)]
        self.halving = FairHalving(
            self.space.strategies if design.scheduler == "asha" else None,
            self.objective,
            judged=judged(design.judge or "last", METRIC),
            length=world.table.epochs,
            grace=max(1, math.ceil(world.table.epochs * GRACE)),
            balanced=design.balanced,
        )
        self.clock = random.Random(seed)
        self.tunings: dict[tuple[str, int], int] = {}
        self.policy: Thaw | None = None

    def _searcher(self, only: str | None) -> FairSearcher:
        """Return the searcher; of one strategy ``only``, with draws of its own, where draws are not common."""
        seed = self.seed if only is None else hash_of(self.seed, only)
        space = self.space if only is None else replace(self.space, strategies=(only,))
        turns = guided_turns(space, self.design.trials * len(space.strategies), 1, balanced=self.design.balanced)
        return FairSearcher(
            space, self.objective, algorithm=self.design.algorithm, turns=turns, seeds={0: 0}, seed=seed,
            balanced=self.design.balanced, constant={}, judged=judged(self.design.judge or "best", METRIC),
            tasks=max((max(c) for c in self.world.groups.values() if c), default=1),
        )  # fmt: skip

    def run(self, replicates: int) -> None:
        """Run and confirm the first replicates."""
        self._extend(replicates, self.space.strategies)

    def grow(self, replicates: int, strategies: tuple[str, ...]) -> None:
        """Run and confirm more of them, up to ``replicates``, of some strategies."""
        self._extend(replicates, strategies)

    def _extend(self, replicates: int, strategies: tuple[str, ...]) -> None:
        added = range(self.replicates, replicates)
        self.replicates = replicates
        for searcher in self.searchers:
            its = tuple(name for name in strategies if name in searcher._space.strategies)
            trials = self.design.trials * len(its) * len(added)
            growth = Growth(replicates=tuple(added), strategies=its or ("",), trials=trials)
            turns: list[Turn] = guided_turns(self.space, 0, 1, [growth], balanced=self.design.balanced)
            searcher.turns = [*searcher.turns[: searcher._issued], *turns]
            searcher.seeds = {index: index for index in range(replicates)}
            self._drive(searcher)
        self.reruns += self._confirm(added)

    def _drive(self, searcher: FairSearcher) -> None:
        """Let trials report their curves, ``slots`` at once, each epoch taking about a unit of time."""
        if self.design.scheduler == "thaw":
            self._thaw(searcher)
            return
        events, ended = Events(self.clock), []

        def start() -> None:
            trial = self._started(searcher)
            if trial is not None:
                self.halving.enter(trial)  # type: ignore[arg-type]
                events.add(trial)

        for _ in range(self.design.slots):
            start()
        for trial in events:
            result = self._reported(trial)
            stop = not result["done"] and self.halving.judge(trial, result).stops  # type: ignore[arg-type]
            if result["done"] or stop:
                searcher.on_trial_complete(trial.trial_id, result)
                self.halving.leave(trial, result)  # type: ignore[arg-type]
                ended.append(self._trained(trial, "completed" if result["done"] else "stopped_early"))
                start()
            else:
                searcher.on_trial_result(trial.trial_id, result)
                events.add(trial)
        self.trials += sorted(ended, key=lambda run: run.trial_id)

    def _thaw(self, searcher: FairSearcher) -> None:
        """Likewise, while the policy decides after every step who trains on."""
        turns, searcher.turns = searcher.turns[searcher._issued :], searcher.turns[: searcher._issued]
        for turn in turns:
            tuning = turn.strategy or ANY, turn.replicate
            self.tunings[tuning] = self.tunings.get(tuning, 0) + 1
        length = self.world.table.epochs
        policy = Thaw(
            self.space, self.objective, length=length, step=max(1, math.ceil(length * GRACE)), seed=self.seed,
            trials=self.tunings, share=self.design.share, startup=self.design.startup,
        )  # fmt: skip
        if self.policy is not None:
            policy.take_up(self.policy.state())
        self.policy = policy
        events, live = Events(self.clock), dict[str, StandIn]()
        running: dict[str, float] = {}

        def fill() -> None:
            while len(running) < self.design.slots:
                step = policy.next(running)
                if step is None:
                    return
                if isinstance(step, Begin):
                    strategy, replicate = step.tuning
                    seed = {"strategy": strategy, "seed": searcher.seeds[replicate]}
                    values = None if step.values is None else {**seed, **step.values}
                    searcher.turns.append(Turn(None if strategy == ANY else strategy, replicate, values))
                    begun = self._started(searcher)
                    assert begun is not None
                    trial = begun
                    live[trial.name] = trial
                    policy.begun(trial.name, step.tuning, trial.config)
                else:
                    trial = live[step.trial]
                running[trial.name] = step.until
                events.add(trial)

        fill()
        for trial in events:
            result = self._reported(trial)
            policy.seen(trial.name, trial.epoch, result[judged(self.design.judge or "last", METRIC)])
            if result["done"]:
                policy.ended(trial.name, reached=trial.epoch, diverged=False, failed=False)
                searcher.on_trial_complete(trial.trial_id, result)
            else:
                searcher.on_trial_result(trial.trial_id, result)
            if result["done"] or trial.epoch >= running[trial.name]:
                del running[trial.name]
                fill()
            else:
                events.add(trial)
        for trial in live.values():
            complete = trial.epoch == length
            self.trials.append(self._trained(trial, "completed" if complete else "stopped_early"))
            if not complete:
                searcher.on_trial_complete(trial.trial_id, {**trial.last, OUTCOME: "stopped_early"})
                policy.ended(trial.name, reached=trial.epoch, diverged=False, failed=False)

    def _started(self, searcher: FairSearcher) -> StandIn | None:
        """Return the next trial that the searcher suggests; None: there is none."""
        self.started += 1
        config = searcher.suggest(str(self.started))
        if config == FairSearcher.FINISHED:
            return None
        return StandIn(str(self.started), config, [float(value) for value in self.world.run(config)[0]])

    def _reported(self, trial: StandIn) -> dict[str, Any]:
        """Return what a trial reports after its next epoch."""
        value = trial.train()
        self.search_epochs += 1
        self.story.append(Epoch(trial.trial_id, trial.config, trial.epoch, value))
        done = trial.epoch == len(trial.curve)
        outcome = "completed" if done else "running"
        recent = trial.curve[max(0, trial.epoch - SMOOTHED_OVER) : trial.epoch]
        trial.last = {
            "epoch": trial.epoch, METRIC: value, "best": trial.best, "smoothed": statistics.fmean(recent), "done": done,
            OUTCOME: outcome,
        }  # fmt: skip
        return dict(trial.last)

    def _trained(self, trial: StandIn, outcome: str) -> Trained:
        config = proper(trial.config)
        metrics = {names.best_metric(METRIC): trial.best}
        name = f"{len(self.trials):04d} {trial.config[TRIAL]}"
        return Trained(name, name, "", outcome, config, metrics, trial.config[REPLICATE])

    def _confirm(self, added: Sequence[int]) -> list[Trained]:
        """Train the choice of each new tuning on its fresh seeds."""
        search, found = self.search(), []
        seeds = fresh_seeds(list(range(max(self.replicates, 1))), self.design.fresh)
        for (strategy, replicate), config in search.tunings.items():
            for seed in seeds[replicate] if replicate in added else ():
                curve, test = self.world.run({**config, "seed": seed})
                self.confirm_epochs += len(curve)
                name = names.rerun_id(names.CONFIRM, strategy, seed)
                metrics = {names.best_metric(METRIC): float(curve.min()), "test/loss": test}
                again = {**config, "seed": seed}
                found.append(Trained(name, name, names.CONFIRM, "completed", again, metrics, replicate))
        return found

    def search(self) -> SearchData:
        """Return what a report would read."""
        ranking = Ranking(self.objective, by_mean=False)
        configs: dict[str, Mapping[str, Any]] = {}
        for run in self.trials:
            ranking.add(run.trial_id, run.run_id, run.config, run.metrics[names.best_metric(METRIC)])
            configs[run.run_id] = run.config
        winners = {
            strategy: BestTrial(
                config=dict(configs[won.run_id]), metrics={}, run_id=won.run_id, trial_id=won.run_id,
                outcome="completed", value=won.value, seeds=won.seeds, objective=self.objective, tracking_uri="",
            )
            for strategy, won in ranking.winners().items()
        }  # fmt: skip
        looks = () if self.design.naive_looks else self.design.looks
        facts = {"looks": list(looks) or None, "trials_per_tuning": self.design.trials}
        return SearchData(
            name="replay", problem="replay", objective=self.objective,
            settings={"algorithm": self.design.algorithm, "scheduler": self.design.scheduler},
            facts=facts, trials=list(self.trials), reruns=list(self.reruns), winners=winners, state="complete", tags={},
            run_id="", client=None,  # type: ignore[arg-type]
        )  # fmt: skip

    def results(self) -> Results:
        """Return what a report would say."""
        return Results.of(self.search())


def hash_of(seed: int, name: str) -> int:
    """Return a searcher's seed of a strategy's own."""
    return random.Random(f"{seed} {name}").getrandbits(31)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=Path(__file__).with_name("curves") / "multidigits.jsonl")
    parser.add_argument("--strategies", default="sus,ius,io")
    parser.add_argument("--trials", type=int, default=TRIALS_PER_TUNING)
    parser.add_argument("--replicates", default=str(DEFAULT_REPLICATES), help="a number, or auto")
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first search")
    arguments = parser.parse_args()
    table, names_of = Table.read(arguments.table), arguments.strategies.split(",")
    auto = arguments.replicates == "auto"
    design = AUTO if auto else Design(trials=arguments.trials, replicates=int(arguments.replicates))
    started, found = time.monotonic(), []
    for seed in range(arguments.seed, arguments.seed + arguments.searches):
        found.append(replay(World(table, {name: Contestant(name) for name in names_of}, seed=seed), design))
    for first, second in combinations(names_of, 2):
        told = [{first, second} in map(set, one.told_apart) for one in found]
        print(f"{first} / {second}: told apart in {statistics.fmean(told):.1%} of {len(found)} searches")
    pace = len(found) / (time.monotonic() - started) * 60
    print(
        f"{statistics.fmean(one.epochs for one in found):.0f} epochs a search on average; {pace:.0f} searches a minute"
    )


if __name__ == "__main__":
    main()
