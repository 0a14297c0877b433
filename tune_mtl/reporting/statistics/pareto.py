"""What quality costs: every strategy and group count against its training time, and who is beaten by nobody."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tune_mtl.core.outcome import Outcome
from tune_mtl.reporting.figures.style import Drawing, Looks, fit_values, label_points, legend_below, new_figure
from tune_mtl.reporting.results import Results
from tune_mtl.results.search_data import SearchData, Trained, without_seed
from tune_mtl.tracking import names


@dataclass(frozen=True)
class _Point:
    """What a strategy with a group count reaches, and at which cost: the means over seeds of its best config."""

    strategy: str
    groups: int | None
    name: str
    seconds: list[float]
    values: list[float]
    fresh: bool

    @property
    def place(self) -> tuple[float, float]:
        """The seconds and the value."""
        return statistics.fmean(self.seconds), statistics.fmean(self.values)


def quality_and_cost(results: Results, styles: Looks) -> Drawing | None:
    """Draw quality against training time with its Pareto front, group counts labelled."""
    search = results.search
    points = _points(search)
    if not points:
        return None
    figure, (axes,) = new_figure()
    for point in points:
        look, (seconds, value) = styles[point.strategy], point.place
        axes.plot(
            seconds, value, color=look.color, marker=look.marker, linestyle="none", label=point.strategy,
            markerfacecolor=look.color if point.fresh else "none",
        )  # fmt: skip
        if len(point.values) > 1:
            x, y = statistics.stdev(point.seconds), statistics.stdev(point.values)
            axes.errorbar(seconds, value, xerr=x, yerr=y, color=look.color, linewidth=1, alpha=0.5)
    front = pareto([(seconds, search.sign * value) for seconds, value in (point.place for point in points)])
    axes.step(
        [x for x, _ in front], [search.sign * y for _, y in front], where="post", color="0.5", linewidth=1,
        linestyle="--", label="Pareto front",
    )  # fmt: skip
    axes.set(xlabel="seconds of training", ylabel=f"validation {search.quality}")
    fit_values([axes], search.sign)
    legend_below(figure, axes)
    label_points(axes, [(*point.place, f"{point.groups} gr.") for point in points if point.groups])
    on_front = [point.name for point in points if (point.place[0], search.sign * point.place[1]) in front]
    kinds = {point.fresh for point in points}
    told = "Filled: fresh seeds; hollow: seeds of the search, by which it was chosen. " if len(kinds) > 1 else ""
    return Drawing(
        "quality-and-cost",
        "Quality against cost",
        f"{search.objective.metric} of whole runs against their seconds; on the front: {', '.join(on_front)}.",
        figure,
        f"Best config of each strategy and group count (gr.), mean over its whole runs. {told}"
        "Lines: one standard deviation.",
    )


def _points(search: SearchData) -> list[_Point]:
    """Return the best config of every strategy and group count: by its mean on fresh seeds, if it has any."""
    metric = names.best_metric(search.objective.metric)
    fresh = _by_config(search.confirmed(names.CONFIRM), metric)
    best: dict[str, tuple[str, list[Trained]]] = {}
    for config, runs in _by_config([run for run in search.trials if run.outcome == Outcome.COMPLETED], metric).items():
        name = runs[0].variant
        if name not in best or search.sign * _mean(runs, metric) < search.sign * _mean(best[name][1], metric):
            best[name] = config, runs
    best |= {runs[0].variant: (config, runs) for config, runs in fresh.items()}
    return [
        _Point(
            runs[0].strategy,
            runs[0].groups,
            name,
            [run.metrics["seconds"] for run in runs],
            [run.metrics[metric] for run in runs],
            config in fresh,
        )
        for name, (config, runs) in best.items()
    ]


def _by_config(runs: Sequence[Trained], metric: str) -> dict[str, list[Trained]]:
    found: dict[str, list[Trained]] = {}
    for run in runs:
        if metric in run.metrics and "seconds" in run.metrics:
            found.setdefault(without_seed(run.config), []).append(run)
    return found


def _mean(runs: Sequence[Trained], metric: str) -> float:
    return statistics.fmean(run.metrics[metric] for run in runs)


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other beats in both values (less is better), ordered by the first."""
    front: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front
