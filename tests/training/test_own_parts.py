"""Optimizers and schedules that users bring, as trials: stopped in the middle of an epoch is never stopped."""

import torch

from tests.toys import toy_problem
from tests.training.trainers import Stop, make_trainer, timeless

SCALED = "tests.training.test_own_parts:Scaled"
RISES = "tests.training.test_own_parts:rises"


class Scaled(torch.optim.Optimizer):
    """A step as long as the weights, along a running mean of gradients."""

    def __init__(self, params, lr=1e-3, keep=0.9):
        super().__init__(params, {"lr": lr, "keep": keep})

    @torch.no_grad()
    def step(self, _closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    mean.lerp_(p.grad, 1 - group["keep"])
                    noise = 1 + 0.1 * torch.rand(())
                    p.sub_(mean * (group["lr"] * noise * (p.norm() + 1) / (mean.norm() + 1e-6)))


def rises(length=20):
    return lambda mini_batch: min(1.0, (mini_batch + 1) / length)


def test_one_that_is_stopped_in_the_middle_of_an_epoch_goes_on_exactly(tmp_path):
    config = {"optimizer": SCALED, "schedule": RISES, "scaled_keep": 0.8, "epochs": 3, "batch_size": 16}
    whole = make_trainer(toy_problem(), **config)
    while not whole.finished:
        whole.run_period()
    first, seen = make_trainer(toy_problem(), **config), []

    def stop():
        seen.append(None)
        if len(seen) == whole.strategy.mini_batches // 2 + 1:
            raise Stop

    try:
        while True:
            first.run_period(stop)
    except Stop:
        torch.save(first.state_dict(), tmp_path / "state.pt")
    torch.rand(5)
    again = make_trainer(toy_problem(), **config)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    while not again.finished:
        again.run_period()
    assert timeless(again.history) == timeless(whole.history)
    assert whole.path.total > 0
    assert again.path.total == whole.path.total
    for mine, theirs in zip(again.strategy.model.parameters(), whole.strategy.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
