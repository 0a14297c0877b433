"""Each strategy equals an oracle of a few lines."""

import copy
from dataclasses import replace

import pytest
import torch

from tests.strategies.oracles import oracle_groups_and_memories, oracle_step
from tests.toys import make_batch, make_model, make_tasks, weights
from tune_mtl import UserError, make_strategy

STEPS = 24


@pytest.mark.parametrize("missing", [None, 0.4, 0.8])
@pytest.mark.parametrize("groups", [1, 2, 3, 5])
@pytest.mark.parametrize(("kind", "lr"), [("sgd", 0.01), ("momentum", 0.002), ("adam", 0.01)])
@pytest.mark.parametrize("name", ["sus", "ius", "io"])
def test_rule_equals_oracle(name, kind, lr, groups, missing):
    tasks = [replace(task, weight=1.0 + 0.5 * index) for index, task in enumerate(make_tasks(5, scale=1.7))]
    model = make_model(5)
    reference = copy.deepcopy(model)
    strategy = make_strategy(
        name, model, tasks, lr=lr, optimizer=kind, seed=3, groups=None if name == "sus" else groups
    )
    oracle_groups, memories = oracle_groups_and_memories(name, tasks, strategy.groups, kind, lr)
    for step in range(STEPS):
        batch = make_batch(5, seed=step, missing=missing)
        losses = strategy.step(*batch)
        expected = oracle_step(reference, tasks, oracle_groups, memories, batch)
        assert {task: loss.item() for task, loss in losses.items()} == pytest.approx(expected, rel=1e-6)
    for got, want in zip(weights(model), weights(reference), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", ["ius", "io"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "momentum"])
def test_a_groups_step_touches_the_trunk_and_its_own_heads_only(name, optimizer):
    tasks, model = make_tasks(4), make_model(4)
    strategy = make_strategy(name, model, tasks, lr=0.1, optimizer=optimizer)
    for step in range(3):
        strategy.step(*make_batch(4, seed=step))
    heads = {task: weights(model.heads[task]) for task in model.heads}
    state = copy.deepcopy([optimizer.state_dict()["state"] for optimizer in strategy.optimizers])
    present = {task.name: torch.full((6,), task.name == "t2") for task in tasks}
    batch = make_batch(4, seed=9)
    losses = strategy.step(batch.inputs, batch.targets, present)
    assert list(losses) == ["t2"]
    for task, before in heads.items():
        same = all(torch.equal(a, b) for a, b in zip(before, weights(model.heads[task]), strict=True))
        assert same == (task != "t2")
    moved = [
        (index, key)
        for index, (before, now) in enumerate(zip(state, strategy.optimizers, strict=True))
        for key, entry in now.state_dict()["state"].items()
        if not all(torch.equal(torch.as_tensor(before[key][k]), torch.as_tensor(v)) for k, v in entry.items())
    ]
    trunk, head = len(list(model.trunk.parameters())), len(list(model.heads["t2"].parameters()))
    assert len(moved) == trunk + head


def test_a_step_with_no_labels_at_all_changes_nothing():
    tasks, model = make_tasks(3), make_model(3)
    strategy = make_strategy("io", model, tasks, lr=0.1)
    batch, before = make_batch(3, seed=0), weights(model)
    losses = strategy.step(batch.inputs, batch.targets, {task.name: torch.zeros(6, dtype=torch.bool) for task in tasks})
    assert losses == {}
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))


def test_targets_of_unlabelled_rows_are_never_read():
    tasks = make_tasks(2)
    results = []
    for filler in (0.0, float("nan")):
        model = make_model(2)
        strategy = make_strategy("ius", model, tasks, lr=0.1)
        batch = make_batch(2, seed=1, missing=0.5)
        targets = {
            task: torch.where(batch.present[task][:, None], target, filler) for task, target in batch.targets.items()
        }
        strategy.step(batch.inputs, targets, batch.present)
        results.append(weights(model))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_weight_scales_training_but_not_what_is_reported():
    task, model = make_tasks(1)[0], make_model(1)
    batch = make_batch(1, seed=0)
    moved = []
    for weight in (1.0, 3.0):
        copied = copy.deepcopy(model)
        loss = make_strategy("sus", copied, [replace(task, weight=weight)], lr=0.1, optimizer="sgd").step(*batch)
        moved.append((copied.trunk[0].weight - model.trunk[0].weight).detach())
        assert loss["t0"].item() == pytest.approx(task.loss(model(batch.inputs)["t0"], batch.targets["t0"]).item())
    torch.testing.assert_close(moved[1], 3 * moved[0])


