"""The tables of a report."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from tune_mtl.report.evidence import Evidence, Trained
from tune_mtl.report.results import Results, deltas, equal_updates
from tune_mtl.report.statistics import ALPHA, Sample, average_ranks, standings
from tune_mtl.report.tables import Cell, Table
from tune_mtl.strategies.registry import registry
from tune_mtl.tracking import names

_FEW_TASKS = 8
"""Up to here a table has columns for every task."""

ARROWS = {"min": " ↓", "max": " ↑"}


def quality_table(results: Results) -> Table:
    """The objective, every task's metrics, average ranks and, where single-task networks were trained, Delta-m."""
    evidence, quality = results.evidence, results.evidence.quality
    shown = [quality, *results.judged] if len(evidence.tasks) <= _FEW_TASKS else _overall(results)
    shown = list(dict.fromkeys(shown))
    places = {metric: results.standings(metric) for metric in {*shown, *results.judged}}
    ranks = average_ranks([places[metric] for metric in results.judged])
    best_rank = min(ranks.values(), default=math.nan)
    gains = deltas(results)
    rows = []
    for strategy in results.runs:
        rank = ranks.get(strategy)
        measured = [
            Cell(
                results.samples(metric).get(strategy),
                strong=strategy in places[metric] and places[metric][strategy].equivalent,
            )
            for metric in shown
        ]
        ranked = [Cell(None if rank is None else round(rank, 2), strong=rank == best_rank)]
        gained = [Cell(gains.get(strategy))] if gains else []
        rows.append([Cell(results.label(strategy)), measured[0], *ranked, *gained, *measured[1:]])
    first, *rest = (metric + ARROWS.get(evidence.mode(metric) or "", "") for metric in shown)
    header = ["strategy", first, "average rank ↓", *(["Δm % ↑"] if gains else []), *rest]
    tested = (
        f"Bold: the best mean, and what Welch's t-test (Holm-corrected, alpha {ALPHA:g}) does not tell from it."
        if results.seeds > 1
        else "One seed: no test is possible. Bold: the best."
    )
    notes = [
        f"Mean and standard deviation over {results.seeds_text}, on {results.split}.",
        tested,
        f"Average rank: over {len(results.judged)} metrics, equivalent results share the better rank.",
    ]
    if gains:
        notes.append("Δm: mean relative improvement over single-task networks, in percent.")
    return Table(
        "quality",
        f"What each strategy reaches on {results.split}",
        header,
        rows,
        notes,
    )


def _overall(results: Results) -> list[str]:
    """With many tasks: what is said of all of them together."""
    single = {name for metrics in results.by_task.values() for name in metrics}
    return [
        results.evidence.quality,
        *(name for name in results.reported if name not in single and not name.startswith("loss/")),
    ]


def losses_table(results: Results) -> Table:
    """The loss of every task."""
    names_of = [
        name for name in ("loss", *(f"loss/{task}" for task in results.evidence.tasks)) if name in results.reported
    ]
    rows = []
    for strategy in results.runs:
        samples = [(results.samples(name).get(strategy), results.standings(name).get(strategy)) for name in names_of]
        cells = [Cell(sample, strong=place is not None and place.equivalent) for sample, place in samples]
        rows.append([Cell(results.label(strategy)), *cells])
    header = ["strategy", *(name.replace("loss/", "") if "/" in name else "mean loss" for name in names_of)]
    return Table("losses", f"Losses on {results.split}", header, rows, ["Lower is better; bold as above."])


def updates_table(results: Results) -> Table | None:
    """Each winner with its own budget, and with as many updates as the one that takes most; None without controls."""
    evidence, quality = results.evidence, results.evidence.quality
    if not evidence.confirmed(names.EQUAL_UPDATES):
        return None
    rows = []
    samples = equal_updates(results)
    places = standings({strategy: Sample.of(values) for strategy, values in samples.items()}, evidence.objective.mode)
    for strategy, values in samples.items():
        control = evidence.confirmed(names.EQUAL_UPDATES, strategy)
        own = results.values(strategy, quality)
        rows.append(
            [
                Cell(results.label(strategy)),
                Cell(_mean(results.runs[strategy], "updates")),
                Cell(Sample.of(own) if own else None),
                Cell(_mean(control or results.runs[strategy], "updates")),
                Cell(Sample.of(values), strong=places[strategy].equivalent),
            ]
        )
    header = ["strategy", "updates", f"{quality}", "updates, equal", f"{quality} at equal updates"]
    note = (
        "The same configs (learning rates are not tuned again) with as many optimizer steps as the one that takes most."
    )
    return Table("equal-updates", "Is it the method, or more steps?", header, rows, [note])


