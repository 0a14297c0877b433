"""Updates that are gathered from several mini-batches, in trials: counted, scheduled, resumed."""

import pytest
import torch

from tests.toys import equal, toy_problem, weights
from tests.training.trainers import Stop, make_trainer, timeless
from tune_mtl import Batch, TensorData, UserError, train
from tune_mtl.core.seeds import generator
from tune_mtl.training import checkpoint
from tune_mtl.training.config import resolve
from tune_mtl.training.loader import gathered

SAMPLES = 60


def problem():
    """60 samples, half of the labels of one task missing; no dropout, no BatchNorm."""
    made = toy_problem(samples=SAMPLES, dropout=False)
    plain = made.data

    def data(split):
        everything = plain(split).everything
        half = torch.rand(SAMPLES, generator=torch.Generator().manual_seed(7)) < 0.5
        return TensorData(everything.inputs, everything.targets, {"t1": half})

    made.data = data
    return made


def history(problem, **config):
    trained = make_trainer(problem, **config)
    while not trained.finished:
        trained.run_period()
    return trained


@pytest.mark.parametrize("strategy", ["sus", "io", "pcgrad", "jd_dwa", "igb"])
def test_mini_batches_gathered_are_one_large_batch(strategy):
    settings = {"strategy": strategy, "epochs": 2, "schedule": "cosine", "clip_norm": 1.0}
    large = history(problem(), batch_size=20, **settings)
    gathered = history(problem(), batch_size=5, accumulate=4, **settings)
    assert gathered.updates == large.updates
    for one, other in zip(timeless(gathered.history), timeless(large.history), strict=True):
        assert one == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 7), (2, 4), (3, 3), (4, 2), (7, 1)])
def test_what_is_left_of_an_epoch_makes_an_update_too(accumulate, steps):
    trained = history(problem(), strategy="sus", batch_size=8, accumulate=accumulate, epochs=2)
    assert trained.config.steps_per_epoch(SAMPLES) == steps
    assert trained.updates == trained.strategy.mini_batches == 2 * steps


def test_losses_are_means_over_all_samples():
    """With steps of nearly nothing, gathering changes no mean loss of an epoch, also with a rest and missing labels."""
    records = [
        history(problem(), strategy="io", lr=1e-12, batch_size=8, accumulate=count, epochs=1).history[0]
        for count in (1, 3)
    ]
    for name in ("train/loss", "train/loss/t0", "train/loss/t1"):
        assert records[0][name] == pytest.approx(records[1][name], rel=1e-5)


@pytest.mark.parametrize("strategy", ["io", "pcgrad"])
def test_a_trial_stopped_anywhere_goes_on_exactly(strategy, tmp_path):
    """7 mini-batches an epoch in updates of 3, 3 and 1; with dropout, BatchNorm and augmentation."""

    def jittered(batch: Batch, random: torch.Generator) -> Batch:
        return batch._replace(inputs=batch.inputs + 0.1 * torch.randn(batch.inputs.shape, generator=random))

    settings = {"batch_size": 8, "epochs": 2, "schedule": "cosine", "strategy": strategy, "accumulate": 3}
    settings["checkpoint_trunk"] = strategy == "pcgrad"
    whole = history(toy_problem(conv=True, to_device=jittered), **settings)
    for stop_after in (1, 2, 3):
        first, calls = make_trainer(toy_problem(conv=True, to_device=jittered), **settings), 0

        def leave(first=first, stop_after=stop_after):
            nonlocal calls
            calls += 1
            if calls == stop_after:
                checkpoint.save(tmp_path / "checkpoint.pt", first.state_dict())
                raise Stop

        with pytest.raises(Stop):
            _train_on(first, leave)
        second = make_trainer(toy_problem(conv=True, to_device=jittered), **settings)
        second.load_state_dict(checkpoint.load(tmp_path / "checkpoint.pt"))
        assert second._mini_batch % 3 == 0
        while not second.finished:
            second.run_period()
        assert timeless(second.history) == timeless(whole.history)
        assert equal(weights(second.strategy.model), weights(whole.strategy.model))


def _train_on(trained, after_batch):
    while True:
        trained.run_period(after_batch)


def test_a_limit_of_updates_is_kept():
    trained = history(problem(), strategy="io", batch_size=8, accumulate=2, max_updates=5)
    assert trained.updates == 6  # three at a time: after the second update of the first epoch's four
    assert trained.epoch == 1


def test_divergence_is_looked_for_every_fifty_mini_batches(monkeypatch):
    long = make_trainer(toy_problem(samples=240), strategy="sus", batch_size=2, accumulate=7, epochs=1)
    looks = []
    monkeypatch.setattr(type(long), "_check_divergence", lambda self: looks.append(self._mini_batch))
    long._run_epoch(None)
    assert looks == [56, 105, 120]  # the first ones at which fifty more were seen, and the end


def test_more_than_an_epoch_has_is_refused():
    with pytest.raises(UserError, match=r"accumulate=8 exceeds the 7 mini-batches of an epoch"):
        make_trainer(problem(), strategy="sus", batch_size=8, accumulate=8)
    with pytest.raises(UserError, match="accumulate=0"):
        make_trainer(problem(), strategy="sus", accumulate=0)


def test_configs_say_it_only_where_it_is_so():
    """What an earlier version wrote is what this one writes of the same trial."""
    plain = resolve(toy_problem(), {"strategy": "sus", "lr": 0.1})
    assert plain.as_dict().keys().isdisjoint({"accumulate", "checkpoint_trunk"})
    assert resolve(toy_problem(), {**plain.as_dict(), "accumulate": 1, "checkpoint_trunk": False}) == plain
    chosen = resolve(toy_problem(), {"strategy": "sus", "lr": 0.1, "accumulate": 2, "checkpoint_trunk": True})
    assert resolve(toy_problem(), chosen.as_dict()) == chosen


def test_batches_that_do_not_fit_together_are_refused():
    batches = [Batch(torch.zeros(2, size), {"a": torch.zeros(2)}) for size in (3, 4)]
    with pytest.raises(UserError, match="accumulate: mini-batches cannot be joined"):
        Batch.joined(batches)


def test_joined_batches_have_all_samples_and_labels():
    random = generator(0, "joined")
    inputs = [
        {"x": torch.randn(rows, 2, generator=random), "y": (torch.randn(rows, generator=random),)} for rows in (2, 3)
    ]
    masks = [None, {"b": torch.tensor([True, False, True])}]
    batches = [
        Batch(given, {"a": given["x"] + 1, "b": (given["x"],)}, mask) for given, mask in zip(inputs, masks, strict=True)
    ]
    joined = Batch.joined(batches)
    assert torch.equal(joined.inputs["x"], torch.cat([given["x"] for given in inputs]))
    assert torch.equal(joined.targets["b"][0], joined.inputs["x"])
    assert joined.present is not None
    assert joined.present["b"].tolist() == [True, True, True, False, True]
    assert Batch.joined(batches[:1]) is batches[0]


def test_a_list_of_batches_asks_for_no_more_than_its_own():
    asked = []
    source = (asked.append(number) or number for number in range(5))
    lists = gathered(source, 2)
    assert (next(lists), asked) == ([0, 1], [0, 1])
    assert list(lists) == [[2, 3], [4]]


def test_a_trial_whose_trunk_is_computed_again_is_the_same():
    kept, again = (
        train(toy_problem(conv=True), {"strategy": "io", "lr": 0.01, "epochs": 2, "checkpoint_trunk": recompute})
        for recompute in (False, True)
    )
    assert timeless(kept.history) == timeless(again.history)
    assert again.config["checkpoint_trunk"] is True
