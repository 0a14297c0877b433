"""Schedules: the factors that built-in ones promise, and what becomes of those that users bring."""

import math
import re
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers

from tests.toys import make_batch, make_model, make_tasks, toy_problem
from tune_mtl import ShareOfRun, UserError, make_strategy, train
from tune_mtl.strategies.schedules import WarmupCosineOptions, warmup_cosine
from tune_mtl.training.config import resolve

HERE = "tests.strategies.test_schedules"


def halves(every: Annotated[int | None, ShareOfRun(0.25)] = None, floor=0.0):
    """Half of it, again and again."""
    return lambda mini_batch: max(floor, 0.5 ** (mini_batch // every))


def ends(at: Annotated[int, ShareOfRun(1.0)]):
    return lambda mini_batch: 1 - mini_batch / at


def text(after=3):
    return lambda mini_batch: "a" if mini_batch > after else 1.0


def lost():
    return lambda _: math.nan


def negative():
    return lambda mini_batch: 1.0 - mini_batch


def breaks():
    return lambda mini_batch: 1 / (3 - mini_batch)


def nothing():
    return None


def needs(total):
    return lambda _: 1.0


def counts():
    seen = []

    def factor(mini_batch):
        seen.append(mini_batch)
        return 1 / len(seen)

    return factor


def clip():
    return lambda _: 1.0


def rates(schedule, mini_batches=6, **options):
    """What each of IO's optimizers has stepped with, by mini-batch."""
    strategy = make_strategy("io", make_model(3), make_tasks(3), lr=0.2, optimizer="sgd", schedule=schedule, **options)
    found = []
    for seed in range(mini_batches):
        strategy.step(*make_batch(3, seed=seed))
        found.append([group["lr"] for optimizer in strategy.optimizers for group in optimizer.param_groups])
    return found


@pytest.mark.parametrize("asked", [halves, f"{HERE}:halves"])
def test_a_factor_reaches_every_group_of_every_optimizer(asked):
    found = rates(asked, halves_every=2, halves_floor=0.3)
    assert found == [[0.2 * factor] * 3 for factor in (1.0, 1.0, 0.5, 0.5, 0.3, 0.3)]


def test_options_that_are_shares_of_a_run_follow_its_length_and_a_config_finds_it_again():
    given = {"strategy": "sus", "lr": 0.1, "schedule": halves}
    config = resolve(toy_problem(2), given)
    assert (config.schedule, config.schedule_from) == ("halves", f"{HERE}:halves")
    assert resolve(toy_problem(2), config.as_dict()) == config
    assert config.strategy_options_for(100)["halves_every"] == 25
    of_it = resolve(toy_problem(2), {**given, "halves_every": 0.5})
    assert of_it.strategy_options_for(100)["halves_every"] == 50
    assert resolve(toy_problem(2), {**given, "schedule": ends}).strategy_options_for(80)["ends_at"] == 80


@given(warmup=integers(0, 40), more=integers(1, 60), final=floats(0, 1), at=integers(0, 150))
def test_warmup_cosine_is_a_line_up_and_half_a_cosine_down(warmup, more, final, at):
    scale = warmup_cosine(WarmupCosineOptions(warmup=warmup, steps=warmup + more, final=final))
    if at < warmup:
        expected = (at + 1) / (warmup + 1)
    else:
        angle = math.pi * min(at - warmup, more) / more
        expected = final + (1 - final) * (1 + math.cos(angle)) / 2
    assert scale(at) == pytest.approx(expected, abs=1e-12)
    assert scale(warmup) == 1.0


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (text, "gives a value of type str for mini-batch 4, with after=3"),
        (lost, "gives nan for mini-batch 0"),
        (negative, "gives -1.0 for mini-batch 2"),
        (breaks, "fails at mini-batch 3, with no options: ZeroDivisionError"),
        (nothing, "returns a value of type NoneType, but must return a function"),
        (needs, "option 'total' has no default"),
        (counts, "when it is asked in another order"),
        (clip, "is named 'clip', as something else of a config is"),
        ("torch.optim.lr_scheduler:StepLR", "is a scheduler of torch's, which changes an optimizer by itself"),
        (f"{HERE}:HERE", "is no schedule but a value of type str"),
        ("cosin", "unknown schedule 'cosin'. Did you mean 'cosine'?"),
    ],
)
def test_what_is_no_schedule_is_refused_in_a_line_before_training(tmp_path, schedule, said):
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        train(toy_problem(2), {"strategy": "sus", "lr": 0.1, "schedule": schedule}, out=tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()
