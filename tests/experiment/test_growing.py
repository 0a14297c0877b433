"""Searches that go on: extended, warm-started, resumed from whatever a kill left in their folder."""

import json
import shutil

import pytest
from pandas.testing import assert_frame_equal

import tune_mtl
from tests.experiment.records import check_records
from tune_mtl import UserError
from tune_mtl.core.files import write_json
from tune_mtl.experiment.lock import alone_in
from tune_mtl.experiment.search import plan_search
from tune_mtl.tracking import names
from tune_mtl.tracking.names import SNAPSHOT

PROBLEM = "tests.trainables.fixtures:problem"
pytestmark = [pytest.mark.usefixtures("ray_home"), pytest.mark.slow, pytest.mark.timeout(280)]
ASKED = {"strategies": ["sus", "io"], "algorithm": "random", "lr": "1e-4:1", "concurrency": 1, "report": False}


@pytest.fixture(scope="module")
def whole(ray_home):
    return tune_mtl.search(PROBLEM, name="whole", samples=8, **ASKED)


def numbers(result):
    return result.trials().drop(columns=["run_id", "seconds"]).sort_index(axis="columns")


def test_a_grown_search_is_one_that_was_larger_from_the_start(whole, ray_home):
    tune_mtl.search(PROBLEM, name="grown", samples=4, **ASKED)
    grown = tune_mtl.extend("grown", samples=4)
    assert grown.complete
    check_records("grown", trials=8)
    assert_frame_equal(numbers(grown), numbers(whole), check_exact=True)
    assert grown.best.trial_id == whole.best.trial_id
    assert "stopped_early" in grown.counts
    settings = json.loads((ray_home / "ray" / "grown" / names.SETTINGS_FILE).read_text())
    assert settings["samples"] + sum(growth["trials"] for growth in settings["grown"]) == 8
    assert len(tune_mtl.resume("grown").trials()) == 8


def test_what_cannot_grow_is_told(ray_home):
    tune_mtl.search(
        PROBLEM, name="grid", algorithm="grid", strategies=["sus"], lr="0.1", max_epochs=1, seeds=(0,), report=False
    )
    with pytest.raises(UserError, match="has tried all 1 configs of its grid"):
        tune_mtl.extend("grid", samples=3)
    with pytest.raises(UserError, match="samples=0"):
        tune_mtl.extend("grid", samples=0)
    with pytest.raises(UserError, match="there is no search 'nobody'"):
        tune_mtl.extend("nobody", samples=3)


def test_torn_files_of_ray_do_not_matter(whole, ray_home):
    before = numbers(whole)
    for path in (ray_home / "ray" / "whole").glob("*-state*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (ray_home / "ray" / "whole" / "experiment_state-9999-12-31_00-00-00.json").write_text('{"trial_data": [')
    again = tune_mtl.resume("whole")
    assert again.complete
    assert_frame_equal(numbers(again), before, check_exact=True)
    check_records("whole", trials=8)


def test_killed_before_its_first_trial_it_starts(ray_home):
    plan = plan_search(PROBLEM, name="early", samples=2, max_epochs=1, **ASKED)
    plan.folder.mkdir(parents=True)
    write_json(plan.folder / names.SETTINGS_FILE, plan.settings.public())
    (plan.folder / f".{SNAPSHOT}.partial").write_bytes(b"half")
    assert tune_mtl.resume("early").complete
    check_records("early", trials=2)


def test_a_search_has_one_driver(whole, ray_home):
    with alone_in(ray_home / "ray" / "whole"):
        for call in (tune_mtl.resume, tune_mtl.confirm):
            with pytest.raises(UserError, match=r"is running already \(process \d+ on "):
                call("whole")


def test_a_warm_start_learns_what_is_in_its_space(whole, capsys):
    asked = {**ASKED, "algorithm": "optuna", "max_epochs": 2}
    result = tune_mtl.search(PROBLEM, name="warm", samples=2, warm_start="whole", **asked)
    assert result.complete
    assert "8 of 8 trials of search 'whole' are taken in" in capsys.readouterr().out
    with pytest.raises(UserError, match="none of its 8 ended trials is of this search's space"):
        tune_mtl.search(PROBLEM, name="cold", samples=2, warm_start="whole", **{**asked, "lr": "5:6"})
    with pytest.raises(UserError, match="there is no search 'nobody'"):
        tune_mtl.search(PROBLEM, name="cold", samples=2, warm_start="nobody", **asked)
    with pytest.raises(UserError, match=r"is a search on 'tests.trainables.fixtures:problem', not on 'multidigits'"):
        tune_mtl.search("multidigits", name="cold", samples=2, warm_start="whole", **{**asked, "lr": None})
    with pytest.raises(UserError, match="warm_start needs algorithm='optuna'"):
        tune_mtl.search(PROBLEM, name="cold", samples=2, warm_start="whole", **ASKED)


def test_a_moved_folder_is_found_where_it_is_said_to_be(ray_home, tmp_path):
    tune_mtl.search(PROBLEM, name="moved", samples=2, max_epochs=1, **ASKED)
    shutil.move(ray_home / "ray" / "moved", tmp_path / "moved")
    grown = tune_mtl.extend("moved", samples=2, storage=str(tmp_path))
    assert grown.folder == tmp_path / "moved"
    check_records("moved", trials=4)


def test_object_stores_are_refused_with_what_to_do():
    with pytest.raises(UserError, match="s3://bucket/x cannot be used: it must be a folder that all nodes share"):
        plan_search(PROBLEM, storage="s3://bucket/x")
