"""The name of a search that was killed before its first trial is free; that of any other is not."""

import json

import pytest

from tune_mtl.core.errors import UserError
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.manage import release_unbegun
from tune_mtl.tracking import names
from tune_mtl.tracking.names import SNAPSHOT


def test_only_a_search_without_any_trial_leaves_its_name_free(tmp_path):
    folder, uri = tmp_path / "ray" / "one", f"sqlite:///{tmp_path}/mlflow.db"
    folder.mkdir(parents=True)
    (folder / names.SETTINGS_FILE).write_text(json.dumps({"name": "one"}))
    (folder / SNAPSHOT).touch()
    assert not release_unbegun("one", folder, uri)
    (folder / SNAPSHOT).unlink()
    told = folder / "tracking" / "trial" / "tracking.jsonl"
    told.parent.mkdir(parents=True)
    told.write_text("{}\n")
    assert not release_unbegun("one", folder, uri)
    told.write_text("")
    with alone_in(folder), pytest.raises(UserError, match="is running already"):
        release_unbegun("one", folder, uri)
    assert release_unbegun("one", folder, uri)
    assert not folder.exists()
