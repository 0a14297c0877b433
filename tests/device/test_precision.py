"""Steps in half precision on the simulated device: the CPU's numbers, one wait per update with fp16, none with bf16."""

import pytest
import torch

from tests.device.parts import plain_adam
from tests.device.simulated import counted, present
from tests.toys import make_batch, make_conv_model, make_tasks, run_options
from tune_mtl import make_strategy
from tune_mtl.core.nested import map_tensors
from tune_mtl.strategies.registry import registry

TASKS = 4
HALF = [name for name, info in registry.items() if info.fp16]


def single(value):
    return map_tensors(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor, value)


def steps(name, place, precision):
    """Take some steps on a network of float32, and return losses, weights, waits and how many updates were tried."""
    model = make_conv_model(TASKS).float().to(place)
    groups = {"groups": 2} if registry[name].has_groups else {}
    options = {"lr": 0.01, "optimizer": plain_adam, "autocast": precision, **groups, **run_options(name, 6)}
    strategy, losses, waits, tried = make_strategy(name, model, make_tasks(TASKS), **options), [], [], []
    apply = strategy.apply
    strategy.apply = lambda optimizer: tried.append(optimizer) or apply(optimizer)
    for step, missing in enumerate((None, 0.5, None)):
        batch = make_batch(TASKS, seed=step, missing=missing).to(torch.device(place))
        with counted() as found:
            losses.append(strategy.step(single(batch.inputs), single(dict(batch.targets)), batch.present))
        waits.append(found)
    read = [{task: loss.item() for task, loss in step.items()} for step in losses]
    return read, [weight.cpu() for weight in strategy.model.state_dict().values()], waits, len(tried)


@pytest.mark.parametrize(
    ("name", "precision"),
    [(name, torch.float16) for name in HALF] + [(name, torch.bfloat16) for name in ("sus", "io", "pcgrad", "moco")],
    ids=str,
)
def test_half_precision_there_has_the_numbers_of_the_cpu(name, precision):
    with present() as place:
        there, here, full = steps(name, place, precision), steps(name, "cpu", precision), steps(name, "cpu", None)
    assert there[0] == here[0]
    assert all(torch.equal(first, second) for first, second in zip(there[1], here[1], strict=True))
    assert here[0] != full[0], "it is another precision"
    looks = there[3] if precision is torch.float16 else 0  # may the step be taken?
    own = len(there[2]) if registry[name].waits == "1" else 0
    rare = registry[name].waits.startswith("1,")
    assert looks + own <= sum(map(len, there[2])) <= looks + own + rare
