"""How long ``tune-mtl best NAME --json`` takes, here and in another copy of this repository, on one store.

Makes a store with a finished search, then starts the command from both copies in turn, each in a process of its own;
both must print the same. The copy to compare with:

    git worktree add --detach /tmp/before COMMIT
    PYTHONPATH=. python benchmarks/light_commands.py --before /tmp/before [--runs 9] [--trials 24]
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEARCH = "made"
COMMAND = (sys.executable, "-m", "tune_mtl.cli", "best", SEARCH, "--json")


def start(copy: Path) -> tuple[float, float, bytes]:
    """Run the command from the code in ``copy``; return its seconds by the clock, of the CPU, and what it printed."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(COMMAND, cwd=copy, env=environment, stdout=subprocess.PIPE, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--trials", type=int, default=24)
    asked = parser.parse_args()
    from tests.tracking.many import fill

    copies = {"before": asked.before.absolute(), "now": Path.cwd()}
    runs: dict[str, list[tuple[float, float, bytes]]] = {name: [] for name in copies}
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUNE_MTL_HOME"] = home
        fill(f"sqlite:///{home}/mlflow.db", SEARCH, asked.trials)
        for copy in copies.values():  # modules are compiled and in memory
            start(copy)
        for _ in range(asked.runs):
            for name, copy in copies.items():
                runs[name].append(start(copy))
    if len({printed for found in runs.values() for *_, printed in found}) != 1:
        raise SystemExit("both must print the same")
    print(f"{asked.runs} runs each, load average {os.getloadavg()[0]:.1f}\n")
    print("| | before | now | now / before |")
    print("|---|---:|---:|---:|")
    for which, label in enumerate(("by the clock", "of the CPU (user and system)")):
        before, now = (statistics.median(run[which] for run in runs[name]) for name in ("before", "now"))
        print(f"| {label} | {before:.2f} s | {now:.2f} s | {now / before:.2f} |")
    pairs = zip(runs["before"], runs["now"], strict=True)
    print(f"\nby the clock, pair by pair: {', '.join(f'{now[0] / before[0]:.2f}' for before, now in pairs)}")


if __name__ == "__main__":
    main()
