"""Prepared pages of the MLflow UI: addresses that open the trials of a search sorted, with the columns people compare.

MLflow keeps what a page shows (filter, order, columns, charts) in a tag of the experiment, and opens it under an
address that names the tag. Addresses are relative (``#/...``): they follow the address of the server, whatever it is.
"""

import base64
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tune_mtl.core.objective import Objective
from tune_mtl.tracking import names

if TYPE_CHECKING:
    from mlflow import MlflowClient

_TAG = "mlflow.sharedViewState."
_LONGEST = 5000
"""Characters that MLflow allows in the tag of an experiment."""
_CLASSIC = "workflowType=machine_learning"
"""Without it MLflow opens its pages for language models, which show none of this."""
_FIRST = ("strategy", "lr", "groups")
_MOST_COLUMNS = 12
_NO_PREFIX = "Model metrics"
"""What MLflow calls the group of metrics without a slash."""
_MANY_TASKS = 8
"""With more tasks than that, their losses are folded on the page of charts."""


def trials_address(experiment: str, search: str, *, charts: bool = False) -> str:
    """Return the address of the trials of a search, the best first; as a table, or as charts."""
    mode = "&compareRunsMode=CHART" if charts else ""
    return f"#/experiments/{experiment}/runs?{_CLASSIC}&viewStateShareKey={quote(search)}{mode}"


def run_address(experiment: str, run_id: str, page: str = "") -> str:
    """Return the address of one run; ``page``: ``model-metrics``, ``artifacts`` or, if empty, its overview."""
    return f"#/experiments/{experiment}/runs/{run_id}{page and '/'}{page}?{_CLASSIC}"


def compare_address(experiment: str, run_ids: Sequence[str]) -> str:
    """Return the address of the page that sets runs side by side."""
    runs, experiments = (quote(json.dumps(ids, separators=(",", ":"))) for ids in (list(run_ids), [experiment]))
    return f"#/compare-runs?runs={runs}&experiments={experiments}&{_CLASSIC}"


def keep_view(
    of: "MlflowClient",
    experiment: str,
    search: str,
    objective: Objective,
    params: Iterable[str],
    metrics: Iterable[str],
) -> None:
    """Prepare the page of a search's trials, or prepare it anew.

    Args:
        of: The store.
        experiment: The id of the search's experiment.
        search: Its name.
        objective: What its trials are sorted by.
        params: The parameters that differ between its trials.
        metrics: The metrics that its trials have.
    """
    name = f"trials of {search}, best first"
    text = _envelope(name, trials_view(search, objective, tuple(params), frozenset(metrics)))
    if len(text) > _LONGEST:  # hundreds of tasks: the charts are then MLflow's own
        text = _envelope(name, trials_view(search, objective, tuple(params), frozenset()))
    of.set_experiment_tag(experiment, _TAG + search, text)


def forget_view(of: "MlflowClient", experiment: str, search: str) -> None:
    """Remove the prepared page of a search, if there is one."""
    if _TAG + search in of.get_experiment(experiment).tags:
        of.delete_experiment_tag(experiment, _TAG + search)


def trials_view(
    search: str, objective: Objective, params: Sequence[str], metrics: Collection[str] = frozenset()
) -> dict[str, Any]:
    """Return what the page of a search's trials shows, as MLflow describes it."""
    best = names.best_metric(objective.metric)
    searched = list(dict.fromkeys([*(key for key in _FIRST if key in params), *params]))
    columns = [
        f"tags.`{names.OUTCOME}`",
        f"metrics.`{best}`",
        *(f"params.`{key}`" for key in searched),
        "metrics.`best/epoch`",
        "metrics.`path/best_total`",
        "attributes.`Duration`",
    ][:_MOST_COLUMNS]
    return {
        "searchFilter": f"tags.`{names.SEARCH}` = '{search}' and tags.`{names.KIND}` = 'trial'",
        "orderByKey": f"metrics.`{best}`",
        "orderByAsc": objective.mode == "min",
        "selectedColumns": columns,
        "columnOrder": columns,
        "runsHiddenMode": "FIRST_20_RUNS",
        "columnWidths": {column: 140 if column in columns[:2] else 105 for column in columns},
        **_charts(objective, searched, metrics),
    }


def _charts(objective: Objective, params: Sequence[str], metrics: Collection[str]) -> dict[str, Any]:
    """Return the charts: those that answer at first sight, then the tasks, then everything else, folded."""
    first, best = "first", names.best_metric(objective.metric)
    shown = dict.fromkeys([objective.metric, "val/loss", "train/loss", "path/total"])
    charts: list[dict[str, Any]] = [_line(name, first) for name in shown if name == objective.metric or name in metrics]
    rate = {"xaxis": {"key": "lr", "type": "PARAM"}, "yaxis": {"key": best, "type": "METRIC"}}
    charts.append({"type": "SCATTER", "runsCountToCompare": 100, **rate, **_card("rate", first)})
    across = {"selectedParams": [key for key in params if key != "seed"], "selectedMetrics": [best]}
    charts.append({"type": "PARALLEL", "showAllRuns": True, "runsCountToCompare": 100, **across, **_card("all", first)})
    taken = {chart.get("metricKey") for chart in charts}
    groups: dict[str, list[str]] = {}
    for name in sorted(metrics):
        if name not in taken:
            groups.setdefault(name.rpartition("/")[0] or _NO_PREFIX, []).append(name)
    opened = [group for group in ("val/loss",) if 0 < len(groups.get(group, [])) <= _MANY_TASKS]
    sections = [_section(first, "The search", display=True)]
    sections += [_section(group, group, display=group in opened) for group in sorted(groups, key=_place)]
    return {"compareRunCharts": charts, "compareRunSections": sections, "isAccordionReordered": True}


def _place(group: str) -> tuple[int, str]:
    """Put validation first, then training, paths, and last what is said once."""
    order = ("Objective", "val/loss", "val", "train", "path", _NO_PREFIX, "best")
    near = [index for index, name in enumerate(order) if group == name or group.startswith(f"{name}/")]
    return (near[0] if near else len(order), group)


def _line(metric: str, section: str) -> dict[str, Any]:
    shape = {"lineSmoothness": 0, "scaleType": "linear", "xAxisKey": "step", "selectedXAxisMetricKey": ""}
    return (
        {"type": "LINE", "metricKey": metric, "displayName": metric, "runsCountToCompare": 10}
        | shape
        | _card(metric, section)
    )


def _card(name: str, section: str) -> dict[str, Any]:
    return {"uuid": f"chart {name}", "metricSectionId": section, "deleted": False, "isGenerated": False}


def _section(key: str, name: str, *, display: bool) -> dict[str, Any]:
    return {"uuid": key, "name": name, "display": display, "isReordered": False, "deleted": False}


def _envelope(name: str, state: Mapping[str, Any]) -> str:
    """Return the tag's text: readable name, state deflated as MLflow's own pages do it."""
    packed = base64.b64encode(zlib.compress(json.dumps(state, sort_keys=True).encode(), 9)).decode()
    return json.dumps({"name": name, "createdAt": 0, "state": f"deflate;{packed}"})
