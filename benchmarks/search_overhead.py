"""What a search costs on top of its trials' training, side by side in one run.

1. Wall time of a search, from the first trial's start to the last one's end, against the same configs trained bare (the
   engine's trainer, no Ray, no tracking) by as many processes at the same concurrency.
2. The start of a trial when actors are reused.
3. Tracking: seconds per result through our recorder, and through Ray's own MLflow callback.

    python benchmarks/search_overhead.py [--trials 6] [--epochs 12]
"""

import argparse
import itertools
import json
import logging
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CONCURRENCY = 2


def train_bare(config: dict[str, Any]) -> float:
    """One trial without the harness around the trainer; returns its training seconds."""
    from tune_mtl.problems.registry import load_problem
    from tune_mtl.training.config import resolve
    from tune_mtl.training.trainer import Trainer

    problem = load_problem(config["problem"])
    problem.data("train"), problem.data("val")
    trainer = Trainer(problem, resolve(problem, config, config["problem"]))
    started = time.monotonic()
    while not trainer.finished:
        trainer.run_period()
    return time.monotonic() - started


def bare_wall(configs: list[dict[str, Any]]) -> tuple[float, float]:
    """Wall time of all configs at the same concurrency, imports and data aside, and their summed training time."""
    with ProcessPoolExecutor(CONCURRENCY, mp_context=get_context("spawn")) as pool:
        list(pool.map(train_bare, [{**config, "epochs": 1} for config in configs[:CONCURRENCY]]))
        started = time.monotonic()
        seconds = list(pool.map(train_bare, configs))
        return time.monotonic() - started, sum(seconds)


def search_wall(scheduler: str, trials: int, epochs: int, name: str) -> dict[str, Any]:
    """A search; wall time from the first trial's start to the last one's end, read from Ray's own results."""
    import tune_mtl
    from tune_mtl.tracking import delivery as recorder

    kept: list[recorder.Delivery] = []
    made = recorder.Delivery.__init__

    def remember(self: recorder.Delivery, *given: Any) -> None:
        made(self, *given)
        kept.append(self)

    recorder.Delivery.__init__ = remember  # type: ignore[method-assign]
    result = tune_mtl.search(
        "multidigits",
        name=name,
        strategies=["io"],
        lr="1e-3:1e-2",
        groups="4",
        algorithm="random",
        scheduler=scheduler,
        samples=trials,
        replicates=1,
        max_epochs=epochs,
        concurrency=CONCURRENCY,
    )
    recorder.Delivery.__init__ = made  # type: ignore[method-assign]
    ends, starts, actor_starts, trained = [], [], [], 0.0
    by_process: dict[int, list[tuple[float, float]]] = {}
    for path in result.folder.glob("trial_*/result.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        start = lines[0]["timestamp"] - lines[0]["time_total_s"]
        starts.append(start)
        ends.append(lines[-1]["timestamp"])
        trained += lines[-1]["time_total_s"]
        by_process.setdefault(lines[0]["pid"], []).append((start, lines[-1]["timestamp"]))
    for spans in by_process.values():
        spans.sort()
        actor_starts += [later[0] - earlier[1] for earlier, later in itertools.pairwise(spans)]
    configs = [
        {key: value for key, value in row.items() if key in CONFIG_KEYS} for row in result.trials().to_dict("records")
    ]
    return {
        "wall": max(ends) - min(starts),
        "trained": trained,
        "between": statistics.median(actor_starts) if actor_starts else float("nan"),
        "tracking": statistics.median(kept[0].seconds),
        "configs": configs,
        "sample": result.folder,
    }


CONFIG_KEYS = (
    "problem", "strategy", "lr", "groups", "seed", "optimizer", "batch_size", "eval_batch_size", "epochs", "metric",
    "evaluate_every", "threads", "channels_last",
)  # fmt: skip


def rays_callback(sample: Path, folder: Path) -> float:
    """Seconds per result of Ray's MLflowLoggerCallback on the same results and the same kind of store."""
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    lines = [json.loads(line) for line in next(sample.glob("trial_*/result.json")).read_text().splitlines()]
    callback = MLflowLoggerCallback(tracking_uri=f"sqlite:///{folder / 'ray.db'}", experiment_name="ray")
    callback.setup()
    trial = SimpleNamespace(trial_id="x", config={"lr": 0.1}, local_path=str(folder), evaluated_params={"lr": 0.1})
    trial.__str__ = lambda: "x"  # type: ignore[method-assign]
    trial = Hashable(**vars(trial))
    callback.log_trial_start(trial)
    seconds = []
    for number, line in enumerate(lines):
        started = time.perf_counter()
        callback.log_trial_result(number, trial, line)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


class Hashable(SimpleNamespace):
    """A stand-in for a Ray trial."""

    def __hash__(self) -> int:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUNE_MTL_HOME"] = home
        plain = search_wall("none", arguments.trials, arguments.epochs, "plain")
        bare, bare_sum = bare_wall(plain["configs"])
        halved = search_wall("asha", arguments.trials, arguments.epochs, "asha")
        ray_seconds = rays_callback(plain["sample"], Path(home))
    mean = bare_sum / len(plain["configs"])
    print(f"\n{arguments.trials} trials of {mean:.1f} s bare training, {CONCURRENCY} at once\n")
    print("| figure | value |")
    print("|---|---|")
    print(f"| search wall / bare wall, scheduler none | {plain['wall'] / bare:.3f} |")
    print(f"| search wall (ASHA) / search wall (none) | {halved['wall'] / plain['wall']:.3f} |")
    print(f"| search wall (ASHA) / its own training time per slot | {halved['wall'] / (halved['trained'] / 2):.3f} |")
    print(f"| from the end of a trial to the start of the next in its reused actor | {plain['between']:.2f} s |")
    print(f"| tracking, our recorder, per result (off the critical path) | {1e3 * plain['tracking']:.1f} ms |")
    print(f"| tracking, Ray's MLflowLoggerCallback, per result (in the driver's loop) | {1e3 * ray_seconds:.1f} ms |")


if __name__ == "__main__":
    main()
