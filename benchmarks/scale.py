"""What a search's driver costs as the number of trials grows: the whole of it, with simulated trials.

Searcher, halving, tracking, screen, snapshots and Ray's own controller are those of every search; only the actors are
simulated (``simulated.py``): they report at once, and their own work is not counted. Each size has a process of its
own. Costs of events are means at the end of a run, when all trials are known: of the last 500 results, and of the last
200 trials that started and ended; full runs of Python's garbage collector, rare and long, are shared out over all
results instead. They are seconds of the driver's thread, so that a busy machine shows less; what waits for the disk is
told by the clock too. Searcher and snapshots are not in the sum, but beside it.

Delivery to MLflow has its own thread and would take hours here: while the trials run, the store is one that takes no
time; afterwards a real one is filled with all trials but the last 50, whose records are delivered to it as always.
Optuna's suggestions are measured on a study that has learnt from all trials, since with TPE alone 10,000 trials would
take an hour.

    PYTHONPATH=. python benchmarks/scale.py [--sizes 100,1000,10000] [--concurrency 200] [--algorithm random]
"""

import argparse
import logging
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.metering import CONTROLLER, ELSEWHERE, Cost, Meter, timed

PROBLEM, NAME, EPOCHS = "multidigits", "scale", 12
RESULTS, TRIALS, DELIVERED, SUGGESTIONS = 500, 200, 50, 10
SEARCHER, SNAPSHOT = "searcher", "snapshot"
HALVING, TRACKER, SCREEN, LOGGER = "halving", "tracker: to the journal", "screen", "Ray's JSON logger"


class NoStore:
    """Stands in for MLflow's runs where delivery is not what is measured."""

    def __init__(self, *_: Any) -> None:
        pass

    def open_search(self, tags: Mapping[str, str], files: Mapping[str, Any]) -> str:  # noqa: ARG002
        return "none"

    def answers(self) -> bool:
        return True

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    open_trial = log = note = close_trial = _nothing


def wrap_parts(meter: Meter) -> None:
    """Where each part of a driver is entered."""
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.logger import JsonLoggerCallback

    from tune_mtl.ray_tune.callbacks import ProgressCallback, TrackingCallback
    from tune_mtl.ray_tune.loop import TrialLoop
    from tune_mtl.ray_tune.searcher import FairSearcher
    from tune_mtl.ray_tune.snapshots import Snapshots

    meter.wrap_step(TuneController, "step")
    meter.wrap(TuneController, "_update_trial_queue", CONTROLLER, "start")
    meter.wrap(TuneController, "stop_trial", CONTROLLER, "end")
    for callback, part in ((TrackingCallback, TRACKER), (ProgressCallback, SCREEN), (JsonLoggerCallback, LOGGER)):
        meter.wrap(callback, "on_trial_start", part, "start")
        meter.wrap(callback, "on_trial_result", part)
        meter.wrap(callback, "on_trial_complete", part, "end")
    meter.wrap(TrialLoop, "on_trial_add", HALVING, "start")
    meter.wrap(TrialLoop, "on_trial_result", HALVING)
    meter.wrap(TrialLoop, "on_trial_complete", HALVING, "end")
    meter.wrap(TrialLoop, "choose_trial_to_run", HALVING)
    meter.wrap(FairSearcher, "suggest", SEARCHER, "start", listed=True)
    meter.wrap(FairSearcher, "on_trial_result", SEARCHER)
    meter.wrap(FairSearcher, "on_trial_complete", SEARCHER, "end")
    meter.wrap(Snapshots, "take", SNAPSHOT, SNAPSHOT, listed=True)


@contextmanager
def quiet_terminal() -> Iterator[None]:
    """A terminal for the live view, at which nobody looks."""
    from rich.console import Console

    with Path(os.devnull).open("w") as nowhere:
        terminal = Console(file=nowhere, force_terminal=True, width=120)
        with mock.patch("tune_mtl.terminal.live_view.console", return_value=terminal):
            yield