_PATH = ("total", "shortest", "ratio")


def path_table(evidence: Evidence) -> Table | None:
    """Covered distances at one learning rate, seed and start; None where no whole runs at one are there."""
    found = evidence.paths()
    if not found:
        return None
    title = f"Distance covered by the shared weights at the common learning rate {evidence.common_lr:.4g}"
    note = "Same seeds and initial weights, each read at its own best validation epoch. Ratio: total / shortest."
    return Table("path-common", title, ["strategy", *_PATH], _path_rows(found), [note])


def best_path_table(results: Results) -> Table | None:
    """Covered distances at each strategy's own best config."""
    found = {
        results.label(strategy): runs for strategy, runs in results.runs.items() if registry[strategy].shares_trunk
    }
    rows = _path_rows(found)
    note = "Learning rates differ here, and distances grow with them: not a comparison of methods."
    return (
        Table("path-best", "Distance covered at each one's best config", ["strategy", *_PATH], rows, [note])
        if rows
        else None
    )


def _path_rows(found: Mapping[str, Sequence[Trained]]) -> list[list[Cell]]:
    rows = []
    for name, runs in found.items():
        values = [
            [run.metrics[f"path/best_{kind}"] for run in runs if f"path/best_{kind}" in run.metrics] for kind in _PATH
        ]
        if all(values):
            rows.append([Cell(name), *(Cell(Sample.of(value)) for value in values)])
    return rows


def cost_table(results: Results) -> Table:
    """What a whole run takes."""
    evidence = results.evidence
    rows = []
    for strategy, runs in results.runs.items():
        values = [
            [run.metrics[name] for run in runs if name in run.metrics]
            for name in ("updates", "seconds", "memory/optimizer_mib")
        ]
        rows.append(
            [
                Cell(results.label(strategy)),
                Cell(statistics.fmean(values[0]) if values[0] else None),
                Cell(Sample.of(values[1]) if values[1] else None),
                Cell(statistics.fmean(values[2]) if values[2] else None),
            ]
        )
    header = ["strategy", "updates", "seconds", "optimizer memory, MiB"]
    device = evidence.tags.get("tune_mtl.device", "an unknown device")
    threads = next((run.config.get("threads") for runs in results.runs.values() for run in runs), None)
    note = f"A run with the best config on {device}, {threads or '?'} CPU thread(s); other trials ran beside it."
    return Table("cost", "What a run costs", header, rows, [note])


def search_table(evidence: Evidence) -> Table:
    """How the budget was spent, and the best config of each strategy."""
    rows = []
    for strategy in evidence.strategies:
        runs = [run for run in evidence.trials if run.strategy == strategy]
        counts = Counter(run.outcome for run in runs)
        best = evidence.winners.get(strategy)
        groups = None if best is None else best.config.get("groups")
        rows.append(
            [
                Cell(strategy),
                Cell(None if best is None else best.value),
                Cell(None if best is None else float(best.config["lr"])),
                Cell(len(groups) if isinstance(groups, list) else groups),
                Cell(len(runs)),
                *(Cell(counts.pop(outcome, 0)) for outcome in ("completed", "stopped_early", "diverged", "failed")),
                Cell(sum(counts.values())),
                Cell(_sum(runs, "updates")),
                Cell(_sum(runs, "seconds")),
            ]
        )
    header = [
        "strategy", f"best {evidence.objective.metric}", "lr", "groups", "trials", "completed", "stopped early",
        "diverged", "failed", "not ended", "updates", "seconds",
    ]  # fmt: skip
    note = "Selected on validation: the best of many is better than it will be again, which confirmation shows."
    return Table("search", "How the search was spent, and what it found", header, rows, [note])


def _mean(runs: Sequence[Trained], metric: str) -> float | None:
    values = [run.metrics[metric] for run in runs if metric in run.metrics]
    return statistics.fmean(values) if values else None


def _sum(runs: Sequence[Trained], metric: str) -> float:
    return math.fsum(run.metrics.get(metric, 0.0) for run in runs)
