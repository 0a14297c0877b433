"""The notebook of the documentation runs, and its results show themselves."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[1] / "docs" / "tour.ipynb"


@pytest.mark.slow
def test_the_tour_runs_from_its_first_cell_to_its_last(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(TOUR.parents[1]))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    notebook = nbformat.read(TOUR, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    pages = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result" and "text/html" in output["data"]
    ]
    search, best, trial = pages
    for part in ("complete: ", "<table>", "<img ", "the whole report"):
        assert part in search
    assert "curves-" in best
    assert "best/val/loss" in trial
