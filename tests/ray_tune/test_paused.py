"""What paused trials keep on disk."""

from types import SimpleNamespace

import pytest

from trainables.keys import REPLICATE, TRIAL
from tune_mtl import Objective
from tune_mtl.core.files import BEST_WEIGHTS
from tune_mtl.ray_tune.paused import PausedCheckpoints, has_lost_weights
from tune_mtl.ray_tune.thaw.conductor import KEPT
from tune_mtl.training import checkpoint
from tune_mtl.training.trial import CHECKPOINT


def paused(folder, name, best, strategy="sus", replicate=0):
    place = folder / name
    place.mkdir()
    for file in (CHECKPOINT, BEST_WEIGHTS):
        checkpoint.save(place / file, {"epoch": 1})
    config = {TRIAL: name, "strategy": strategy, REPLICATE: replicate}
    return SimpleNamespace(config=config, checkpoint=SimpleNamespace(path=str(place)), last_result={"best": best})


def whole(folder):
    return {path.parent.name for path in folder.glob(f"*/{CHECKPOINT}")}


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_best_of_each_tuning_keep_their_checkpoints_and_all_their_best_weights(tmp_path, mode):
    sign = 1 if mode == "min" else -1
    trials = [paused(tmp_path, f"a{index}", sign * index) for index in range(KEPT + 2)]
    trials += [paused(tmp_path, "none", None), paused(tmp_path, "other", sign * 9, replicate=1)]
    PausedCheckpoints(Objective("val/loss", mode)).drop_hopeless(trials, ())
    assert whole(tmp_path) == {*(f"a{index}" for index in range(KEPT)), "other"}
    assert len(list(tmp_path.glob(f"*/{BEST_WEIGHTS}"))) == len(trials)


def test_what_is_needed_soon_is_kept_and_what_pauses_later_is_looked_at(tmp_path):
    kept = PausedCheckpoints(Objective("val/loss"))
    trials = [paused(tmp_path, f"a{index}", index) for index in range(KEPT + 1)]
    kept.drop_hopeless(trials, (f"a{KEPT}",))
    assert len(whole(tmp_path)) == KEPT + 1
    kept.drop_hopeless([*trials, paused(tmp_path, "best", -1)], ())
    assert whole(tmp_path) == {"best", *(f"a{index}" for index in range(KEPT - 1))}


def test_best_weights_that_are_gone_or_damaged_are_lost_and_those_that_never_were_are_not(tmp_path):
    trial, bad = paused(tmp_path, "a", 0.5), paused(tmp_path, "b", 0.5)
    assert not has_lost_weights(trial)
    (tmp_path / "b" / BEST_WEIGHTS).write_bytes(b"no weights")
    assert has_lost_weights(bad)
    (tmp_path / "a" / BEST_WEIGHTS).unlink()
    assert has_lost_weights(trial)
    assert not has_lost_weights(SimpleNamespace(checkpoint=None, last_result={"best": None}))
    assert has_lost_weights(SimpleNamespace(checkpoint=None, last_result={"best": 0.5}))
