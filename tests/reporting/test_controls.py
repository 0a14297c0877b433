"""Which controls can change what is said, and what is said of the others."""

import pytest

from tests.reporting.stories import Imagined, fresh_seed, repeated, replicated
from tune_mtl.reporting.answer import answer
from tune_mtl.reporting.claims import Findings, survives_equal_updates
from tune_mtl.reporting.controls import Controls, controls_that_matter, left_out, left_out_text
from tune_mtl.reporting.results import Results
from tune_mtl.tracking import names

STEPS = {"io": {"updates": 160, "groups": 4}, "ius": {"updates": 80, "groups": 2}}
"""Updates of whole runs; others take 40."""


def results(reached, told=STEPS, **settings) -> Results:
    """Five tunings of each strategy around a value, which hardly vary."""
    story = Imagined(settings={"strategies": list(reached), "controls": "auto", **settings}, trials_per_tuning=2)
    told = {name: dict(more) for name, more in told.items()}
    return Results.of(replicated(repeated(reached), into=story, told=told).search())


@pytest.mark.parametrize(
    ("reached", "by_steps", "by_rate"),
    [
        ({"io": 0.3, "sus": 0.5}, {"io", "sus"}, {"io", "sus"}),  # more steps may be all that io has
        ({"io": 0.3, "sus": 0.3}, set(), {"io", "sus"}),  # there is no advantage to explain; distances are compared
        ({"io": 0.5, "sus": 0.3}, set(), {"io", "sus"}),  # more steps cannot be why io is worse
        ({"io": 0.3, "ius": 0.3, "sus": 0.5}, {"io", "ius", "sus"}, {"io", "ius", "sus"}),
        ({"io": 0.5, "ius": 0.3, "sus": 0.3}, set(), {"io", "ius", "sus"}),
        ({"pcgrad": 0.3, "sus": 0.5, "uw": 0.3}, set(), {"sus"}),  # as many steps: poor tuning alone may be why
        ({"pcgrad": 0.2, "io": 0.3, "sus": 0.5}, {"pcgrad", "io", "sus"}, {"io", "sus"}),  # the claim is about sus
        ({"io": 0.3, "pcgrad": 0.5, "uw": 0.3}, {"io", "pcgrad"}, {"pcgrad"}),
        ({"io": 0.3}, set(), set()),
        ({"stl": 0.3, "uw": 0.5}, set(), {"uw"}),  # single-task networks share no updates
    ],
    ids=lambda part: "-".join(f"{name}{value}" for name, value in part.items()) if isinstance(part, dict) else None,
)
def test_whoever_may_owe_a_told_difference_to_steps_or_tuning_is_asked_again(reached, by_steps, by_rate):
    assert controls_that_matter(results(reached)) == Controls(frozenset(by_steps), frozenset(by_rate))


def test_of_an_unconfirmed_search_nobody_is_asked():
    story = replicated(repeated({"io": 0.3, "sus": 0.5}), confirmed=False, told=STEPS)
    assert controls_that_matter(Results.of(story.search())) == Controls(frozenset(), frozenset())


def test_what_was_left_out_is_said_with_the_command_that_trains_it():
    reached = {"io": 0.3, "sus": 0.3, "uw": 0.3}
    (said,) = left_out_text(results(reached))
    assert set(left_out(results(reached))[names.EQUAL_UPDATES]) == {"sus", "uw"}
    assert "runs with as many updates as the one that takes most, of " in said
    assert "runs at the common learning rate, of uw." in said
    assert said.endswith("tune-mtl confirm made --controls 3 trains them.")
    assert said in answer(results(reached)).missing
    for asked in (0, 3, "all"):
        assert left_out_text(results(reached, controls=asked)) == []
    assert "as many updates" not in left_out_text(results(reached, budget="updates"))[0]


def test_nothing_is_said_to_be_left_out_where_everything_was_asked_for():
    assert left_out_text(results({"io": 0.3, "sus": 0.5})) == []


def test_whoever_was_left_out_takes_no_seed_from_the_comparison_of_paths():
    story = Imagined(settings={"strategies": ["io", "sus", "uw"], "controls": "auto"}, trials_per_tuning=2)
    told = {"io": {"lr": 0.02, "groups": 4}, "sus": {"lr": 0.1}, "uw": {"lr": 0.2}}
    replicated(repeated({"io": 0.3, "sus": 0.5, "uw": 0.3}), into=story, told=told)
    story.tags = {**story.tags, names.COMMON_LR: "0.01"}
    for replicate in range(3):
        for name, groups in (("io", 4), ("sus", None)):
            seed = fresh_seed(replicate)
            story.rerun(name, seed, 0.4, role=names.COMMON_PATH, lr=0.01, groups=groups, replicate=replicate)
    story.trial("uw", 0.01, lr=0.01, seed=7, replicate=7)
    story.rerun("uw", fresh_seed(7), 0.3, lr=0.01, replicate=7)
    assert {name: len(runs) for name, runs in story.search().paths().items()} == {"io (4 groups)": 3, "sus": 3}


@pytest.mark.parametrize(("io", "verdict"), [(0.3, "cannot tell"), (0.5, "does not hold"), (0.2, "cannot tell")])
def test_without_an_advantage_the_claim_about_equal_updates_needs_none(io, verdict):
    found = results({"io": io, "sus": 0.3})
    claim = survives_equal_updates(Findings(found.search, found))
    assert claim.verdict == verdict
    expected = "needs confirmation of sus" if io == 0.2 else "there is no significant advantage to begin with: sus"
    assert claim.numbers.startswith(expected)
