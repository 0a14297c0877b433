"""Draws of groups crossed with seeds, on a real Ray and a real MLflow store."""

import pytest

import tune_mtl
from tests.local_ray import local_ray
from tune_mtl import UserError
from tune_mtl.experiment.factorial import plan_factorial, way_on
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.reporting.groups import missing_factorial
from tune_mtl.results.factorial import layouts
from tune_mtl.results.search_data import SearchData
from tune_mtl.strategies.grouping import make_groups
from tune_mtl.tracking import names

PROBLEM = "tests.trainables.fixtures:problem"
TASKS = ["t0", "t1", "t2", "t3"]
FIRST = 2_000_000
pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture(scope="module", autouse=True)
def ray_of_our_own():
    with local_ray():
        yield


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNE_MTL_HOME", str(folder))
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


@pytest.fixture(scope="module")
def searched(ray_of_our_own, home):
    given = {"strategies": ["sus", "io"], "samples": 2, "groups": "2", "max_epochs": 1, "replicates": 1}
    return tune_mtl.search(PROBLEM, name="lucky", report=False, export=False, **given)


@pytest.fixture(scope="module")
def crossed(searched):
    before = tune_mtl.best("lucky").run_id
    written = tune_mtl.factorial("lucky", draws=4, seeds=2)
    return before, written


def test_every_grouping_there_is_meets_every_seed(crossed):
    (layout,) = layouts(SearchData.read("lucky"))
    assert (len(layout.draws), layout.possible) == (3, 3)
    assert list(layout.seeds) == [FIRST, FIRST + 1]
    groupings = {str(make_groups(TASKS, 2, draw)) for draw in layout.draws}
    assert len(groupings) == 3
    assert all("test/loss" in run.metrics for run in layout.runs.values())


def test_its_runs_are_of_a_kind_of_their_own_and_change_no_ranking(crossed):
    before, written = crossed
    search = SearchData.read("lucky")
    assert tune_mtl.best("lucky").run_id == before
    assert tune_mtl.best("lucky", recompute=True).run_id == before
    assert (len(search.trials), len(search.reruns), len(search.crossed)) == (2, 0, 6)
    assert (search.state, search.tags[names.CROSSING]) == ("complete", "complete")
    run = search.client.get_run(search.crossed[0].run_id)
    assert run.data.tags[names.KIND] == "factorial"
    assert run.data.params["groups_seed"] == str(search.crossed[0].config["groups_seed"])
    assert "Of the variance between runs of io (2 groups)" in written.answer
    assert {"group-luck"} <= {table.key for table in written.tables["lucky"]}


def test_a_run_equals_one_that_is_trained_by_hand(crossed):
    run = SearchData.read("lucky").crossed[-1]
    by_hand = tune_mtl.train(PROBLEM, run.config)
    told = make_groups(TASKS, 2, run.config["groups_seed"])
    explicit = {key: value for key, value in run.config.items() if key != "groups_seed"} | {"groups": told}
    same = tune_mtl.train(PROBLEM, explicit)
    for name in ("test/loss", "best/val/loss", "path/best_total"):
        assert by_hand.metrics[name] == same.metrics[name] == run.metrics[name]


def test_it_grows_and_what_is_there_is_not_run_again(crossed):
    before = {run.trial_id: run.run_id for run in SearchData.read("lucky").crossed}
    tune_mtl.factorial("lucky", draws=2, seeds=2)
    assert {run.trial_id: run.run_id for run in SearchData.read("lucky").crossed} == before
    tune_mtl.factorial("lucky", draws=3, seeds=3)
    after = {run.trial_id: run.run_id for run in SearchData.read("lucky").crossed}
    assert before.items() < after.items()
    assert len(after) == 9


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"draws": 1}, "draws=1 must be at least 2"),
        ({"seeds": 0}, "seeds=0 must be at least 2"),
        ({"strategies": ["sus"]}, "strategy 'sus' has no groups"),
        ({"groups": [9]}, "groups=9 is impossible with 4 tasks"),
        ({"groups": [4]}, r"there is nothing to draw: 4 tasks in 4 groups \(io\) are one grouping.*--groups 2"),
    ],
)
def test_what_cannot_be_is_one_line(searched, asked, message):
    with pytest.raises(UserError, match=message) as refused:
        tune_mtl.factorial("lucky", **asked)
    assert "\n" not in str(refused.value)


def test_another_count_takes_the_best_config_with_it(searched):
    plan = plan_search(PROBLEM, strategies=["sus", "io"], samples=2, groups="2", max_epochs=1, replicates=1)
    search = SearchData.read("lucky")
    reruns = plan_factorial(plan, search, 5, 2, None, [2, 3])
    counts = [rerun.config["groups"] for rerun in reruns]
    assert (counts.count(2), counts.count(3)) == (3 * 2, 5 * 2)
    assert len({rerun.trial_id for rerun in reruns}) == len(reruns)
    assert {rerun.config["lr"] for rerun in reruns} == {search.winners["io"].config["lr"]}


def test_groups_that_were_measured_cannot_be_drawn(searched):
    plan = plan_search(PROBLEM, strategies=["sus", "io"], samples=2, groups="2", max_epochs=1, replicates=1)
    search = SearchData.read("lucky")
    search.winners["io"].config["groups_by"] = "affinity"
    with pytest.raises(UserError, match=r"nothing to draw: the groups of io were formed by affinity, not drawn\.$"):
        plan_factorial(plan, search, 2, 2)
    assert missing_factorial(search) == []


def test_the_way_on_is_the_command_that_was_given():
    assert way_on("NAME", 4, 4) == "tune-mtl factorial NAME"
    assert way_on("NAME", 6, 2, ["io", "ius"], [2]) == (
        "tune-mtl factorial NAME --draws 6 --seeds 2 --strategies io,ius --groups 2"
    )