def test_scalar_weights_equal_sus_with_these_task_weights():
    tasks, batch = make_tasks(3, scale=2.0), make_batch(3, seed=0)
    first, second = make_model(3), make_model(3)
    make_strategy("scalar", first, tasks, lr=0.1, scalar_weights={"t0": 2.0, "t2": 0.0}).step(*batch)
    weighted = [replace(task, weight=weight) for task, weight in zip(tasks, (2.0, 1.0, 0.0), strict=True)]
    make_strategy("sus", second, weighted, lr=0.1).step(*batch)
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


def test_stl_trains_each_task_as_if_it_were_alone():
    tasks, model = make_tasks(3, scale=2.0), make_model(3)
    strategy = make_strategy("stl", model, tasks, lr=0.01)
    alone = {task.name: copy.deepcopy(model) for task in tasks}
    singles = {task.name: make_strategy("sus", alone[task.name], [task], lr=0.01) for task in tasks}
    untouched = weights(model)
    for step in range(5):
        batch = make_batch(3, seed=step)
        losses = strategy.step(*batch)
        for name, single in singles.items():
            assert torch.equal(single.step(*batch)[name], losses[name])
    batch = make_batch(3, seed=99)
    predictions = strategy.predict(batch.inputs)
    for name, single in alone.items():
        assert torch.equal(predictions[name], single(batch.inputs)[name])
    assert all(torch.equal(a, b) for a, b in zip(untouched, weights(model), strict=True))


def test_clipping_bounds_each_update():
    tasks, model = make_tasks(2, scale=50.0), make_model(2)
    strategy = make_strategy("ius", model, tasks, lr=1.0, optimizer="sgd", clip_norm=0.01)
    lengths = []

    def measure(*_):
        lengths.append(sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None).sqrt().item())

    strategy.optimizers[0].register_step_pre_hook(measure)
    strategy.step(*make_batch(2, seed=0))
    assert lengths == pytest.approx([0.01, 0.01], rel=1e-3)


def test_all_updates_on_one_mini_batch_see_one_learning_rate():
    tasks, model = make_tasks(3), make_model(3)
    strategy = make_strategy(
        "io", model, tasks, lr=1.0, optimizer="sgd", schedule="step", step_every=2, step_factor=0.5
    )
    rates = []
    for optimizer in strategy.optimizers:
        optimizer.register_step_pre_hook(lambda opt, *_: rates.append(opt.param_groups[0]["lr"]))
    for step in range(4):
        strategy.step(*make_batch(3, seed=step))
    assert rates == [1.0] * 6 + [0.5] * 6


def test_cosine_goes_from_the_learning_rate_to_its_final_share():
    tasks, model = make_tasks(1), make_model(1)
    strategy = make_strategy(
        "sus", model, tasks, lr=2.0, optimizer="sgd", schedule="cosine", cosine_steps=10, cosine_final=0.5
    )
    rates = []
    for step in range(11):
        strategy.step(*make_batch(1, seed=step))
        rates.append(strategy.optimizers[0].param_groups[0]["lr"])
    assert rates[0] == 2.0
    assert rates[5] == pytest.approx(1.5)
    assert rates[10] == pytest.approx(1.0)
    assert rates == sorted(rates, reverse=True)


def test_a_callable_optimizer_takes_the_trials_learning_rate():
    tasks, batch = make_tasks(2), make_batch(2, seed=0)
    first, second = make_model(2), make_model(2)
    make_strategy("io", first, tasks, lr=0.05, optimizer=lambda p: torch.optim.SGD(p, lr=0.7, fused=True)).step(*batch)
    make_strategy("io", second, tasks, lr=0.05, optimizer="sgd").step(*batch)
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


