"""The search's own run tells how the search went, once and in order, whatever was killed in between."""

from tests.tracking.test_runs import uri  # noqa: F401
from tune_mtl.core.objective import Objective
from tune_mtl.tracking import names
from tune_mtl.tracking.runs import SearchRuns
from tune_mtl.tracking.store import client
from tune_mtl.tracking.story import Story

EVENTS = [
    ("open", {"trial": "0", "config": {"strategy": "io"}}),
    ("open", {"trial": "1", "config": {"strategy": "sus"}}),
    ("log", {"trial": "0", "epoch": 1, "values": {"val/loss": 3.0}}),
    ("log", {"trial": "1", "epoch": 1, "values": {"val/loss": 4.0}}),
    ("log", {"trial": "0", "epoch": 2, "values": {"val/loss": 3.5}}),
    ("end", {"trial": "0"}),
    ("end", {"trial": "1"}),
]
RECORDS = [{"call": call, "arguments": told} for call, told in EVENTS]


def points(story: Story, events) -> list:
    calls = {"open": story.start, "log": story.reach, "end": story.end}
    return [point for call, told in events if (point := calls[call](**told)) is not None]


def test_points_are_monotone_and_count_what_happened():
    told = points(Story(Objective("val/loss")), EVENTS)
    steps = [point["step"] for point in told]
    assert steps == sorted(set(steps))
    assert [point["values"].get("best_so_far/io") for point in told] == [3.0, None, 3.0, 3.0]
    assert told[-1]["values"] == {
        "best_so_far/io": 3.0, "best_so_far/sus": 4.0, "search/trials_ended": 2, "search/epochs_spent": 3,
    }  # fmt: skip


def test_what_is_done_again_after_a_kill_is_not_told_again():
    whole = points(Story(Objective("val/loss")), EVENTS)
    for cut in range(len(EVENTS) + 1):
        before = points(Story(Objective("val/loss")), EVENTS[:cut])
        resumed = Story(Objective("val/loss")).read(RECORDS[:cut])
        assert points(resumed, EVENTS[:cut]) == []
        assert before + points(resumed, EVENTS[cut:]) == whole


def test_a_confirmation_counts_and_does_not_judge():
    told = points(Story(None, "confirmation"), EVENTS)
    assert [point["values"] for point in told][-1] == {"confirmation/trials_ended": 2, "confirmation/epochs_spent": 3}


def test_a_point_delivered_twice_is_there_once(uri):  # noqa: F811
    runs = SearchRuns(uri, "toy", "s")
    parent = runs.open_search({names.OBJECTIVE: "val/loss:min"}, {}, {"problem": "toy"})
    for _ in range(2):
        runs.tell(3, {"best_so_far/io": 1.0}, 1000)
    assert len(client(uri).get_metric_history(parent, "best_so_far/io")) == 1
    again = SearchRuns(uri, "toy", "s")
    again.open_search({names.OBJECTIVE: "val/loss:min"}, {}, {"problem": "another", "space": "wide"})
    again.describe(["io is best.", "By far."])
    run = client(uri).get_run(parent)
    assert run.data.params == {"problem": "toy", "space": "wide"}
    note = run.data.tags[names.NOTE]
    assert note.startswith("**io is best.**\n\nLook at: [trials, best first](#/")
    assert "\n\nBy far.\n\n" in note


def test_a_trial_says_how_it_ended_and_shows_its_objective_first(uri):  # noqa: F811
    runs = SearchRuns(uri, "toy", "s")
    runs.open_search({names.OBJECTIVE: "val/loss:min"}, {})
    states = {}
    for trial, outcome in enumerate(("completed", "stopped_early", "diverged", "failed")):
        runs.open_trial(str(trial), {"strategy": "io", "metric": "val/loss:min"}, {})
        runs.log(str(trial), 1, {"train/loss": 1.0, "val/loss": 2.0})
        again = SearchRuns(uri, "toy", "s")
        again.open_search({names.OBJECTIVE: "val/loss:min"}, {})
        again.log(str(trial), 2, {"train/loss": 1.0, "val/loss": 3.0})
        again.close_trial(str(trial), outcome, {"best/val/loss": 2.0, "best/epoch": 1}, {}, {})
        run = client(uri).get_run(again._trials[str(trial)])
        states[outcome] = run.info.status
        assert run.data.tags[names.NOTE].lower().startswith("**" + outcome.replace("_", " "))
        history = client(uri).get_metric_history(run.info.run_id, names.BEST_SO_FAR)
        assert [(point.step, point.value) for point in history] == [(1, 2.0), (2, 2.0)]
    assert states == {"completed": "FINISHED", "stopped_early": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}


PAUSES = [
    *EVENTS[:2],
    ("log", {"trial": "0", "epoch": 1, "values": {"val/loss": 3.0}, "paused": True}),
    ("log", {"trial": "1", "epoch": 1, "values": {"val/loss": 4.0}, "paused": True}),
    ("log", {"trial": "0", "epoch": 2, "values": {"val/loss": 3.5}}),
    ("log", {"trial": "0", "epoch": 3, "values": {"val/loss": 3.5}, "paused": True}),
    ("end", {"trial": "0"}),
]


def test_paused_trials_are_counted_and_a_pause_is_told_once():
    whole = points(Story(Objective("val/loss")), PAUSES)
    assert [point["values"].get("search/trials_paused") for point in whole] == [1, 2, 2, 1]
    assert [point["values"].get("search/epochs_spent") for point in whole] == [1, 2, 4, 4]
    for cut in range(len(PAUSES) + 1):
        resumed = Story(Objective("val/loss")).read({"call": call, "arguments": told} for call, told in PAUSES[:cut])
        assert points(resumed, PAUSES[:cut]) == []
        assert points(Story(Objective("val/loss")), PAUSES[:cut]) + points(resumed, PAUSES[cut:]) == whole
