"""What trials saw is gathered by trial, whatever was killed in between, and becomes one file of each trial's run."""

import json

from tests.tracking.test_runs import uri  # noqa: F401
from tune_mtl.core.outcome import Outcome
from tune_mtl.tracking import names
from tune_mtl.tracking.diagnoses import Diagnoses
from tune_mtl.tracking.runs import search_runs
from tune_mtl.tracking.store import client
from tune_mtl.tracking.tracker import Recorded, Tracker

CONFIG = {"strategy": "io", "lr": 0.1, "metric": "val/loss:min"}


def seen(epoch, cosine):
    return {"tasks": ["a", "b"], "cosines": {str(epoch): [[None, cosine], [cosine, None]]}}


def test_a_journal_says_all_that_was_seen_and_another_config_is_another_trial():
    records = [
        ("open", {"trial": "0", "config": CONFIG}),
        ("log", {"trial": "0", "epoch": 1, "values": {}, "diagnosis": seen(1, 0.5)}),
        ("open", {"trial": "0", "config": CONFIG}),
        ("log", {"trial": "0", "epoch": 2, "values": {}, "diagnosis": seen(2, -0.5)}),
        ("log", {"trial": "1", "epoch": 1, "values": {}}),
    ]
    read = Diagnoses().read({"call": call, "arguments": told} for call, told in records)
    assert list(read.of("0")["cosines"]) == ["1", "2"]
    assert read.of("1") is None
    read.start("0", {**CONFIG, "lr": 0.2})
    assert read.of("0") is None


def test_a_trials_run_gets_one_file_also_when_the_search_was_killed(uri, tmp_path):  # noqa: F811
    def tracker():
        made = Tracker(uri, "made", "s", ("strategy",), lambda _: None, folder=tmp_path / "journal")
        made.open({names.OBJECTIVE: "val/loss:min"}, {})
        return made

    first = tracker()
    first.start("0000", CONFIG, 0)
    values = {"train/loss": 1.0, "val/loss": 1.0, "diagnosis/conflict_share": 0.5, "path/layer/0": 2.0}
    first.report("0000", 1, values, last=False, diagnosis=seen(1, 0.5))
    first.flush()
    again = tracker()
    again.start("0000", CONFIG, 0)
    again.report("0000", 2, values, last=False, diagnosis=seen(2, -0.25))
    again.end("0000", Recorded(Outcome.COMPLETED, {"best/val/loss": 1.0}, None))
    again.flush()
    store = client(uri)
    (run,) = search_runs(
        store, [store.get_experiment_by_name(names.experiment_name("made")).experiment_id], "s", "trial"
    )
    assert run.data.metrics["diagnosis/conflict_share"] == 0.5
    assert run.data.metrics["path/layer/0"] == 2.0
    file = store.download_artifacts(run.info.run_id, names.DIAGNOSIS_FILE, str(tmp_path))
    with open(file) as opened:  # noqa: PTH123
        assert json.load(opened)["cosines"] == {**seen(1, 0.5)["cosines"], **seen(2, -0.25)["cosines"]}