def test_optimizer_options_reach_torch():
    strategy = make_strategy(
        "io", make_model(2), make_tasks(2), lr=0.1, adam_betas=[0.5, 0.6], adam_weight_decay=0.25, adam_amsgrad=True
    )
    for optimizer in strategy.optimizers:
        group = optimizer.param_groups[0]
        assert (group["betas"], group["weight_decay"], group["amsgrad"]) == ((0.5, 0.6), 0.25, True)


def test_nested_inputs_and_features():
    class Trunk(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 3)

        def forward(self, inputs):
            return {"sum": self.linear(inputs["a"] + inputs["b"][0])}

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, features):
            return self.linear(features["sum"]).squeeze(1)

    from tune_mtl import MultiTaskModel, Task

    model = MultiTaskModel(Trunk(), {"x": Head(), "type": Head()})
    tasks = [Task(name, torch.nn.functional.mse_loss) for name in ("x", "type")]
    inputs = {"a": torch.randn(4, 2), "b": (torch.randn(4, 2),)}
    targets = {"x": torch.randn(4), "type": torch.randn(4)}
    losses = make_strategy("io", model, tasks, lr=0.1).step(
        inputs, targets, {"x": torch.tensor([True, False, True, True])}
    )
    assert set(losses) == {"x", "type"}


def test_bf16_forward_gives_float32_losses():
    model, tasks = make_model(2, dtype=torch.float32), make_tasks(2)
    batch = make_batch(2, seed=0, dtype=torch.float32)
    losses = make_strategy("ius", model, tasks, lr=0.1, autocast=torch.bfloat16).step(*batch)
    exact = make_strategy("ius", make_model(2, dtype=torch.float32), tasks, lr=0.1).step(*batch)
    assert losses["t0"].dtype == torch.float32
    assert losses["t0"].item() == pytest.approx(exact["t0"].item(), rel=0.05)
    assert losses["t0"].item() != exact["t0"].item()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(6, 1, dtype=torch.bool), r"shape \(6, 1\)"),
        (torch.ones(5, dtype=torch.bool), r"shape \(5,\)"),
        (torch.tensor(True), r"shape \(\)"),
    ],
)
def test_masks_of_another_shape_are_refused(mask, message):
    batch = make_batch(2, seed=0)
    with pytest.raises(UserError, match=message):
        make_strategy("sus", make_model(2), make_tasks(2), lr=0.1).step(batch.inputs, batch.targets, {"t0": mask})


def test_masks_of_unknown_tasks_are_refused_and_lists_will_do():
    batch, tasks = make_batch(2, seed=0), make_tasks(2)
    with pytest.raises(UserError, match="unknown task 't9'"):
        make_strategy("sus", make_model(2), tasks, lr=0.1).step(batch.inputs, batch.targets, {"t9": torch.ones(6)})
    present = [True, False, True, True, False, True]
    results = []
    for mask in (present, torch.tensor(present), torch.tensor(present).numpy(), torch.tensor(present).float()):
        results.append(
            make_strategy("sus", make_model(2), tasks, lr=0.1).step(batch.inputs, batch.targets, {"t0": mask})
        )
    assert all(torch.equal(result["t0"], results[0]["t0"]) for result in results)


def test_a_loss_without_a_graph_takes_no_step():
    tasks, model = make_tasks(2), make_model(2)
    tasks[0] = replace(tasks[0], loss=lambda *_: torch.tensor(1.0))
    strategy = make_strategy("ius", model, tasks, lr=0.1)
    assert set(strategy.step(*make_batch(2, seed=0))) == {"t0", "t1"}
    assert strategy.updates == 1


def test_stl_networks_share_nothing():
    model = make_model(2)
    model.heads["t1"] = model.heads["t0"]
    strategy = make_strategy("stl", model, make_tasks(2), lr=0.1)
    assert strategy.model.heads["t0"] is not strategy.model.heads["t1"]
    batch = make_batch(2, seed=0)
    strategy.step(batch.inputs, batch.targets, {"t1": torch.zeros(6)})
    assert strategy.updates == 1


@pytest.mark.parametrize("bad", [{"groups": 2.0}, {"groups": "2"}, {"groups": [["t0"], 3]}, {"optimizer": None}])
def test_values_of_another_type_are_named(bad):
    with pytest.raises(UserError, match=next(iter(bad))):
        make_strategy("io", make_model(2), make_tasks(2), lr=0.1, **bad)
