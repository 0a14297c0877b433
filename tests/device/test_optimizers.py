"""Built-in optimizers and schedules on a simulated device: no wait, and the CPU's numbers but for rounding."""

import pytest
import torch

from tests.device.parts import BATCH, data, model, problem
from tests.device.simulated import counted, present
from tune_mtl import make_strategy
from tune_mtl.strategies.optimizers import optimizers
from tune_mtl.strategies.schedules import schedules

OPTIONS = {"theorem": {"theorem_mu": 1.0, "theorem_smoothness": 50.0}, "momentum": {"momentum_nesterov": True}}
LENGTHS = {
    "cosine": {"cosine_steps": 6},
    "warmup_cosine": {"warmup_cosine_steps": 6, "warmup_cosine_warmup": 2},
    "step": {"step_every": 1},
}


def trained(place, **settings):
    """Return the weights after some steps, and the waits of all of them."""
    torch.manual_seed(0)
    strategy = make_strategy("io", model().to(place).eval(), problem().tasks, clip_norm=1.0, **settings)
    batches = [data("train").batch(torch.arange(start, start + BATCH)).to(torch.device(place)) for start in (0, 6, 12)]
    with counted() as waits:
        for batch in batches:
            strategy.step(*batch)
    weights = torch.cat([weight.detach().cpu().flatten() for weight in strategy.model.parameters()])
    return weights, waits


@pytest.mark.parametrize("name", optimizers)
def test_an_optimizer_steps_there(name):
    settings = {"optimizer": name, "lr": optimizers[name].default_lr or 0.01, **OPTIONS.get(name, {})}
    with present() as place:
        (there, waits), (here, _) = trained(place, **settings), trained("cpu", **settings)
    assert waits == []
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", schedules)
def test_a_schedule_sets_the_rate_there(name):
    settings = {"optimizer": "sgd", "lr": 0.1, "schedule": name, **LENGTHS.get(name, {})}
    with present() as place:
        (there, waits), (here, _) = trained(place, **settings), trained("cpu", **settings)
    assert waits == []
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)
