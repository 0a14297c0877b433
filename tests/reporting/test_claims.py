"""The paper's claims on made-up data, of which everybody can see whether they hold."""

import math
import sys

import pytest

from tests.reporting.stories import Imagined, fresh_seed, usual
from tune_mtl.cli import main
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.experiment.problem_facts import problem_facts
from tune_mtl.reporting.claims import Claim, Findings, Part, check_claims, claims_table, together
from tune_mtl.reporting.page import claims_html
from tune_mtl.reporting.results import Results
from tune_mtl.tracking import names

NOISE = (0.0, 0.01, -0.01)


def claims(*stories):
    read = [story.search() for story in stories]
    return check_claims([Findings(search, Results.of(search)) for search in read])


def verdicts(*stories):
    return [claim.verdict for claim in claims(*stories)]


def grid(name="made", *, two=0.3, four=0.4, path_four=80.0, path_io=40.0, once=False, **facts):
    """A paper-like grid: every config in three replicates (or, ``once``, on three seeds), nobody stopped."""
    told = {"algorithm": "grid", "scheduler": "none", "strategies": ["sus", "ius", "io"]}
    story = Imagined(name, settings=told, tasks=["a", "b", "c", "d"], **facts)
    for seed, noise in enumerate(NOISE):
        place = {"seed": seed, "replicate": 0 if once else seed}
        story.trial("sus", 0.5 + 0.1 * noise, path=10.0, **place)
        for strategy in ("ius", "io"):
            story.trial(strategy, two + 0.1 * noise, groups=2, path=path_io, **place)
            story.trial(strategy, four + 0.2 * noise, groups=4, path=path_four, **place)
    return story


def judge(story, strategy, values, *, once=False, **told):
    """Train the choices of a grid's tunings again."""
    for replicate, value in enumerate(values):
        story.rerun(strategy, fresh_seed(replicate), value, replicate=0 if once else replicate, **told)


def holding(*, once=False, **facts):
    story = grid(once=once, **facts)
    judge(story, "sus", [0.50, 0.52, 0.49], once=once, path=10.0)
    judge(story, "ius", [0.45, 0.46, 0.44], once=once, groups=2, updates=80)
    judge(story, "io", [0.30, 0.31, 0.29], once=once, groups=2, updates=80)
    judge(story, "sus", [0.40, 0.42, 0.39], once=once, role=names.EQUAL_UPDATES, updates=80)
    return story


def test_what_holds():
    found = claims(holding())
    assert [claim.verdict for claim in found] == ["holds"] * 5 + ["cannot tell"]
    assert "ius (2 groups) total x 4.00" in found[0].numbers
    assert "io 4 against 2 groups, total x 2.00" in found[1].numbers
    assert "ius: 4 groups, one per task, 0.1000 worse (p = 3.3e-05) than 2" in found[3].numbers
    assert "sus 0.203 worse (p = 0.00027) than io at its own budget" in found[4].numbers
    assert "with as many updates, 0.103 worse (p = 0.001)" in found[4].numbers


def test_one_tuning_of_each_says_nothing_of_tuned_qualities():
    assert verdicts(holding(once=True)) == ["holds"] * 2 + ["cannot tell"] * 4


def test_what_does_not_hold():
    story = grid(two=0.45, four=0.4, path_four=20.0, path_io=5.0)
    judge(story, "sus", [0.30, 0.31, 0.29])
    judge(story, "ius", [0.25, 0.262, 0.24], groups=4, updates=80)
    judge(story, "io", [0.40, 0.412, 0.39], groups=4, updates=80)
    judge(story, "sus", [0.20, 0.21, 0.19], role=names.EQUAL_UPDATES, updates=80)
    found = verdicts(story)
    assert found == ["does not hold", "holds", "does not hold", "does not hold", "does not hold", "cannot tell"]


def test_an_advantage_that_equal_updates_explain_away_does_not_survive():
    story = holding()
    judge(story, "sus", [0.301, 0.312, 0.289], role=names.EQUAL_UPDATES, updates=80)
    assert verdicts(story)[4] == "does not hold"


def test_an_advantage_of_which_too_little_is_left_to_tell_is_left_open():
    story = holding()
    judge(story, "sus", [0.30, 0.60, 0.40], role=names.EQUAL_UPDATES, updates=80)
    assert verdicts(story)[4] == "cannot tell"


def test_a_lost_tuning_is_the_reason_that_is_given():
    story = grid()
    judge(story, "sus", [0.50, 0.52, 0.49], path=10.0)
    judge(story, "ius", [0.45, 0.46, 0.44], groups=2, updates=80)
    judge(story, "io", [0.30, 0.31], groups=2, updates=80)
    story.rerun("io", fresh_seed(2), 0.3, replicate=2, groups=2, outcome="diverged")
    judge(story, "sus", [0.40, 0.42, 0.39], role=names.EQUAL_UPDATES, updates=80)
    best, survives = claims(story)[2], claims(story)[4]
    for claim in (best, survives):
        assert claim.verdict == "cannot tell"
        assert "; 1 tuning of io diverged or failed, so it is not said to be better" in claim.numbers
    assert "no significant advantage" not in survives.numbers


