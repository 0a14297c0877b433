"""The tables of a report."""

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tune_mtl.core.outcome import Outcome
from tune_mtl.core.scalarisation import MEANING
from tune_mtl.reporting.results import Results, at_common_rate, equal_updates, unit_text
from tune_mtl.reporting.statistics.comparison import rank_in_every_unit
from tune_mtl.reporting.statistics.significance import ALPHA, Sample
from tune_mtl.reporting.statistics.tradeoffs import REFERENCES, trade_offs
from tune_mtl.reporting.tables.table import Cell, Table
from tune_mtl.results.search_data import SearchData, Trained
from tune_mtl.tracking import names

_FEW_TASKS = 8
"""Up to here a table has columns for every task."""

ARROWS = {"min": " ↓", "max": " ↑"}


_MEANING = {
    "relative_loss": "relative_loss: each task's loss as a share of what the best constant prediction scores, averaged"
    " over tasks; 0 is perfect.",
    "loss": "loss: the mean over tasks of their losses.",
    **{name.removeprefix("val/"): f"{name.removeprefix('val/')}: {text}." for name, text in MEANING.items()},
}


def quality_table(results: Results) -> Table:
    """Make the table of the objective, every task's metrics, average ranks and, with single-task networks, Delta-m."""
    search = results.search
    shown = [search.quality, *(_of_tasks(results) if _few(results) else _overall(results))]
    first, *rest = dict.fromkeys(shown)
    ranks = rank_in_every_unit(
        [
            ({name: results.units(name, metric) for name in results.runs}, results.sign(metric))
            for metric in results.judged
        ]
    )
    best_rank = min(ranks.values(), default=math.nan)
    single = REFERENCES[0] in results.runs
    gains = trade_offs(results, REFERENCES[0]).delta_m if single else {}
    rows = []
    for strategy in results.runs:
        rank = ranks.get(strategy)
        ranked = [Cell(rank, strong=rank == best_rank, decimals=2)]
        gained = [Cell(gains[strategy].difference if strategy in gains else None, decimals=2)] if single else []
        measured = [_measured(results, strategy, metric) for metric in rest]
        rows.append([Cell(results.label(strategy)), _measured(results, strategy, first), *ranked, *gained, *measured])
    header = ["strategy", _directed(results, first), "average rank ↓", *(["Δm % ↑"] if single else [])]
    unit, judged = "tuning" if results.by_tuning else "seed", len(results.judged)
    if results.count < 2:
        tested = f"One {unit}: no test is possible. Bold: the best."
    elif results.by_tuning:
        tested = (
            "Bold: the best mean, and what the test of differences, paired by tuning (corrected, alpha"
            f" {ALPHA:g}), does not tell from it."
        )
    else:
        tested = (
            "One config of each strategy, so configs are compared. Bold: the best mean, and what Welch's t-test"
            f" (Holm-corrected, alpha {ALPHA:g}) does not tell from it."
        )
    over = "Mean and standard deviation over" if results.count > 1 else "On"
    notes = [
        f"{over} {results.count_text}, on {results.split}.",
        tested,
        f"Average rank: the mean of the ranks on {judged} metric{'s' if judged > 1 else ''} of the tasks in every"
        f" {unit}; a large deviation makes no rank better.",
    ]
    notes += [_MEANING[first]] if first in _MEANING else []
    if single:
        notes.append("Δm: mean relative improvement over single-task networks, in percent.")
    title = f"What each strategy reaches on {results.split}"
    return Table(
        "quality", title, [*header, *(_directed(results, metric) for metric in rest)], rows, notes, grouped=True
    )


def _few(results: Results) -> bool:
    return len(results.search.tasks) <= _FEW_TASKS


def _of_tasks(results: Results) -> list[str]:
    """Return every task's own metrics, and the losses that judge those without."""
    own = [[*results.by_task[task], *results.judged_by_task[task]] for task in results.search.tasks]
    return [name for metrics in own for name in dict.fromkeys(metrics) if name in results.reported]


