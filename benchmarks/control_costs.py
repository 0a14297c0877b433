"""What controls cost, by who is asked for: epochs of whole searches that are replayed on recorded curves.

    PYTHONPATH=. python benchmarks/control_costs.py --searches 40

prints the table of docs/statistics.md. Everything but training is the code of real searches: tunings, verdict, the rule
of who is asked, and the plan of the runs.
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

from benchmarks.curves_table import Contestant, Table, World
from benchmarks.replay import Design, replay
from tune_mtl import load_problem
from tune_mtl.experiment.planning.plan import Plan
from tune_mtl.experiment.reruns import Rerun, plan_controls
from tune_mtl.reporting.controls import controls_that_matter
from tune_mtl.reporting.results import Results
from tune_mtl.results.settings import Settings
from tune_mtl.training.config import resolve

CURVES = Path(__file__).with_name("curves")
PROBLEMS = {"multidigits": "multidigits", "tabular": "benchmarks.problems:tabular"}
SEARCHES = (
    ("multidigits", ("sus", "io")),
    ("multidigits", ("sus", "ius", "io")),
    ("tabular", ("sus", "ius", "io")),
    ("tabular", ("sus", "ius", "io", "pcgrad")),
)


def epochs(plan: Plan, runs: list[Rerun], *, continuing: bool) -> int:
    """Return how many epochs are trained; a run that continues another does not train those of that one again."""
    length = int(plan.budget.length)
    return sum(
        resolve(plan.problem, run.config, plan.settings.problem).epochs
        - (length if continuing and run.continues is not None else 0)
        for run in runs
    )


def costs(problem: str, strategies: tuple[str, ...], seed: int) -> tuple[int, int, int, int]:
    """Return the epochs of a search with confirmation, and those of its controls: all, all continuing, those needed."""
    table = Table.read(CURVES / f"{problem}.jsonl")
    found = replay(World(table, {name: Contestant(name) for name in strategies}, seed=seed), Design())
    settings = Settings(problem=PROBLEMS[problem], name="controls", strategies=strategies, replicates=8, controls=3)
    plan = Plan.make(load_problem(PROBLEMS[problem]), settings)
    steps = [
        resolve(plan.problem, run.config, settings.problem).updates_per_batch(len(plan.problem.tasks))
        for run in found.results.search.reruns
    ]
    reruns = [
        replace(run, metrics={**run.metrics, "updates": float(count)})
        for run, count in zip(found.results.search.reruns, steps, strict=True)
    ]
    search = replace(found.results.search, reruns=reruns)
    everything = plan_controls(plan, search, 1)
    needed = plan_controls(plan, search, 1, controls_that_matter(Results.of(search)))
    return (
        found.epochs,
        epochs(plan, everything, continuing=False),
        epochs(plan, everything, continuing=True),
        epochs(plan, needed, continuing=True),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=40)
    arguments = parser.parse_args()
    print("| problem | strategies | search and confirmation | 3 tunings | the same, continuing | `auto` |")
    print("|---|---|---:|---:|---:|---:|")
    for problem, strategies in SEARCHES:
        found = [costs(problem, strategies, seed) for seed in range(arguments.searches)]
        means = [statistics.fmean(column) for column in zip(*found, strict=True)]
        print(f"| `{problem}` | {', '.join(strategies)} | {' | '.join(f'{mean:.0f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
