"""By what the configs of a search were ranked, in words."""

from tune_mtl.core.objective import RELATIVE_LOSS
from tune_mtl.core.scalarisation import MEANING
from tune_mtl.results.search_data import SearchData

_MEANS = {
    "val/loss": "the mean over tasks of validation losses",
    RELATIVE_LOSS: "the mean over tasks of validation loss / reference loss",
    **MEANING,
}


def ranked_by(search: SearchData) -> str:
    """Return the objective in words, with the weights or reference values that it has."""
    metric = search.objective.metric
    what = f"{_MEANS[metric]} ({metric})" if metric in _MEANS else metric
    weights, values = search.settings.get("task_weights"), search.settings.get("task_reference")
    if weights is not None:
        what += f", with weights {weights}; other tasks have 1"
    if values is not None:
        measured = search.settings.get("task_reference_from")
        what += f", against {values}" + (f", measured by {measured}" if measured else "")
    better = "lower" if search.objective.mode == "min" else "higher"
    return f"configs were ranked by {what}; {better} is better"
