"""The paper's four tables, in its layout, with our numbers."""

import math
from collections.abc import Mapping, Sequence

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.claims import INDIVIDUAL
from tune_mtl.reporting.reproduction.places import METHODS, Place, in_order, method, searched
from tune_mtl.reporting.results import Results
from tune_mtl.reporting.statistics.comparison import rank_in_every_unit
from tune_mtl.reporting.statistics.significance import ALPHA, Sample
from tune_mtl.reporting.tables.contents import ARROWS
from tune_mtl.reporting.tables.table import Cell, Table
from tune_mtl.results.search_data import SearchData, Trained
from tune_mtl.tracking import names

_KINDS = ("total", "shortest", "ratio")
_BOLD = f"Bold: the best mean, and what the paired test does not tell from it (corrected, level {ALPHA:g})."
_RANK = "Rank: the mean over these metrics and all tunings; the paper's own rule cannot be recovered from its numbers."


def results_table(place: Place) -> Table:
    """Make table 1 or 2: every method on the metrics of the tasks, and its average rank."""
    results = place.found.results
    metrics = _metrics(place)
    ranks = _ranks(results, [metric for _, metric in metrics])
    rows = [
        [Cell(method(name)), *(_measured(results, name, metric) for _, metric in metrics), _rank(ranks, name)]
        for name in place.methods
    ]
    header = ["method", *(f"{heading}{_arrow(results, metric)}" for heading, metric in metrics), "Rank ↓"]
    title = f"Table {place.number}: {place.title}"
    return Table(f"table-{place.number}", title, header, rows, [_over(results), _BOLD, _RANK], grouped=True)


def groups_table(place: Place) -> Table:
    """Make table 3: every method, IUS and IO with each number of groups, on the averages over all tasks.

    A number of groups has values on validation alone: on fresh seeds only what a tuning has chosen is tested.
    """
    results, search = place.found.results, place.found.search
    metrics = _overall(results)
    ranks = _ranks(results, metrics)
    rows = []
    for name in place.methods:
        if name in INDIVIDUAL:
            for count in sorted({run.groups for run in search.trials if run.strategy == name and run.groups}):
                chosen = [_on_validation(search, name, metric, count) for metric in metrics]
                rows.append([Cell(f"{method(name)} ({count} groups)"), *chosen, *([Cell(None)] * (len(metrics) + 1))])
        label = f"{method(name)} (count tuned)" if name in INDIVIDUAL else method(name)
        tested = [_measured(results, name, metric) for metric in metrics]
        rows.append(
            [
                Cell(label),
                *(_on_validation(search, name, metric, None) for metric in metrics),
                *tested,
                _rank(ranks, name),
            ]
        )
    split = f"{results.split}, fresh seeds" if results.confirmed else results.split
    header = [
        "method",
        *(f"validation/{metric}{_arrow(results, metric)}" for metric in metrics),
        *(f"{split}/{metric}{_arrow(results, metric)}" for metric in metrics),
        "Rank ↓",
    ]
    notes = [
        f"Validation: at the learning rate that is best there for so many groups, in every tuning. {_over(results)}",
        _BOLD,
        _RANK,
    ]
    return Table(f"table-{place.number}", f"Table {place.number}: {place.title}", header, rows, notes, grouped=True)


def distances_table(places: Sequence[Place]) -> Table:
    """Make table 4: total covered distance, shortest path and their ratio of SUS, IUS and IO on every data set."""
    rows, rates = [], []
    for found in searched(places):
        search, paths = found.search, found.search.paths()
        for name in (name for name in in_order(METHODS) if name in ("sus", *INDIVIDUAL)):
            for runs in paths.values():
                if runs[0].strategy == name:
                    rows.append(
                        [Cell(search.problem), Cell(_model(runs[0])), *(_distance(runs, kind) for kind in _KINDS)]
                    )
        if paths and search.common_lr is not None:
            rates.append(f"{search.problem} {search.common_lr:.4g}")
    notes = [
        "Of the shared weights, from the same initial weights, at one learning rate, the one that does best overall:"
        f" {', '.join(rates) or 'none'}; read at each run's best validation epoch. Mean and deviation over seeds.",
    ]
    header = ["dataset", "model", "Total covered dist.", "Shortest path", "Ratio"]
    return Table("table-4", "Table 4: covered distances in the shared parameter space", header, rows, notes)


def _distance(runs: Sequence[Trained], kind: str) -> Cell:
    values = [run.metrics[f"path/best_{kind}"] for run in runs if f"path/best_{kind}" in run.metrics]
    return Cell(Sample.of(values) if values else None)


def _model(run: Trained) -> str:
    return run.strategy.upper() if run.groups is None else f"{run.strategy.upper()} ({run.groups} groups)"


def _metrics(place: Place) -> list[tuple[str, str]]:
    """Return headings and metrics: those of every task, or, where there are many tasks, the averages over them."""
    results = place.found.results
    overall = _overall(results) if not place.tasks else []
    if overall:
        return [(metric, metric) for metric in overall]
    shown = [(task, metric) for task in place.shown for metric in results.judged_by_task.get(task, ())]
    return [(metric if "/" in metric else f"{task}/{metric}", metric) for task, metric in shown]


def _overall(results: Results) -> list[str]:
    """Return the metrics of all tasks together, besides losses."""
    single = {name for metrics in results.by_task.values() for name in metrics}
    return [
        name
        for name in results.reported
        if name not in single and "loss" not in name and "/" not in name and results.search.mode(name)
    ]


def _ranks(results: Results, metrics: Sequence[str]) -> Mapping[str, float]:
    return rank_in_every_unit(
        [({name: results.units(name, metric) for name in results.runs}, results.sign(metric)) for metric in metrics]
    )


def _rank(ranks: Mapping[str, float], name: str) -> Cell:
    found = ranks.get(name)
    return Cell(found, strong=found is not None and found == min(ranks.values()), decimals=2)


def _measured(results: Results, strategy: str, metric: str) -> Cell:
    return Cell(results.samples(metric).get(strategy), strong=strategy in results.not_told_from_best(metric))


def _arrow(results: Results, metric: str) -> str:
    return ARROWS.get(results.search.mode(metric) or "", "")


def _over(results: Results) -> str:
    how = "every choice trained anew on a fresh seed and tested once" if results.confirmed else "not confirmed"
    return f"Mean and standard deviation over {results.count_text} on {results.split}, {how}."


def _on_validation(search: SearchData, strategy: str, metric: str, groups: int | None) -> Cell:
    """Return the metric of every tuning's best trial, of those with so many groups; None: with any number."""
    objective, held = names.best_metric(search.objective.metric), dict[int, Trained]()
    for run in search.trials:
        if run.strategy != strategy or run.outcome != Outcome.COMPLETED or groups not in (None, run.groups):
            continue
        best = held[run.replicate].metrics.get(objective) if run.replicate in held else None
        if objective in run.metrics and search.objective.better(run.metrics[objective], best):
            held[run.replicate] = run
    values = [run.metrics.get(f"best/val/{metric}", math.nan) for run in held.values()]
    known = [value for value in values if not math.isnan(value)]
    return Cell(Sample.of(known) if known else None)
