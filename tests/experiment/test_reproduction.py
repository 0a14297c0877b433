"""A reproduction: its design, its estimate, where it goes on, and one of toys from end to end."""

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import tune_mtl
from search_spaces import find_space
from tests.local_ray import local_ray
from tests.reporting.conftest import use_home
from tests.reporting.stories import Imagined, Story
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.core.files import write_json
from tune_mtl.core.process.signals import Interrupted
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.reproduction import run
from tune_mtl.experiment.reproduction.design import PLACES, Design, PlannedSearch, make_design
from tune_mtl.experiment.reproduction.progress import Step, next_step
from tune_mtl.experiment.reruns import plan_confirmation, plan_controls
from tune_mtl.prepare.prepared_set import Manifest
from tune_mtl.problems.registry import load_problem
from tune_mtl.reporting.reproduction.write import Written
from tune_mtl.tracking import names

TOY = "tests.trainables.fixtures:problem"
SMALL = {"space": "paper", "seeds": (0, 1), "strategies": ("sus", "io"), "lr": "1e-2", "groups": "2,4"}
OPTIONS = {**SMALL, "max_epochs": 2, "confirm": 1, "controls": 1, "export": False, "report": False}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch, empty_store):
    monkeypatch.delenv("TUNE_MTL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return use_home(tmp_path / "home", empty_store, monkeypatch)


def prepare(folder, *sets):
    for name in sets:
        place = folder / name
        place.mkdir(parents=True)
        Manifest(name, 2, "a test", {}).write(place)


def searched(design):
    return {one.name: one.problem for one in design.searches}


def test_without_data_the_embedded_problems_stand_in_for_the_papers():
    design = make_design()
    assert searched(design) == {"reproduce-multidigits": "multidigits", "reproduce-glyphs": "glyphs"}
    assert [(place.number, problem) for place, problem in design.places.items()] == [
        (1, "multidigits"), (2, "multidigits"), (3, "glyphs"),
    ]  # fmt: skip
    assert all(one.options["seeds"] == (0, 1, 2) for one in design.searches)
    assert all("strategies" not in one.options for one in design.searches)  # all of the paper's
    assert any("Cityscapes" in note and "segment" in note for note in design.notes)


def test_prepared_data_sets_take_their_places(tmp_path):
    prepare(tmp_path / "sets", "celeba", "nyuv2")
    design = make_design(data=tmp_path / "sets")
    assert [one.problem for one in design.searches] == ["nyuv2", "multidigits", "celeba"]
    assert all(one.options["fixed"] == {"problem_data": str(tmp_path / "sets")} for one in design.searches[::2])
    assert "fixed" not in design.searches[1].options
    assert design.command == f"tune-mtl reproduce --data {tmp_path / 'sets'}"
    prepare(tmp_path / "data", "celeba", "cityscapes", "nyuv2")  # ./data is the default
    assert [one.problem for one in make_design().searches] == ["nyuv2", "cityscapes", "celeba"]
    assert [one.problem for one in make_design(embedded=True).searches] == ["multidigits", "glyphs"]
    assert [one.problem for one in make_design(quick=True).searches] == ["multidigits", "glyphs"]


def test_the_small_design_says_what_it_leaves_out():
    design = make_design(quick=True)
    assert list(searched(design)) == ["reproduce-quick-multidigits", "reproduce-quick-glyphs"]
    notes = " ".join(design.notes)
    for words in ("4 and 40 groups instead of 2, 4, 8, 20 and 40", "no gradnorm, pcgrad and mr", "5 of multidigits"):
        assert words in notes
    for one in design.searches:
        plan = plan_search(one.problem, name=one.name, **one.options)
        whole = find_space(load_problem(one.problem), "paper")
        grid = sum(whole.grid_size(strategy) for strategy in whole.strategies)
        assert plan.total / plan.replicates < grid / 2
        assert set(plan.space.dimensions["lr"].points()) < set(whole.dimensions["lr"].points())
        assert plan.replicates >= 4


def test_more_seeds_are_another_reproduction():
    design = make_design(seeds=7)
    assert list(searched(design)) == ["reproduce-multidigits-7-seeds", "reproduce-glyphs-7-seeds"]
    assert design.command == "tune-mtl reproduce --seeds 7"
    assert all(len(one.options["seeds"]) == 7 for one in design.searches)
    assert [one.options["controls"] for one in design.searches] == [7, 0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "1"], "error: seeds=1 must be a whole number from 2 to 100: one tuning says nothing of chance."),
        (["--data", "nowhere"], "error: data=nowhere is no folder: give that of the prepared sets."),
        (["--quick", "--data", "."], "error: data=. has no use with --quick, which takes the embedded problems: drop"),
        (["--quick", "--address", "127.0.0.1:1"], "error: "),
        (["--quick", "--storage", "s3://bucket"], "error: storage s3://bucket cannot be used"),
    ],
)
def test_what_cannot_be_is_a_line_before_anything_starts(words, said, capsys, monkeypatch):
    monkeypatch.setattr(run, "search", lambda *_, **__: pytest.fail("it was started"))
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "reproduce", *words])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    told = capsys.readouterr().err.strip()
    assert told.startswith(said)
    assert "\n" not in told


