"""Every planted fault is found before anything trains, and said in a line."""

import re

import pytest
from torch import nn

from tests.examination.faults import FAULTS, frozen, network, sound, without_b
from tune_mtl import UserError, check_problem, train
from tune_mtl.training.trainer import Trainer


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_with_its_task(fault):
    problem, task, what = FAULTS[fault]
    found = [finding for finding in check_problem(problem) if re.search(what, str(finding))]
    assert [finding.task for finding in found] == [task], list(map(str, check_problem(problem)))
    (finding,) = found
    assert not finding.warning
    assert "\n" not in str(finding)
    assert str(finding).startswith(f"task '{task}': " if task else finding.what)
    assert ". " in str(finding) or not finding.way_out


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_trains_with_a_fault(fault, monkeypatch, caplog):
    monkeypatch.setattr(Trainer, "run_period", lambda *_: pytest.fail("it has begun to train"))
    with pytest.raises(UserError) as refused:
        train(FAULTS[fault][0], {"strategy": "io", "lr": 0.01})
    assert "\n" not in str(refused.value)
    assert not caplog.messages


def test_one_mistake_is_one_finding():
    """What follows from it is not said again."""
    more = {"a task without a head": 2, "an input is nan": 2, "nan in every batch": 2}  # the other head; train and val
    for fault, (problem, _, _) in FAULTS.items():
        assert len(check_problem(problem)) == more.get(fault, 1), fault


def test_several_findings_are_counted_and_the_way_to_see_them_is_told():
    problem = sound(data=lambda split: without_b(split) if split == "train" else None)
    with pytest.raises(UserError, match=r"\(1 more: tune_mtl.check_problem\(problem\) shows all.\)$"):
        train(problem, {"strategy": "io", "lr": 0.01})


@pytest.mark.parametrize(
    ("problem", "what"),
    [
        (frozen(), "the trunk is frozen: only heads train"),
        (
            sound(model=lambda: network(trunk=nn.Identity(), a=nn.Linear(5, 1), b=nn.Linear(5, 1))),
            "the trunk has no weights",
        ),
        (sound(model=lambda: network(c=nn.Linear(4, 1))), "head 'c' belongs to no task"),
    ],
)
def test_what_is_doubtful_is_said_and_trained(problem, what, caplog):
    (finding,) = check_problem(problem)
    assert finding.warning
    assert what in str(finding)
    assert train(problem, {"strategy": "io", "lr": 0.01}).outcome == "completed"
    assert f"warning: {finding}" in caplog.messages
