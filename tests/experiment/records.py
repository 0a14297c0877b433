"""What must hold of a search's records, whatever happened to it."""

from mlflow.entities import Run

from tune_mtl.core.outcome import RANKED
from tune_mtl.results.searches import find_search
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import search_runs


def check_records(search: str, trials: int, tracking_uri: str | None = None) -> tuple[Run, list[Run]]:
    """One parent and one run per trial, all ended, no epoch missing or logged twice; returns them."""
    _, of, parent = find_search(search, tracking_uri)
    children = search_runs(of, [parent.info.experiment_id], search, "trial")
    assert len(children) == trials
    assert len({run.data.tags[names.TRIAL_ID] for run in children}) == trials
    assert parent.info.status == "FINISHED"
    for run in children:
        assert run.info.status in ("FINISHED", "FAILED")
        assert run.data.tags[names.PARENT] == parent.info.run_id
        assert run.data.tags[names.KIND] == "trial"
        assert run.data.tags[names.OUTCOME] in ("completed", "stopped_early", "diverged", "failed")
        steps = [metric.step for metric in of.get_metric_history(run.info.run_id, "val/loss")]
        assert steps == list(range(1, len(steps) + 1))
        if run.data.tags[names.OUTCOME] in RANKED:
            assert [artifact.path for artifact in of.list_artifacts(run.info.run_id)] == ["best.pt"]
    return parent, children
