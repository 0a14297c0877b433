"""Searches of one trial each, trained in this process and recorded as a search records them."""

import shutil

import pandas as pd
import pytest

from tune_mtl import train
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.store import reachable, tracking_uri


class Searches:
    """Makes and remembers them, by problem and strategy."""

    def __init__(self, folder) -> None:
        self.folder, self.made = folder, {}

    def of(self, problem: str, strategy: str, *, weights: bool = True, **config) -> str:
        """The name of a search whose winner is ``strategy`` on ``tests.exporting.problems:problem``."""
        key = (problem, strategy, weights, *sorted(config.items()))
        if key not in self.made:
            self.made[key] = self._make(problem, strategy, config, weights=weights)
        return self.made[key]

    def _make(self, problem, strategy, config, *, weights) -> str:
        address, name = f"tests.exporting.problems:{problem}", f"{problem}-{strategy}-{len(self.made)}"
        out = self.folder / name
        config = {"mr_sigma": 0.25, **config} if strategy == "mr" else config
        result = train(address, {"strategy": strategy, "lr": 1e-2, "epochs": 1, **config}, out=out)
        uri = tracking_uri()
        reachable(uri)
        runs = SearchRuns(uri, address, name)
        tags = {names.OBJECTIVE: "val/loss:min", names.RANKED_BY: names.BY_TRIAL, names.PROBLEM: address}
        runs.open_search(tags, {})
        runs.open_trial("0000", result.config, {"strategy": strategy, "lr": 1e-2})
        files = {"best.pt": out / "best.pt"} if weights else {}
        values = {"best/val/loss": result.metrics["best/val/loss"]}
        runs.close_trial("0000", "completed", values, {}, files)
        runs.close_search(complete=True, tags={}, table=pd.DataFrame(), best=None)
        return name


@pytest.fixture(scope="package")
def searches(tmp_path_factory, empty_store):
    folder = tmp_path_factory.mktemp("exporting")
    with pytest.MonkeyPatch.context() as patched:
        (folder / "home").mkdir()
        shutil.copy(empty_store, folder / "home" / "mlflow.db")
        patched.setenv("TUNE_MTL_HOME", str(folder / "home"))
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield Searches(folder)
