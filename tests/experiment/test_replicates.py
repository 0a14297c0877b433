"""Searches that repeat the tuning of every strategy, on a real Ray and a real MLflow store."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

import pytest
from pandas.testing import assert_frame_equal
from scipy import stats

import tune_mtl
from tests.experiment.processes import fresh_environment
from tests.experiment.records import check_records
from tests.test_cli import tune_mtl as command
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.core.files import write_json
from tune_mtl.core.outcome import RANKED
from tune_mtl.results.search_data import SearchData
from tune_mtl.results.searches import find_search
from tune_mtl.tracking import names

PROBLEM = "tests.trainables.fixtures:problem"
pytestmark = [pytest.mark.usefixtures("ray_home"), pytest.mark.slow, pytest.mark.timeout(280)]
STRATEGIES, REPLICATES, TRIALS = ("sus", "io"), 3, 2
TESTED = "test/loss"


@pytest.fixture(scope="module")
def repeated(ray_home):
    given = {"strategies": STRATEGIES, "samples": len(STRATEGIES) * REPLICATES * TRIALS, "replicates": REPLICATES}
    return tune_mtl.search(PROBLEM, name="repeated", lr="1e-4:1", seed=20, max_epochs=2, **given)


def runs_of(search, kind):
    """MLflow's own runs, by their trial's name."""
    _, of, parent = find_search(search, None)
    found = of.search_runs([parent.info.experiment_id], f"tags.`{names.KIND}` = '{kind}'")
    return {run.data.tags[names.TRIAL_ID]: run for run in found if run.data.tags[names.PARENT] == parent.info.run_id}


def test_every_tuning_has_its_trials_its_seed_and_its_tag(repeated):
    assert repeated.complete
    check_records("repeated", trials=12)
    runs = runs_of("repeated", "trial")
    frame = repeated.trials()
    for row in frame.itertuples():
        assert runs[row.trial_id].data.tags["tune_mtl.replicate"] == str(row.replicate)
        assert row.seed == 20 + row.replicate
    counts = frame.groupby(["strategy", "replicate"]).size()
    assert counts.to_dict() == {(name, index): TRIALS for name in STRATEGIES for index in range(REPLICATES)}
    for index in range(REPLICATES):
        drawn = {name: list(frame[(frame.strategy == name) & (frame.replicate == index)].lr) for name in STRATEGIES}
        assert drawn["sus"] == drawn["io"]
    assert frame.lr.nunique() == REPLICATES * TRIALS


def test_the_choice_of_every_tuning_is_judged_once_on_its_own_fresh_seed(repeated):
    trained, judged = repeated.trials(), tune_mtl.trials("repeated", kind="confirm")
    chosen = judged[judged.trial_id.str.startswith("confirm-")]
    assert len(chosen) == len(STRATEGIES) * REPLICATES
    assert not set(judged.seed) & set(trained.seed)
    runs = runs_of("repeated", "confirm")
    for row in chosen.itertuples():
        assert row.seed == 1020 + row.replicate
        assert runs[row.trial_id].data.tags["tune_mtl.replicate"] == str(row.replicate)
        its = trained[(trained.strategy == row.strategy) & (trained.replicate == row.replicate)]
        best = its[its.outcome.isin(RANKED)].sort_values("best/val/loss").iloc[0]
        config = json.loads(runs[row.trial_id].data.tags[names.CONFIG])
        won = json.loads(runs_of("repeated", "trial")[best.trial_id].data.tags[names.CONFIG])
        assert {**config, "seed": 0} == {**won, "seed": 0}


def test_controls_are_at_one_learning_rate_on_the_seeds_of_their_replicates(repeated):
    judged = tune_mtl.trials("repeated", kind="confirm")
    search = SearchData.read("repeated")
    paths = judged[judged.trial_id.str.startswith(f"{names.COMMON_PATH}-")]
    assert set(paths.lr) == {search.common_lr}
    assert all(paths.seed == 1020 + paths.replicate)
    at_it = search.paths()
    assert {runs[0].strategy for runs in at_it.values()} == set(STRATEGIES)
    assert all([run.config["seed"] for run in runs] == [1020, 1021, 1022] for runs in at_it.values())


def test_the_verdict_is_what_anybody_computes_from_the_table(repeated):
    found = tune_mtl.verdict("repeated")
    assert found.keys() == {
        "search", "design", "winner", "values", "comparisons", "share_of_seeds", "answer", "warnings", "groups",
        "trade_offs",
    }  # fmt: skip
    assert found["design"] == {
        "replicates": 3, "unit": "strategy", "alpha": 0.05, "test": "paired t", "correction": "Shaffer", "looks": None,
        "trials_per_tuning": 2, "seeds_per_choice": 1, "confirmed": True, "metric": "loss", "mode": "min",
        "split": "test",
    }  # fmt: skip
    judged = tune_mtl.trials("repeated", kind="confirm")
    judged = judged[judged.trial_id.str.startswith("confirm-")].sort_values("replicate")
    reached = {name: list(judged[judged.strategy == name][TESTED]) for name in STRATEGIES}
    assert {name: list(values.values()) for name, values in found["values"].items()} == reached
    (one,) = found["comparisons"]
    a, b = reached[one["a"]], reached[one["b"]]
    assert statistics.fmean(a) <= statistics.fmean(b)
    expected = stats.ttest_rel(b, a)
    interval = expected.confidence_interval(0.95)
    assert one["difference"] == pytest.approx(statistics.fmean(b) - statistics.fmean(a))
    assert one["p"] == pytest.approx(expected.pvalue)
    assert (one["low"], one["high"]) == pytest.approx((interval.low, interval.high))
    assert one["told_apart"] == (expected.pvalue < 0.05)
    assert one["replicates"] == REPLICATES
    assert found["answer"] == repeated.report.answer
    assert repeated.verdict == found


def test_best_is_the_best_trial_of_the_strategy_that_is_best_on_fresh_seeds(repeated):
    judged = tune_mtl.trials("repeated", kind="confirm")
    judged = judged[judged.trial_id.str.startswith("confirm-")]
    winner = judged.groupby("strategy")["best/val/loss"].mean().idxmin()
    _, _, parent = find_search("repeated", None)
    assert tune_mtl.verdict("repeated")["winner"] == parent.data.tags["tune_mtl.winner"] == winner
    its = repeated.trials().query("strategy == @winner").sort_values("best/val/loss").iloc[0]
    best = tune_mtl.best("repeated")
    assert (best.config["strategy"], best.run_id) == (winner, its.run_id)
    assert repeated.best.run_id == parent.data.tags[names.BEST_RUN] == its.run_id
    for strategy in STRATEGIES:
        assert tune_mtl.best("repeated", strategy=strategy).config["strategy"] == strategy


def test_the_command_prints_the_verdict_for_programs(repeated, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "report", "repeated", "--json"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(tune_mtl.verdict("repeated")))


def test_only_trials_for_every_tuning_can_be_added_and_their_choices_are_judged_anew(repeated):
    before = tune_mtl.trials("repeated")
    with pytest.raises(UserError, match="samples=4 must be a multiple of 6"):
        tune_mtl.extend("repeated", samples=4)
    grown = tune_mtl.extend("repeated", samples=6)
    assert grown.complete
    after = grown.trials()
    assert set(after.groupby(["strategy", "replicate"]).size()) == {TRIALS + 1}
    assert_frame_equal(after[: len(before)], before, check_like=True)
    search = SearchData.read("repeated")
    judged = {(run.strategy, run.replicate): run for run in search.confirmed(names.CONFIRM)}
    assert judged.keys() == search.tunings.keys()
    assert all({**judged[key].config, "seed": 0} == {**won, "seed": 0} for key, won in search.tunings.items())
    assert tune_mtl.verdict("repeated")["design"]["trials_per_tuning"] == TRIALS + 1


def test_a_search_of_an_earlier_version_is_read_but_not_gone_on_with(ray_home):
    given = {"strategies": ["sus"], "samples": 1, "max_epochs": 1, "replicates": 1, "report": False}
    tune_mtl.search(PROBLEM, name="old", **given)
    kept = ray_home / "ray" / "old" / names.SETTINGS_FILE
    settings = json.loads(kept.read_text())
    for key in ("replicates", "version", "format"):
        del settings[key]
    write_json(kept, settings)
    for call in (lambda: tune_mtl.resume("old"), lambda: tune_mtl.extend("old", samples=1)):
        with pytest.raises(UserError, match=r"^search 'old' was begun by tune-mtl 0\.1\.0 \(format 1\)") as refused:
            call()
        assert "\n" not in str(refused.value)
    assert tune_mtl.best("old").config["strategy"] == "sus"
    assert "sus" in tune_mtl.confirm("old", seeds=1).answer


def test_a_grid_is_tuned_on_each_of_its_seeds():
    given = {"strategies": STRATEGIES, "lr": "1e-3,1e-1", "groups": "2", "seeds": (3, 8), "max_epochs": 1}
    given["concurrency"] = 1
    result = tune_mtl.search(PROBLEM, name="grid", space="paper", report=False, **given)
    frame, judged = result.trials(), tune_mtl.trials("grid", kind="confirm")
    assert {(row.replicate, row.seed) for row in frame.itertuples()} == {(0, 3), (1, 8)}
    chosen = judged[judged.trial_id.str.startswith("confirm-")]
    assert {(row.strategy, row.replicate, row.seed) for row in chosen.itertuples()} == {
        (name, index, seed) for name in STRATEGIES for index, seed in ((0, 1003), (1, 1008))
    }
    for row in chosen.itertuples():
        its = frame[(frame.strategy == row.strategy) & (frame.replicate == row.replicate)]
        assert row.lr == its.sort_values("best/val/loss").iloc[0].lr
    assert tune_mtl.verdict("grid")["design"]["unit"] == "strategy"


def test_once_time_is_up_fresh_seeds_are_still_those_of_a_search_that_can_be_grown():
    given = {"strategies": ["sus"], "samples": 300, "replicates": 3, "max_epochs": 1, "report": False}
    result = tune_mtl.search(PROBLEM, name="cut", time_budget=3, **given)
    assert result.complete
    assert set(result.trials().replicate) == {0}
    assert set(tune_mtl.trials("cut", kind="confirm").seed) == {1000}


GROWING = {"samples": 8, "replicates": "auto", "max_replicates": 5, "max_epochs": 1, "concurrency": 1}


def test_who_is_hugely_different_is_told_apart_at_the_first_look():
    fixed = {"optimizer": "sgd", "scalar_weights": dict.fromkeys(("t0", "t1", "t2", "t3"), 30.0)}
    result = tune_mtl.search(
        PROBLEM, name="apart", strategies=["sus", "scalar"], lr="0.024:0.026", fixed=fixed, report=False, **GROWING
    )
    assert result.complete
    assert set(result.trials().replicate) == {0, 1, 2, 3}
    (one,) = result.verdict["comparisons"]
    assert (one["a"], one["b"], one["told_apart"]) == ("sus", "scalar", True)
    assert result.verdict["design"]["looks"] == [4, 5]
    assert result.best.config["strategy"] == "sus"


ALIKE = {"strategies": ["sus", "jd_sum"], "lr": "0.1:0.2", "fixed": {"optimizer": "sgd"}}


@pytest.fixture(scope="module")
def alike(ray_home):
    return tune_mtl.search(PROBLEM, name="alike", report=False, **ALIKE, **GROWING)


def test_those_who_are_alike_are_tuned_as_often_as_allowed(alike, ray_home):
    assert alike.complete
    assert set(alike.trials().groupby(["strategy", "replicate"]).size()) == {1}
    assert set(alike.trials().replicate) == set(range(5))
    check_records("alike", trials=10)
    (one,) = alike.verdict["comparisons"]
    assert (one["told_apart"], one["replicates"]) == (False, 5)
    (growth,) = json.loads((ray_home / "ray" / "alike" / names.SETTINGS_FILE).read_text())["grown"]
    assert growth == {"replicates": [4], "strategies": ["sus", "jd_sum"], "trials": 2}
    again = tune_mtl.resume("alike")
    assert_frame_equal(again.trials(), alike.trials())


def test_killed_between_two_rounds_and_resumed_it_ends_as_in_peace(alike, tmp_path):
    environment = fresh_environment(tmp_path)
    words = [f"--{key.replace('_', '-')}={value}" for key, value in GROWING.items()]
    words += ["--strategies=sus,jd_sum", "--lr=0.1:0.2", "--set=optimizer=sgd", "--name=alike", "--no-report"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tune_mtl.cli", "search", PROBLEM, *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    kept = tmp_path / "home" / "ray" / "alike" / names.SETTINGS_FILE
    while process.poll() is None and not (kept.exists() and json.loads(kept.read_text())["grown"]):
        time.sleep(0.02)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    assert len(tune_mtl.trials("alike", tracking_uri=uri)) == 8
    done = command("resume", "alike", cwd=tmp_path, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    for kind in ("trial", "confirm"):
        found, expected = (
            tune_mtl.trials("alike", tracking_uri=where, kind=kind)
            .drop(columns=["run_id", "seconds"])
            .sort_index(axis="columns")
            for where in (uri, None)
        )
        assert_frame_equal(found, expected, check_exact=True)
    assert tune_mtl.verdict("alike", tracking_uri=uri) == tune_mtl.verdict("alike")
