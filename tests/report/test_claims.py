"""The paper's claims on made-up data, of which everybody can see whether they hold."""

import math
import sys

import pytest

import tune_mtl
from tests.report.stories import Story, usual
from tune_mtl.cli import main
from tune_mtl.report.claims import Part, together
from tune_mtl.tracking import names


def verdicts(*searches):
    return [claim.verdict for claim in tune_mtl.paper_claims(*searches)]


def grid(name="made", *, two=0.3, four=0.4, path_four=80.0, path_io=40.0, **facts):
    """A paper-like grid: every config on three seeds, nobody stopped."""
    told = {"algorithm": "grid", "scheduler": "none", "strategies": ["sus", "ius", "io"]}
    story = Story(name, settings=told, tasks=["a", "b", "c", "d"], **facts)
    for seed in range(3):
        shift = 0.001 * seed
        story.trial("sus", 0.5 + shift, seed=seed, path=10.0)
        for strategy in ("ius", "io"):
            story.trial(strategy, two + shift, seed=seed, groups=2, path=path_io)
            story.trial(strategy, four + shift, seed=seed, groups=4, path=path_four)
    return story


def test_what_holds():
    story = grid()
    story.confirm("sus", [0.50, 0.51, 0.49], path=10.0)
    story.confirm("ius", [0.45, 0.46, 0.44], groups=2, updates=80)
    story.confirm("io", [0.30, 0.31, 0.29], groups=2, updates=80)
    story.confirm("sus", [0.40, 0.41, 0.39], role=names.EQUAL_UPDATES, updates=80)
    found = tune_mtl.paper_claims(story.end())
    assert [claim.verdict for claim in found] == ["holds"] * 5 + ["cannot tell"]
    assert "ius (2 groups) total x 4.00" in found[0].numbers
    assert "io 4 against 2 groups, total x 2.00" in found[1].numbers
    assert "ius: 4 groups, one per task, 0.1000 worse (p < 1e-06) than 2" in found[3].numbers
    assert "sus 0.200 worse (p = 1.6e-05) than io at its own budget" in found[4].numbers
    assert "with as many updates, 0.100 worse" in found[4].numbers


def test_what_does_not_hold():
    story = grid(two=0.45, four=0.4, path_four=20.0, path_io=5.0)
    story.confirm("sus", [0.30, 0.31, 0.29])
    story.confirm("ius", [0.25, 0.26, 0.24], groups=4, updates=80)
    story.confirm("io", [0.40, 0.41, 0.39], groups=4, updates=80)
    story.confirm("sus", [0.20, 0.21, 0.19], role=names.EQUAL_UPDATES, updates=80)
    found = verdicts(story.end())
    assert found == ["does not hold", "holds", "does not hold", "does not hold", "does not hold", "cannot tell"]


def test_an_advantage_that_equal_updates_explain_away_does_not_survive():
    assert verdicts(usual().end())[4] == "does not hold"


def test_what_cannot_be_told():
    story = Story()
    story.trial("sus", 0.5)
    story.trial("io", 0.4, groups=2)
    assert verdicts(story.end()) == ["cannot tell"] * 6


def test_differences_between_problems():
    apart, alike = grid("apart"), grid("alike", two=0.49, four=0.499, homogeneous=True)
    found = verdicts(apart.end(), alike.end())
    assert len(found) == 2 * 5 + 1
    assert found[-1] == "holds"
    reverse = grid("reverse", homogeneous=True), grid("other", two=0.49, four=0.499)
    assert verdicts(*(story.end() for story in reverse))[-1] == "does not hold"


def test_the_command_prints_verdicts_with_numbers(capsys, monkeypatch):
    usual().end()
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "claims", "made"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 0
    printed = capsys.readouterr().out
    assert "        holds  IUS and IO travel further than SUS (total, shortest, ratio)\n" in printed
    assert "io (2 groups) total x 4.00 (p < 1e-06)" in printed


def test_a_problem_of_each_kind_told_apart_by_chance_alone_proves_nothing():
    def noisy(name, sus, io, **facts):
        story = Story(name, settings={"algorithm": "grid", "scheduler": "none"}, **facts)
        for seed, noise in enumerate((-0.1, 0.0, 0.1)):
            story.trial("sus", sus + noise, seed=seed)
            story.trial("io", io + noise / 2, seed=seed)
        return story.end()

    searches = noisy("apart", 0.5, 0.4), noisy("alike", 0.5, 0.42, homogeneous=True)
    claim = tune_mtl.paper_claims(*searches)[-1]
    assert claim.verdict == "cannot tell"
    assert "17.4% on alike, 22.2% on apart (p = " in claim.numbers


def test_one_of_many_parts_may_be_the_other_way_round_by_chance():
    against, undecided = Part("a", 0.97, 0.03), Part("b", 0.5, 0.5)
    assert together("claim", [against]).verdict == "does not hold"
    assert together("claim", [against, undecided]).verdict == "cannot tell"
    assert together("claim", [Part("a", 0.999, 0.001), undecided]).verdict == "does not hold"
    assert together("claim", [Part("a", 0.01, 0.99), Part("b", 0.04, 0.96)]).verdict == "holds"
    assert together("claim", [Part("a", 0.01, 0.99), Part("b", math.nan, math.nan)]).verdict == "cannot tell"
