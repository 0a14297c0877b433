"""The tables of a report."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from tune_mtl.report.evidence import Evidence, Trained, shares_trunk
from tune_mtl.report.results import Results, deltas, equal_updates
from tune_mtl.report.statistics import ALPHA, Sample, average_ranks, standings
from tune_mtl.report.tables import Cell, Table
from tune_mtl.tracking import names

_FEW_TASKS = 8
"""Up to here a table has columns for every task."""

ARROWS = {"min": " ↓", "max": " ↑"}


_MEANING = {
    "relative_loss": "relative_loss: each task's loss as a share of what the best constant prediction scores, averaged"
    " over tasks; 0 is perfect.",
    "loss": "loss: the mean over tasks of their losses.",
}


def quality_table(results: Results) -> Table:
    """The objective, every task's metrics, average ranks and, where single-task networks were trained, Delta-m."""
    evidence = results.evidence
    shown = [evidence.quality, *(_of_tasks(results) if _few(results) else _overall(results))]
    first, *rest = dict.fromkeys(shown)
    ranks = average_ranks([results.standings(metric) for metric in results.judged])
    best_rank = min(ranks.values(), default=math.nan)
    gains = deltas(results)
    rows = []
    for strategy in results.runs:
        rank = ranks.get(strategy)
        ranked = [Cell(rank, strong=rank == best_rank, decimals=2)]
        gained = [Cell(gains.get(strategy), decimals=2)] if gains else []
        measured = [_measured(results, strategy, metric) for metric in rest]
        rows.append([Cell(results.label(strategy)), _measured(results, strategy, first), *ranked, *gained, *measured])
    header = ["strategy", _directed(results, first), "average rank ↓", *(["Δm % ↑"] if gains else [])]
    tested = (
        f"Bold: the best mean, and what Welch's t-test (Holm-corrected, alpha {ALPHA:g}) does not tell from it."
        if results.seeds > 1
        else "One seed: no test is possible. Bold: the best."
    )
    judged = len(results.judged)
    over = "Mean and standard deviation over" if results.seeds > 1 else "On"
    notes = [
        f"{over} {results.seeds_text}, on {results.split}.",
        tested,
        f"Average rank: over {judged} metric{'s' if judged > 1 else ''} of the tasks; equivalent results share the"
        " better rank.",
    ]
    notes += [_MEANING[first]] if first in _MEANING else []
    if gains:
        notes.append("Δm: mean relative improvement over single-task networks, in percent.")
    title = f"What each strategy reaches on {results.split}"
    return Table(
        "quality", title, [*header, *(_directed(results, metric) for metric in rest)], rows, notes, grouped=True
    )


def _few(results: Results) -> bool:
    return len(results.evidence.tasks) <= _FEW_TASKS


def _of_tasks(results: Results) -> list[str]:
    """Every task's own metrics, and the losses that judge those without."""
    own = [[*results.by_task[task], *results.judged_by_task[task]] for task in results.evidence.tasks]
    return [name for metrics in own for name in dict.fromkeys(metrics) if name in results.reported]


def _overall(results: Results) -> list[str]:
    """With many tasks: what is said of all of them together."""
    single = {name for metrics in results.by_task.values() for name in metrics}
    return [name for name in results.reported if name not in single and not name.startswith("loss/")]


def _measured(results: Results, strategy: str, metric: str) -> Cell:
    """Bold if it is best or not told from it; never where nobody knows which way is better."""
    place = results.standings(metric).get(strategy) if results.evidence.mode(metric) else None
    return Cell(results.samples(metric).get(strategy), strong=place is not None and place.equivalent)


def _directed(results: Results, metric: str) -> str:
    return metric + ARROWS.get(results.evidence.mode(metric) or "", "")


def tasks_table(results: Results) -> Table | None:
    """With many tasks: their metrics, a row each; None where the first table has them."""
    metrics = _of_tasks(results)
    if _few(results) or not metrics:
        return None
    rows = [
        [Cell(_directed(results, metric)), *(_measured(results, strategy, metric) for strategy in results.runs)]
        for metric in metrics
    ]
    header = ["metric", *map(results.label, results.runs)]
    return Table("tasks", f"Every task on {results.split}", header, rows, ["Bold as above, row by row."])


def losses_table(results: Results) -> Table:
    """The loss of every task: in columns, or, if they are many, in rows."""
    tasks = {f"loss/{task}": task for task in results.evidence.tasks}
    titles = {name: title for name, title in {"loss": "mean loss", **tasks}.items() if name in results.reported}
    measured = {name: [_measured(results, strategy, name) for strategy in results.runs] for name in titles}
    labels = list(map(results.label, results.runs))
    title, note = f"Losses on {results.split}", "Lower is better; bold as above."
    if _few(results):
        columns = zip(*measured.values(), strict=True) if measured else ([] for _ in labels)
        rows = [[Cell(label), *cells] for label, cells in zip(labels, columns, strict=True)]
        return Table("losses", title, ["strategy", *titles.values()], rows, [note])
    rows = [[Cell(titles[name]), *cells] for name, cells in measured.items()]
    return Table("losses", title, ["task", *labels], rows, [note])


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
    budgets, columns = ("at its own budget", "at equal updates"), ("updates", quality + ARROWS[evidence.objective.mode])
    header = ["strategy", *(f"{budget}/{column}" for budget in budgets for column in columns)]
    notes = [
        "The same configs with as many optimizer steps as the one that takes most; learning rates are not tuned again.",
        "Bold as above.",
    ]
    return Table("equal-updates", "Is it the method, or more steps?", header, rows, notes, grouped=True)


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
    found = {results.label(strategy): runs for strategy, runs in results.runs.items() if shares_trunk(strategy)}
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
    cores = f"{threads or '?'} CPU thread{'' if threads == 1 else 's'}"
    note = f"A whole run with the best config on {device}, {cores}; other trials may have run beside it."
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
                Cell(_sum(runs, "seconds"), decimals=0),
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