def measure(size: int, concurrency: int, algorithm: str) -> dict[str, Any]:
    """All figures of one size; in a process of its own."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="tune-mtl-scale-") as home, ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"TUNE_MTL_HOME": home}))
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        from benchmarks.simulated import example, simulated_actors
        from tune_mtl.experiment.planning.make import plan_search
        from tune_mtl.experiment.search import _new_trials
        from tune_mtl.ray_tune.cluster import Cluster

        asked = {"samples": size, "replicates": 1, "algorithm": algorithm, "max_epochs": EPOCHS}
        plan = plan_search(PROBLEM, name=NAME, concurrency=concurrency, **asked)
        example(PROBLEM)
        meter = stack.enter_context(Meter())
        stack.enter_context(Cluster(plan.settings.address, own_module=False))
        stack.enter_context(simulated_actors(concurrency, meter.elsewhere, meter.tell))
        stack.enter_context(quiet_terminal())
        with mock.patch("tune_mtl.tracking.tracker.SearchRuns", NoStore):
            wrap_parts(meter)
            trials = _new_trials(plan)
            before = _resident()
            trials.tracker.open({}, {})
            ending, whole = timed(trials.run)
            ending.raise_failure()
            trials.tracker.flush()
            found = _driver(meter, whole, plan.folder)
            found |= {"driver's peak memory, MiB": _peak(), "of it since the first trial, MiB": _peak() - before}
            found |= _resumed(plan)
        found |= _delivered(plan, trials.tracker)
        return found | _suggested(plan)


def _driver(meter: Meter, whole: Cost, folder: Path) -> dict[str, Any]:
    """Of the run itself."""
    from tune_mtl.tracking.names import SNAPSHOT as FILE

    results, starts = meter.count("result"), meter.count("start")
    aside = (SEARCHER, SNAPSHOT, ELSEWHERE)
    by_event = {
        "result": meter.at_the_end("result", RESULTS),
        "start": meter.at_the_end("start", TRIALS),
        "end": meter.at_the_end("end", TRIALS),
    }
    sums = {event: sum((parts[p] for p in parts if p not in aside), Cost()) for event, parts in by_event.items()}
    collector = sum(meter.pauses, Cost()) / results
    each = sums["result"] + (sums["start"] + sums["end"]) / (results / starts) + collector
    found: dict[str, Any] = {
        "results": results,
        "**driver, per result, with its share of a trial's start and end, ms**": 1000 * each.cpu,
        "the same by the clock, ms": 1000 * each.wall,
    }
    found |= {f"of a result: {part}, ms": 1000 * cost.cpu for part, cost in _sorted(by_event["result"], aside)}
    found |= {f"a trial's {event}, ms": 1000 * sums[event].cpu for event in ("start", "end")}
    found["Python's garbage collector, per result of the whole run, ms"] = 1000 * collector.cpu
    found["its longest pause, ms"] = 1000 * max((pause.cpu for pause in meter.pauses), default=0.0)
    taken, shares = meter.calls[SNAPSHOT], meter.shares()
    loop = sum(shares.values()) - shares[ELSEWHERE]
    return found | {
        "searcher: its word on a result, ms": 1000 * by_event["result"].get(SEARCHER, Cost()).cpu,
        "snapshot, ms": 1000 * taken[-1].cpu,
        "snapshot by the clock, ms": 1000 * taken[-1].wall,
        "snapshots: share of the loop's time, %": 100 * shares[SNAPSHOT] / loop,
        "snapshot's size, MB": (folder / FILE).stat().st_size / 1e6,
        "after the last trial, until Ray returns, s": whole.wall - sum(shares.values()) - collector.wall * results,
    }


def _sorted(parts: Mapping[str, Cost], aside: tuple[str, ...]) -> list[tuple[str, Cost]]:
    order = (CONTROLLER, HALVING, TRACKER, SCREEN, LOGGER)
    return [(part, parts[part]) for part in order if part in parts and part not in aside]


def _resumed(plan: Any) -> dict[str, Any]:
    """A resume of the same search, in which everything has ended."""
    from tune_mtl.experiment.running import journal_folder
    from tune_mtl.experiment.search import _restored
    from tune_mtl.tracking.replay import Replay

    _, replay = timed(lambda: Replay.read(journal_folder(plan, "trial")))

    def resume() -> None:
        again = _restored(plan)
        again.tracker.open({}, {})
        again.run().raise_failure()
        again.tracker.flush()

    _, whole = timed(resume)
    return {"resume: reading the replay, s": replay.wall, "resume: until Ray has nothing to do, s": whole.wall}


def _delivered(plan: Any, tracker: Any) -> dict[str, Any]:
    """The last records, told to a real store that holds all others."""
    from benchmarks.filled_store import FilledStore
    from benchmarks.simulated import example
    from tune_mtl.core.files import BEST_WEIGHTS
    from tune_mtl.results.searches import best
    from tune_mtl.results.summaries import summaries
    from tune_mtl.tracking import names
    from tune_mtl.tracking.journal import read_journal
    from tune_mtl.tracking.runs import SearchRuns

    kept, tags = list(read_journal(tracker.folder)), {names.OBJECTIVE: str(plan.objective), names.PROBLEM: PROBLEM}
    last = sorted({record["arguments"]["trial"] for record in kept}, key=int)[-DELIVERED:]
    told = [record for record in kept if record["arguments"]["trial"] in set(last)]
    Path(plan.tracking_uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    parent = SearchRuns(plan.tracking_uri, PROBLEM, NAME).open_search(tags, {})
    FilledStore(plan.tracking_uri, NAME, parent).take(r for r in kept if r["arguments"]["trial"] not in set(last))
    tracker.folder = plan.folder / "delivered"
    tracker.uri = plan.tracking_uri
    _, opened = timed(lambda: tracker.open(tags, {}))
    costs: dict[str, list[Cost]] = {"open": [], "log": [], "end": []}
    for record in told:
        folder = record["arguments"].get("folder")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / BEST_WEIGHTS).write_bytes(example(PROBLEM).weights)
        _, cost = timed(partial(tracker._delivery._calls[record["call"]], **record["arguments"]))
        costs[record["call"]].append(cost)
    tracker.flush()
    _, listed = timed(lambda: summaries(plan.tracking_uri))
    _, won = timed(lambda: best(NAME, tracking_uri=plan.tracking_uri))
    names_of = {"open": "a trial's start", "log": "a result", "end": "a trial's end"}
    found = {f"delivery of {names_of[call]}, ms": 1000 * _mean(costs[call]).cpu for call in ("log", "open", "end")}
    found |= {f"delivery of {names_of[call]} by the clock, ms": 1000 * _mean(costs[call]).wall for call in ("log",)}
    return found | {
        "resume: reading the store, s": opened.wall,
        "`tune-mtl list`, s": listed.wall,
        "`tune-mtl best`, s": won.wall,
    }


def _suggested(plan: Any) -> dict[str, Any]:
    """What a suggestion takes, having learnt from every trial of the run."""
    from tune_mtl.experiment.running import journal_folder
    from tune_mtl.tracking.journal import read_journal

    kept = list(read_journal(journal_folder(plan, "trial")))
    return {
        f"searcher: a suggestion, {algorithm}, ms": 1000 * _suggestion(plan, kept, algorithm).cpu
        for algorithm in ("random", "optuna")
    }


def _suggestion(plan: Any, kept: list[dict[str, Any]], algorithm: str) -> Cost:
    from tune_mtl.ray_tune.searcher import FairSearcher
    from tune_mtl.tracking import names

    searcher = FairSearcher(
        plan.space,
        plan.objective,
        algorithm=algorithm,
        turns=plan.turns,
        seeds=plan.seeds,
        seed=0,
        balanced=True,
        constant=plan.constant,
        tasks=len(plan.problem.tasks),
    )
    configs: dict[str, Any] = {}
    reached: dict[str, int] = {}
    for record in kept:
        told = record["arguments"]
        if record["call"] == "open":
            configs[told["trial"]], reached[told["trial"]] = told["config"], 1
        elif record["call"] == "log":
            reached[told["trial"]] = told["epoch"]
        else:
            value, epochs = told["values"].get(names.best_metric(plan.objective.metric)), reached[told["trial"]]
            searcher.learn(configs[told["trial"]], value=value, reached=epochs, whole=epochs == EPOCHS)
    return _mean([timed(partial(searcher.suggest, f"new{index}"))[1] for index in range(SUGGESTIONS)])


def _mean(costs: list[Cost]) -> Cost:
    return sum(costs, Cost()) / max(1, len(costs))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,1000", help="numbers of trials (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=200, help="trials at once (default: %(default)s)")
    parser.add_argument("--algorithm", choices=("random", "optuna"), default="random", help="default: %(default)s")
    asked = parser.parse_args()
    sizes, columns = [int(size) for size in asked.sizes.split(",")], []
    for size in sizes:
        started = time.monotonic()
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            columns.append(pool.submit(measure, size, asked.concurrency, asked.algorithm).result())
        print(f"{size} trials: {time.monotonic() - started:.0f} s", flush=True)
    print(f"\n| | {' | '.join(f'{size:,}' for size in sizes)} | {sizes[-1]:,} / {sizes[0]:,} |")
    print("|---|" + "---|" * (len(sizes) + 1))
    for row in columns[0]:
        values = [column[row] for column in columns]
        ratio = f"{values[-1] / values[0]:.1f}" if values[0] else "-"
        print(f"| {row} | {' | '.join(_figure(value) for value in values)} | {ratio} |")


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