def test_a_number_of_groups_that_cannot_be_tested_refutes_nothing():
    story = grid(two=0.5, four=0.4)  # two groups are worse than one per task
    for strategy in ("ius", "io"):  # three are better, but only one of their runs ended well
        story.trial(strategy, 0.1, groups=3, seed=0, replicate=0)
    judge(story, "sus", [0.50, 0.52, 0.49])
    judge(story, "io", [0.40, 0.42, 0.39], groups=4)
    claim = claims(story)[3]
    assert claim.verdict == "cannot tell"
    assert "than 3" in claim.numbers


def test_what_cannot_be_told():
    story = Imagined()
    story.trial("sus", 0.5)
    story.trial("io", 0.4, groups=2)
    assert verdicts(story) == ["cannot tell"] * 6


def spread_by(name, io, noise=0.01, *, once=False, **facts):
    """Three tunings of sus and io, judged on fresh seeds."""
    story = Imagined(name, settings={"algorithm": "grid", "scheduler": "none"}, **facts)
    for replicate, shift in enumerate((-noise, 0.0, noise)):
        place = 0 if once else replicate
        for strategy, value in (("sus", 0.5 + shift), ("io", io + shift / 2)):
            story.trial(strategy, value, seed=replicate, replicate=place)
            story.rerun(strategy, fresh_seed(replicate), value, replicate=place)
    return story


def test_differences_between_problems():
    apart, alike = spread_by("apart", 0.3), spread_by("alike", 0.49, homogeneous=True)
    found = verdicts(apart, alike)
    assert len(found) == 2 * 5 + 1
    assert found[-1] == "holds"
    reverse = spread_by("reverse", 0.3, homogeneous=True), spread_by("other", 0.49)
    assert verdicts(*reverse)[-1] == "does not hold"
    tuned_once = spread_by("apart", 0.3, once=True), spread_by("alike", 0.49, homogeneous=True, once=True)
    assert verdicts(*tuned_once)[-1] == "cannot tell"


def test_a_claim_about_two_kinds_says_what_each_search_is_and_lacks():
    apart = spread_by("apart", 0.3)
    assert claims(apart)[-1].numbers == (
        "needs two searches: one on tasks of one kind, such as glyphs, one on tasks of several, as multidigits;"
        " apart is on tasks of several kinds"
    )
    once = spread_by("alike", 0.49, once=True, homogeneous=True)
    assert claims(apart, once)[-1].numbers.endswith(
        "; alike is on tasks of one kind, but has not two tunings or more of two of sus, ius and io"
    )
    by_updates = spread_by("even", 0.49, homogeneous=True, budget={"counts": "updates", "length": 80})
    found = claims(apart, by_updates)[-1]
    assert found.verdict == "cannot tell"
    assert found.numbers.endswith("; even is on tasks of one kind, but its trials have equal updates, not equal epochs")


def test_moderate_grouping_is_a_claim_about_equal_epochs():
    claim = claims(holding(budget={"counts": "updates", "length": 80}))[3]
    assert claim.verdict == "cannot tell"
    assert claim.numbers == "needs trials of equal epochs, as in the paper; here they have equal updates"


@pytest.mark.parametrize(("name", "alike"), [("glyphs", True), ("multidigits", False)])
def test_the_embedded_problems_are_of_either_kind(name, alike):
    assert problem_facts(plan_search(name, samples=3))["homogeneous"] is alike


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
    claim = claims(spread_by("apart", 0.4, noise=0.1), spread_by("alike", 0.42, noise=0.1, homogeneous=True))[-1]
    assert claim.verdict == "cannot tell"
    assert "16.5% on alike, 21.4% on apart (p = " in claim.numbers


def test_one_of_many_parts_may_be_the_other_way_round_by_chance():
    against, undecided = Part("a", 0.97, 0.03), Part("b", 0.5, 0.5)
    assert together("claim", [against]).verdict == "does not hold"
    assert together("claim", [against, undecided]).verdict == "cannot tell"
    assert together("claim", [Part("a", 0.999, 0.001), undecided]).verdict == "does not hold"
    assert together("claim", [Part("a", 0.01, 0.99), Part("b", 0.04, 0.96)]).verdict == "holds"
    assert together("claim", [Part("a", 0.01, 0.99), Part("b", math.nan, math.nan)]).verdict == "cannot tell"


def test_many_comparisons_are_folded_away_and_what_is_needed_is_not():
    few = "; ".join(f"a{index} x 2.00 (p = 0.01)" for index in range(8))
    shown = claims_html(claims_table([Claim("c", "holds", few)]))
    assert "<details>" not in shown
    assert shown.count("<li>a") == 8
    many = f"{few}; a8 x 2.00 (p < 1e-06); about 9 tunings, each with a seed of its own, would tell"
    folded = claims_html(claims_table([Claim("c", "cannot tell", many)]))
    above, _, inside = folded.partition("<details><summary>9 comparisons</summary>")
    assert "about 9 tunings" in above
    assert inside.count("<li>a") == 9