def _overall(results: Results) -> list[str]:
    """Return the metrics that are said of all tasks together, where there are many."""
    single = {name for metrics in results.by_task.values() for name in metrics}
    return [name for name in results.reported if name not in single and not name.startswith("loss/")]


def _measured(results: Results, strategy: str, metric: str) -> Cell:
    """Return a cell: bold if it is best or not told from it, never where nobody knows which way is better."""
    strong = bool(results.search.mode(metric)) and strategy in results.not_told_from_best(metric)
    return Cell(results.samples(metric).get(strategy), strong=strong)


def _directed(results: Results, metric: str) -> str:
    return metric + ARROWS.get(results.search.mode(metric) or "", "")


def tasks_table(results: Results) -> Table | None:
    """Make the table of many tasks' metrics, a row each; None where the first table has them."""
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
    """Make the table of every task's loss: in columns, or, if they are many, in rows."""
    tasks = {f"loss/{task}": task for task in results.search.tasks}
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
    """Make the table of winners with their own budget and with as many updates as the most; None without controls."""
    search, quality = results.search, results.search.quality
    equal = equal_updates(results)
    if not search.confirmed(names.EQUAL_UPDATES) or not equal:
        return None
    rows = []
    best = min(equal, key=lambda name: search.sign * statistics.fmean(equal[name].values()))
    compared = [one for one in results.compared(equal, search.sign) if best in (one.a, one.b)]
    alike = {best, *(name for one in compared for name in (one.a, one.b) if one.p >= ALPHA)}
    for strategy, values in equal.items():
        control = search.confirmed(names.EQUAL_UPDATES, strategy)
        units = results.units(strategy, quality)
        own = [units[unit] for unit in values if unit in units]
        rows.append(
            [
                Cell(results.label(strategy)),
                Cell(_mean(results.runs[strategy], "updates")),
                Cell(Sample.of(own) if own else None),
                Cell(_mean(control or results.runs[strategy], "updates")),
                Cell(Sample.of(list(values.values())), strong=strategy in alike),
            ]
        )
    budgets, columns = ("at its own budget", "at equal updates"), ("updates", quality + ARROWS[search.objective.mode])
    header = ["strategy", *(f"{budget}/{column}" for budget in budgets for column in columns)]
    notes = [
        "The same configs with as many optimizer steps as the one that takes most; learning rates are not tuned again."
        " Only what has the same network, batch size and so on is compared.",
        "Bold as above.",
        *(
            [f"Over {unit_text(max(map(len, equal.values())), 'tuning')}: those in which the controls were trained."]
            if results.by_tuning
            else []
        ),
    ]
    return Table("equal-updates", "Is it the method, or more steps?", header, rows, notes, grouped=True)


_PATH = ("total", "shortest", "ratio")


def path_table(results: Results) -> Table | None:
    """Make the table of quality and covered distances at one learning rate, seed and start; None without whole runs."""
    search = results.search
    found = search.paths()
    if not found:
        return None
    quality = at_common_rate(results)
    rows = [
        [row[0], Cell(Sample.of(list(values.values())) if values else None), *row[1:]]
        for row in _path_rows(found)
        for values in [quality.get(row[0].text, {})]
    ]
    split = "validation" if search.grid_has_paths else results.split
    title = f"Quality on {split} and distance covered at the common learning rate {search.common_lr:.4g}"
    header = ["strategy", search.quality + ARROWS[search.objective.mode], *_PATH]
    notes = [
        "Same seeds, initial weights, network, batch size and so on; each is read at its own best validation epoch."
        " Distances are those of the shared weights. Ratio: total / shortest.",
        "One learning rate suits some better than others: quality here is counter-evidence to the tunings, no ranking.",
    ]
    return Table("path-common", title, header, rows, notes)


