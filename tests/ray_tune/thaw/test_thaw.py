"""The laws of thawing: equal budgets, the same answers to the same story, nothing that depends on being told twice."""

import json
import logging
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, sampled_from

from tests.ray_tune.thaw.simulated import GROUPED, LENGTH, SPACE, Search, thaw, valley
from tune_mtl.ray_tune.thaw.policy import Begin, GoOn
from tune_mtl.ray_tune.thaw.thaw import MOST_POINTS, promise, thinned


@settings(max_examples=5)
@given(integers(1, 10), integers(1, 3), integers(1, 5), sampled_from([0.1, 1 / 3, 1.0]), booleans())
def test_every_tuning_spends_its_budget_and_strategies_train_equally(trials, replicates, slots, share, proposes):
    policy = thaw(trials, replicates, share=share, proposes=proposes)
    search = Search(policy, slots=slots).run()
    assert policy.finished
    assert policy.next(()) is None
    for replicate in range(replicates):
        spent = [search.spent((name, replicate)) for name in SPACE.strategies]
        assert spent[0] == spent[1]
        assert spent[0] == pytest.approx(policy.budget(("sus", replicate)), abs=1)
    begun = Counter(search.tunings.values())
    assert max(begun.values()) <= trials
    if share == 1.0:
        assert set(search.reached.values()) == {LENGTH}


@pytest.mark.parametrize(
    ("trials", "replicates", "epochs"), [(15, 1, 60), (1, 1, 12), (4, 3, 16), (8, 3, 16), (24, 3, 48), (1, 3, 12)]
)
def test_a_tuning_trains_a_share_of_its_trials(trials, replicates, epochs):
    assert thaw(trials, replicates).budget(("sus", 0)) == pytest.approx(epochs)


@pytest.mark.parametrize("slots", [1, 3])
def test_strategies_that_behave_alike_are_treated_alike(slots):
    search = Search(thaw(8, 2), slots=slots).run()
    tried = {
        name: [search.configs[trial]["lr"] for trial, its in search.tunings.items() if its == (name, 1)]
        for name in SPACE.strategies
    }
    assert tried["sus"] == tried["jd_sum"]
    reached = [[search.reached[t] for t, its in search.tunings.items() if its[0] == name] for name in SPACE.strategies]
    assert slots > 1 or reached[0] == reached[1]


def test_the_best_trial_is_found_and_trained_on():
    search = Search(thaw(8)).run()
    for name in SPACE.strategies:
        best = search.configs[search.longest((name, 0))]["lr"]
        assert abs(math.log10(best / 3e-3)) < 0.3
    assert min(search.reached.values()) <= 2  # and hopeless ones are not


@pytest.mark.parametrize(("mode", "sign", "base"), [("max", -1.0, 1.0), ("min", 1.0, -5.0)])
def test_so_it_is_with_other_objectives(mode, sign, base):
    search = Search(thaw(8, mode=mode), lambda config, epoch: base + sign * valley(config, epoch)).run()
    best = search.configs[search.longest(("sus", 0))]["lr"]
    assert abs(math.log10(best / 3e-3)) < 0.5


def test_groups_are_chosen_too():
    def curve(config, epoch):
        return valley(config, epoch) * (1.5 if config.get("groups") == 2 else 1.0)

    search = Search(thaw(12, space=GROUPED), curve, space=GROUPED).run()
    assert search.configs[search.longest(("io", 0))]["groups"] == 4


@settings(max_examples=4)
@given(integers(1, 60), integers(1, 3), booleans())
def test_a_state_goes_on_as_if_nothing_had_happened(events, slots, noisy):
    def curve(config, epoch):
        if config["lr"] > 3e-2 and epoch > 2:
            return None
        jump = np.random.default_rng([epoch, int(config["lr"] * 1e9)]).normal(0, 0.1) if noisy else 0.0
        return math.nan if epoch == 3 and noisy else valley(config, epoch) * math.exp(jump)

    whole = Search(thaw(6, 2), curve, slots=slots).run()
    cut = Search(thaw(6, 2), curve, slots=slots).run(events)
    state = json.loads(json.dumps(cut.policy.state()))
    cut.policy = thaw(6, 2)
    cut.policy.take_up(state)
    for name, config in cut.configs.items():  # a resume may tell everything again
        cut.policy.begun(name, cut.tunings[name], config)
        for epoch in range(1, cut.reached[name] + 1):
            value = curve(config, epoch)
            if value is not None:
                cut.policy.seen(name, float(epoch), value)
    running, cut.running = dict(cut.running), {}
    cut.running.update(running)
    cut.run()
    assert cut.steps == whole.steps
    assert cut.reached == whole.reached


def test_an_answer_depends_on_what_was_told_alone():
    search = Search(thaw(6, 2)).run(20)
    running = list(search.running)
    assert search.policy.next(running) == search.policy.next(running)


