"""What Delta-m compares with, where an earlier search has measured it."""

import statistics
from collections.abc import Mapping
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.tracking import names


def with_task_reference(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with weights and reference values as texts: what a search has measured is looked up now.

    So a search goes on with the same ones, whatever becomes of the other. Measured is the best config of its strategy
    ``stl``, else ``sus``, or of the one named after a colon: the means over tunings of validation values, of all
    metrics that say which way is better, and of the loss of tasks that have none.

    Raises:
        UserError: for a search or strategy that is not there, or has no such values.
    """
    given = {**given, **{key: _as_text(given[key]) for key in ("task_weights", "task_reference") if key in given}}
    text = given.get("task_reference")
    if not isinstance(text, str) or "=" in text:
        return given
    search, _, strategy = text.partition(":")
    values, measured = _measured(search, strategy or None, given.get("tracking_uri"))
    told = ",".join(f"{metric}={value!r}" for metric, value in values.items())
    return {**given, "task_reference": told, "task_reference_from": f"strategy {measured} of search {search}"}


def _as_text(value: Any) -> Any:
    """Return a mapping as it is typed; what is none stays."""
    return ",".join(f"{name}={number!r}" for name, number in value.items()) if isinstance(value, Mapping) else value


def _measured(name: str, strategy: str | None, tracking_uri: str | None) -> tuple[dict[str, float], str]:
    from tune_mtl.reporting.results import Results
    from tune_mtl.reporting.statistics.tradeoffs import REFERENCES, reference_of
    from tune_mtl.results.search_data import SearchData
    from tune_mtl.tracking.store import check_name

    results = Results.of(SearchData.read(check_name(name), tracking_uri))
    chosen = reference_of(results, strategy)
    if chosen is None:
        raise UserError(
            f"task_reference={name}: neither {' nor '.join(REFERENCES)} has results in that search; name another"
            f" strategy, {name}:STRATEGY."
        )
    found = {}
    for metrics in results.judged_by_task.values():
        for metric in metrics:
            measured = results.by_unit(results.runs[chosen], names.best_metric(f"val/{metric}"))
            if measured and (value := statistics.fmean(measured.values())):
                found[metric] = value
    if not found:
        raise UserError(f"task_reference={name}: strategy '{chosen}' has no validation values there.")
    return found, chosen