def best_path_table(results: Results) -> Table | None:
    """Make the table of covered distances at each strategy's own best config."""
    sharing = [strategy for strategy in results.runs if results.search.shares_trunk(strategy)]
    found = {results.label(strategy): results.runs[strategy] for strategy in sharing}
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
    """Make the table of what a whole run takes."""
    search = results.search
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
    device = search.tags.get("tune_mtl.device", "an unknown device")
    threads = next((run.config.get("threads") for runs in results.runs.values() for run in runs), None)
    cores = f"{threads or '?'} CPU thread{'' if threads == 1 else 's'}"
    note = f"A whole run with the best config on {device}, {cores}; other trials may have run beside it."
    return Table("cost", "What a run costs", header, rows, [note])


def search_table(search: SearchData) -> Table:
    """Make the table of how the budget was spent, and of the best config of each strategy."""
    rows = []
    searched = search.searched
    for strategy in search.strategies:
        runs = [run for run in search.trials if run.strategy == strategy]
        counts = Counter(run.outcome for run in runs)
        best = search.winners.get(strategy)
        rows.append(
            [
                Cell(strategy),
                Cell(None if best is None else best.value),
                *(Cell(None if best is None else value_of(best.config, key)) for key in searched),
                Cell(len(runs)),
                *(Cell(counts.pop(outcome, 0)) for outcome in Outcome if outcome.ended),
                Cell(sum(counts.values())),
                Cell(_sum(runs, "updates")),
                Cell(_sum(runs, "seconds"), decimals=0),
            ]
        )
    header = [
        "strategy", f"best {search.objective.metric}", *searched, "trials", "completed", "stopped early",
        "diverged", "failed", "not ended", "updates", "seconds",
    ]  # fmt: skip
    tunings = f" All {len(search.replicates)} tunings of each strategy together." if search.replicated else ""
    note = "Selected on validation: the best of many is better than it will be again, which confirmation shows."
    return Table("search", "How the search was spent, and what it found", header, rows, [note + tunings])


def tunings_table(results: Results) -> Table | None:
    """Make the table of what every tuning chose and reached on fresh seeds; None with one tuning of each strategy."""
    search = results.search
    if not search.replicated:
        return None
    metric, rows = names.best_metric(search.objective.metric), []
    for strategy in search.strategies:
        reached = results.units(strategy, search.quality) if results.confirmed else {}
        for replicate in search.replicates:
            chosen = search.tunings.get((strategy, replicate))
            runs = [run for run in search.trials if (run.strategy, run.replicate) == (strategy, replicate)]
            if not runs:
                continue
            value = next((run.metrics.get(metric) for run in runs if chosen is not None and run.config == chosen), None)
            rows.append(
                [
                    Cell(strategy),
                    Cell(replicate + 1),
                    Cell(len(runs)),
                    *(Cell(None if chosen is None else value_of(chosen, key)) for key in search.searched),
                    Cell(value),
                    Cell(reached.get(replicate)),
                ]
            )
    header = [
        "strategy", "replicate", "trials", *search.searched, f"chosen by {search.objective.metric}",
        f"{search.quality} on {results.split}, fresh seed",
    ]  # fmt: skip
    note = (
        "Every replicate tunes all strategies anew: the same first draws for all, other draws and another seed each"
        " time."
    )
    return Table("tunings", "What each tuning chose", header, rows, [note])


def value_of(config: Mapping[str, Any], key: str) -> str | float | None:
    """Return a config's value for a table: numbers as numbers, explicit groups by their count, the rest as text."""
    value = config.get(key)
    if isinstance(value, list) and key == "groups":
        return len(value)
    if value is None or (isinstance(value, str | float | int) and not isinstance(value, bool)):
        return value
    return json.dumps(value)


def _mean(runs: Sequence[Trained], metric: str) -> float | None:
    values = [run.metrics[metric] for run in runs if metric in run.metrics]
    return statistics.fmean(values) if values else None


def _sum(runs: Sequence[Trained], metric: str) -> float:
    return math.fsum(run.metrics.get(metric, 0.0) for run in runs)