def test_replicates_share_the_shape_of_curves_and_no_config():
    """What a replicate tries does not depend on where an earlier one found its best, as long as curves behave alike."""

    def moved(config, epoch):
        return valley({"lr": config["lr"] * (1 if config["seed"] else 10)}, epoch)  # replicate 0 is best at 3e-4

    both = [Search(thaw(8, 2), curve) for curve in (valley, moved)]
    for search in both:
        search.policy._learn_shape = lambda: None
        search.run()
    tried = [[search.configs[t] for t, its in search.tunings.items() if its[1] == 1] for search in both]
    assert tried[0] == tried[1]
    first = [[search.configs[t] for t, its in search.tunings.items() if its[1] == 0] for search in both]
    assert first[0] != first[1]


@pytest.mark.parametrize(
    "curve",
    [
        lambda config, epoch: math.nan,  # noqa: ARG005
        lambda config, epoch: -1.0,  # noqa: ARG005
        lambda config, epoch: math.inf,  # noqa: ARG005
    ],
)
def test_without_a_model_the_best_goes_on_and_one_line_says_so(curve, caplog):
    policy = thaw(4, 2)
    with caplog.at_level(logging.WARNING):
        search = Search(policy, curve).run()
    assert policy.finished
    assert search.spent(("sus", 0)) == 16
    assert len([record for record in caplog.records if "learning curves" in record.message]) == 1


@pytest.mark.parametrize("value", [0.5, 1e-300, 1e300])
def test_curves_that_are_all_the_same_do_not_end_a_search(value):
    policy = thaw(4)
    search = Search(policy, lambda config, epoch: value).run()  # noqa: ARG005
    assert policy.finished
    assert search.spent(("sus", 0)) == 16


def test_a_search_ends_where_everything_diverges():
    policy = thaw(4, 2)
    search = Search(policy, lambda config, epoch: None).run()  # noqa: ARG005
    assert policy.finished
    assert len(search.ended) == 16


def test_configs_near_those_that_diverged_are_left_alone():
    search = Search(thaw(16), lambda config, epoch: None if config["lr"] > 5e-3 else valley(config, epoch)).run()
    late = [config["lr"] for name, config in search.configs.items() if int(name) >= 8]
    assert late
    assert sum(lr > 1e-2 for lr in late) <= len(late) / 4


def test_one_trial_and_one_evaluation_are_enough_to_go_on():
    policy = thaw(1, startup=1, share=1.0)
    step = policy.next(())
    assert step == Begin(("sus", 0), 1)
    policy.begun("0000", ("sus", 0), {"strategy": "sus", "lr": 1e-3})
    policy.seen("0000", 1.0, 0.5)
    policy._trials = {("sus", 0): 1}
    assert policy.next(()) == GoOn("0000", 2.0)


def test_what_counts_need_not_be_epochs():
    policy = thaw(2, length=60.0, step=5.0, share=0.5)
    begun = policy.next(())
    assert begun.until == 5.0
    policy.begun("0000", begun.tuning, {"strategy": "sus", "lr": 1e-3})
    policy.seen("0000", 6.5, 0.5)
    assert policy.spent(begun.tuning) == 6.5


def test_the_searcher_suggests_all_configs_where_somebody_asked_for_its_sampler():
    search = Search(thaw(8, proposes=False)).run()
    assert all(step.values is None for step in search.steps if isinstance(step, Begin))
    own = Search(thaw(8)).run()
    assert any(step.values is not None for step in own.steps if isinstance(step, Begin))


def test_a_decision_takes_in_a_bounded_number_of_observations():
    policy = thaw(400, share=1.0)
    for index in range(400):
        name = f"{index:04d}"
        policy.begun(name, ("sus", 0), {"strategy": "sus", "lr": 10 ** (-4 + 3 * index / 400)})
        for epoch in (1, 2, 3):
            policy.seen(name, float(epoch), 0.1 + abs(index - 200) / 100 + 0.01 / epoch)
    points, values = policy._observed(("sus", 0))
    assert len(points.trial) == len(values) <= MOST_POINTS
    assert {197, 200, 203} <= set(points.trial.tolist())  # the best are there, with all they have told
    assert min(points.trial) < 50
    assert max(points.trial) > 350  # and some of the others


@given(integers(1, 3000))
def test_few_of_many_evaluations_are_needed(count):
    reached = [float(index + 1) for index in range(count)]
    kept = thinned(reached, count)
    assert len(kept) <= 45
    assert kept == sorted(set(kept))
    assert kept[-4:] == reached[-4:]


def test_a_step_is_worth_most_where_it_may_change_the_choice():
    mean, deviation = np.array([0.0, 0.1, 0.1, 2.0]), np.array([0.1, 0.1, 0.1, 0.1])
    worth = promise(mean, deviation, np.array([0.05, 0.05, 1e-6, 0.05]), 4)
    assert worth.argmin() in (2, 3)  # tells nothing, or is hopeless
    assert worth[1] > 10 * worth[3]
    assert worth[1] > 10 * worth[2]