def test_a_prepared_set_that_cannot_be_read_is_no_reason_to_take_another(tmp_path):
    prepare(tmp_path / "data", "celeba")
    (tmp_path / "data" / "celeba" / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="is damaged"):
        make_design()


def toy_plan(**changed):
    return plan_search(TOY, name="toys", **{**OPTIONS, **changed})


def test_a_search_goes_on_where_it_is():
    plan = toy_plan()
    assert next_step(plan) is Step.START
    plan.folder.mkdir(parents=True)
    write_json(plan.folder / names.SETTINGS_FILE, plan.settings.public())
    assert next_step(plan) is Step.RESUME  # killed before it had a run
    story = Story("toys")
    assert next_step(plan) is Step.RESUME
    story.trial("sus", 0.5)
    story.runs["trial"].close_search(complete=True, tags={}, table=tune_mtl.trials("toys"), best=None)
    assert next_step(plan) is Step.CONFIRM
    story.end()
    assert next_step(plan) is Step.DONE
    assert next_step(toy_plan(concurrency=1)) is Step.DONE  # how fast is no other question
    with pytest.raises(
        UserError, match=r"'toys' exists with other settings \(replicates 2, here 3; seeds \[0, 1\], here"
    ):
        next_step(toy_plan(seeds=(0, 1, 2)))


@dataclass(frozen=True)
class Ended:
    """A search's result, as far as it matters here."""

    complete: bool = True


class Stubs:
    """What is done for searches, instead of doing it."""

    def __init__(self, monkeypatch, steps, *, ends=()):
        self.calls = []
        self.searches = [PlannedSearch(name, TOY, OPTIONS) for name in steps]
        self.design = Design("made", "tune-mtl reproduce", self.searches, {})
        monkeypatch.setattr(run, "make_design", lambda **_: self.design)
        monkeypatch.setattr(run, "_looked_at", lambda *_: ({"first": toy_plan()}, steps))
        for name in ("search", "resume", "confirm"):
            monkeypatch.setattr(run, name, self._doing(name, ends))
        monkeypatch.setattr(run, "places_of", lambda *_: ())
        monkeypatch.setattr(run, "write_page", lambda *given: Written(given[-1], ()))

    def _doing(self, what, ends):
        def do(*given, **options):
            name = options.get("name", given[0])
            self.calls.append((what, name))
            if name in ends:
                raise ends[name]
            return Ended()

        return do


def test_only_what_is_left_is_done(monkeypatch):
    steps = {"a": Step.DONE, "b": Step.CONFIRM, "c": Step.RESUME, "d": Step.START}
    stubs = Stubs(monkeypatch, steps)
    done = tune_mtl.reproduce()
    assert done.complete
    assert stubs.calls == [("confirm", "b"), ("resume", "c"), ("search", "d")]
    assert done.plain()["searches"] == ["a", "b", "c", "d"]


