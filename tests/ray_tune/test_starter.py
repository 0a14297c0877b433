"""Where trials pause, the searcher begins one when it is told to, and of whom it is told."""

from ray.tune.search import ConcurrencyLimiter

from tests.ray_tune.test_searcher import ended, make
from tune_mtl.ray_tune.searcher import FairSearcher
from tune_mtl.ray_tune.thaw.policy import Begin


class Orders:
    """Orders trials, one by one."""

    def __init__(self, *orders):
        self.orders, self.begun, self.over = list(orders), [], False

    def to_begin(self):
        return self.orders[0] if self.orders else None

    def begin(self, trial, tuning, config):
        self.begun.append((trial, tuning, config))
        self.orders.pop(0)


def test_a_trial_begins_when_somebody_says_so():
    orders = Orders()
    searcher = make(starter=orders, samples=3)
    assert searcher.suggest("a") is None
    orders.orders = [Begin(("io", 0), 1.0), Begin(("sus", 0), 1.0)]
    configs = [searcher.suggest(name) for name in "ab"]
    assert [(config["trial"], config["strategy"]) for config in configs] == [("0000", "io"), ("0001", "sus")]
    assert configs[0]["lr"] == configs[1]["lr"]  # the draws that all strategies have in common
    assert [(trial, tuning) for trial, tuning, _ in orders.begun] == [("0000", ("io", 0)), ("0001", ("sus", 0))]
    assert all("trial" not in config and config["epochs"] == 9 for _, _, config in orders.begun)
    assert searcher.suggest("c") is None
    orders.over = True
    assert searcher.suggest("c") == FairSearcher.FINISHED


def test_more_may_begin_than_there_are_turns():
    searcher = make(starter=Orders(*[Begin(("sus", 0), 1.0)] * 5), samples=3)
    assert [searcher.suggest(str(index))["trial"] for index in range(5)] == [f"{index:04d}" for index in range(5)]


def test_values_that_were_chosen_are_those_of_the_trial_and_of_the_study():
    searcher = make(starter=Orders(Begin(("io", 0), 1.0, {"lr": 0.02, "groups": 4})))
    config = searcher.suggest("a")
    assert (config["lr"], config["groups"], config["seed"]) == (0.02, 4, 0)
    (trial,) = searcher.study(("io", 0)).trials
    assert trial.params == {"lr": 0.02, "groups": 4}


def test_a_resumed_search_begins_the_trial_that_had_begun():
    first = make(starter=Orders(Begin(("io", 0), 1.0)))
    config = {key: value for key, value in first.suggest("a").items() if key not in ("trial", "replicate")}
    other = make(starter=Orders(Begin(("io", 0), 1.0, {"lr": 0.5, "groups": 2})))
    other.replay.started["0000"] = config
    assert other.suggest("a")["lr"] == config["lr"]
    assert other.starter.begun[0][2]["lr"] == config["lr"]


def test_a_paused_trial_runs_on_in_its_study_and_is_pruned_at_its_end():
    searcher = make(starter=Orders(Begin(("sus", 0), 1.0)))
    searcher.suggest("a")
    searcher.on_trial_result("a", {"epoch": 1, "best": 0.5, "outcome": "paused"})
    (trial,) = searcher.study(("sus", 0)).trials
    assert (trial.state.name, trial.intermediate_values) == ("RUNNING", {1: 0.5})
    searcher.on_trial_complete("a", ended("stopped_early", 0.5, epoch=1))
    (trial,) = searcher.study(("sus", 0)).trials
    assert (trial.state.name, trial.value) == ("PRUNED", 0.5)


def test_rays_limit_would_count_paused_trials_and_is_not_asked():
    limited = ConcurrencyLimiter(make(starter=Orders(*[Begin(("sus", 0), 1.0)] * 3)), max_concurrent=1)
    assert all(limited.suggest(name) for name in "abc")
    limited = ConcurrencyLimiter(make(), max_concurrent=1)
    assert limited.suggest("a")
    assert limited.suggest("b") is None
