"""What a plan knows of trials that pause: what cannot be, what it may spend, and what it keeps."""

import sys

import pytest

from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.experiment.planning.cost import measure
from tune_mtl.experiment.planning.summary import summarise
from tune_mtl.experiment.planning.thawing import evaluations, kept_paused, make_policy, share
from tune_mtl.experiment.search import plan_search
from tune_mtl.ray_tune.thaw.thaw import SHARE_OF_MANY, SHARE_OF_ONE
from tune_mtl.training.trainer import Trainer

GIVEN = {"strategies": ["sus", "io"], "max_epochs": 12, "scheduler": "thaw"}


def planned(**given):
    return plan_search(toy_problem(3), **{**GIVEN, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"algorithm": "grid"}, "a grid trains every one"),
        ({"space": "paper"}, "a grid trains every one"),
        ({"budget": "seconds", "max_seconds": 5.0}, "needs budget='epochs' or 'updates'"),
        ({"warm_start": "earlier", "replicates": 1}, "cannot have a warm_start"),
    ],
)
def test_what_contradicts_pauses_is_one_line(given, said):
    with pytest.raises(UserError, match=said) as refused:
        planned(**given)
    assert "scheduler='thaw'" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_on_the_command_line_too(monkeypatch, capsys):
    words = ["search", "multidigits", "--scheduler", "thaw", "--algorithm", "grid", "--dry-run"]
    monkeypatch.setattr(sys, "argv", ["tune-mtl", *words])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    line = capsys.readouterr().err
    assert "scheduler='thaw' chooses who trains on" in line
    assert "use scheduler='none'" in line


@pytest.mark.parametrize(
    ("given", "part", "said"),
    [({"samples": 24, "replicates": 1}, SHARE_OF_ONE, "33%"), ({"samples": 48, "replicates": 3}, SHARE_OF_MANY, "17%")],
)
def test_a_part_of_all_trials_in_full_may_be_spent(given, part, said):
    plan = planned(**given)
    assert share(plan) == pytest.approx(part)
    assert evaluations(plan) == pytest.approx(given["samples"] * 12 * part, abs=1)
    text = summarise(plan).text
    assert f"together {said} of their length" in text
    assert "scheduler thaw" in text


def test_other_searches_spend_what_their_trials_take():
    plan = planned(scheduler="asha")
    assert (share(plan), evaluations(plan), kept_paused(plan)) == (1.0, None, 0)


def test_checkpoints_of_paused_trials_are_part_of_what_is_kept():
    given = {"samples": 24, "replicates": 3, "concurrency": 1, "fixed": {"model_width": 2000}}
    paused, stopped = (measure(planned(**given, scheduler=name), timed=False).disk for name in ("thaw", "asha"))
    assert kept_paused(planned(**given)) == 3 * 2 * 2  # of two strategies, in this replicate and the next
    weights = 4 * (5 * 2000 + 2000)
    assert paused - stopped > 12 * 3 * weights  # of three of each tuning the weights and two moments


def test_a_sampler_that_was_asked_for_suggests_all_configs():
    assert make_policy(planned())._proposes
    assert not make_policy(planned(algorithm="random"))._proposes


def test_what_cannot_be_taken_up_again_is_not_paused(monkeypatch):
    kept = Trainer.state_dict
    monkeypatch.setattr(Trainer, "state_dict", lambda self: {**kept(self), "own": object()})
    with pytest.raises(UserError, match="cannot be taken up from its checkpoint") as refused:
        planned()
    assert "--scheduler asha" in str(refused.value)
    assert planned(scheduler="asha").total