def test_an_interruption_says_the_same_command(monkeypatch):
    steps = {"a": Step.START, "b": Step.START}
    stubs = Stubs(monkeypatch, steps, ends={"a": Interrupted("tune-mtl resume a")})
    with pytest.raises(Interrupted) as stopped:
        tune_mtl.reproduce()
    assert stopped.value.way_on == "tune-mtl reproduce"
    assert stubs.calls == [("search", "a")]


def test_the_way_on_finds_the_store_that_was_given(monkeypatch):
    Stubs(monkeypatch, {"a": Step.START}, ends={"a": Interrupted("tune-mtl resume a")})
    with pytest.raises(Interrupted) as stopped:
        tune_mtl.reproduce(tracking_uri="sqlite:////my store.db", concurrency=1, storage=None, out="my.html")
    assert stopped.value.way_on == (
        "tune-mtl reproduce --tracking-uri 'sqlite:////my store.db' --concurrency 1 --out my.html"
    )
    with pytest.raises(Interrupted) as stopped:
        tune_mtl.reproduce(tracking_uri="postgresql://me:secret@host/db")
    assert "secret" not in stopped.value.way_on


def test_a_search_that_did_not_end_keeps_the_others_from_starting(monkeypatch, capsys):
    stubs = Stubs(monkeypatch, {"a": Step.START, "b": Step.START})
    monkeypatch.setattr(run, "search", lambda *_, **__: Ended(complete=False))
    done = tune_mtl.reproduce()
    assert not done.complete
    assert done.page is None
    monkeypatch.setattr("tune_mtl.commands.reproduce._announce", lambda _: None)
    monkeypatch.setattr(run, "_estimates", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "reproduce"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 130
    assert capsys.readouterr().err == "interrupted. To go on: tune-mtl reproduce\n"
    assert stubs.calls == []


@pytest.fixture
def of_toys(monkeypatch):
    """A reproduction of two toy problems: one of several kinds of tasks, they say, one of one kind."""
    problems = {"reproduce-several": TOY, "reproduce-one": "tests.trainables.fixtures:convolutional"}
    few = {**OPTIONS, "max_epochs": 1, "groups": "2", "controls": 0}
    searches = [PlannedSearch(name, problem, few) for name, problem in problems.items()]
    first, second = problems.values()
    design = Design("toys", "tune-mtl reproduce", searches, dict(zip(PLACES, (first, first, second), strict=True)))
    monkeypatch.setattr(run, "make_design", lambda **_: design)
    return design


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_toys_from_end_to_end(of_toys, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # workers start elsewhere
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "reproduce", "--json"])
    with local_ray(), pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["complete"]
    assert [one["verdict"] in ("holds", "does not hold", "cannot tell") for one in told["claims"]] == [True] * 6
    assert re.search(r"About .* in all on this machine", printed.err)
    page = Path(told["page"])
    assert page.read_text().count("<svg ") == 3
    for number in range(1, 5):
        assert f"Table {number}: " in page.read_text()
    for what in ("search", "resume", "confirm"):
        monkeypatch.setattr(run, what, lambda *_, **__: pytest.fail("what is finished was run again"))
    again = tune_mtl.reproduce()
    assert again.page == page
    assert [claim.verdict for claim in again.claims] == [one["verdict"] for one in told["claims"]]


@pytest.mark.parametrize(("controls", "expected"), [(0, 0), (2, 2), (5, 4)])
def test_controls_are_trained_in_as_many_tunings_as_asked_for(controls, expected):
    plan = toy_plan(controls=controls, seeds=(0, 1, 2, 3))
    story = Imagined(settings={"strategies": ["sus", "io"]})
    for replicate in range(4):
        for strategy, groups in (("sus", None), ("io", 4)):
            story.trial(strategy, 0.5, groups=groups, seed=replicate, replicate=replicate, config={"problem": TOY})
    search = story.search()
    roles = Counter(one.role for one in [*plan_confirmation(plan, search, 1), *plan_controls(plan, search, 1)])
    assert roles[names.CONFIRM] == 8
    assert roles[names.EQUAL_UPDATES] == expected
