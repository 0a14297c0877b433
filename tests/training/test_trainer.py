"""Epochs, evaluation, the best epoch, divergence, determinism and exact continuation in one process."""

import math
from contextlib import suppress

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset
from torchmetrics import MeanMetric, MeanSquaredError, MetricCollection

from tests.toys import FEATURES, equal, make_batch, make_tasks, task_names, toy_problem
from tests.training.trainers import Stop, make_trainer, timeless
from tune_mtl import (
    Batch,
    DatasetData,
    MultiTaskModel,
    Objective,
    Problem,
    Task,
    TensorData,
    UserError,
    load_problem,
    train,
)
from tune_mtl.strategies.registry import registry
from tune_mtl.training import checkpoint
from tune_mtl.training.config import resolve
from tune_mtl.training.loader import evaluation_order, training_order
from tune_mtl.training.trainer import Diverged


@pytest.mark.parametrize("strategy", sorted(registry))
@pytest.mark.parametrize("stop_at", [1, 23])
def test_stopped_anywhere_and_continued_equals_never_stopped(strategy, stop_at, tmp_path):
    whole = make_trainer(toy_problem(conv=True), strategy=strategy)
    while not whole.finished:
        whole.run_period()

    stopped, calls = make_trainer(toy_problem(conv=True), strategy=strategy), 0

    def stop():
        nonlocal calls
        calls += 1
        if calls == stop_at:
            raise Stop

    with suppress(Stop):
        while True:
            stopped.run_period(stop)
    checkpoint.save(tmp_path / "state.pt", stopped.state_dict())
    torch.rand(100)
    resumed = make_trainer(toy_problem(conv=True), strategy=strategy)
    resumed.load_state_dict(checkpoint.load(tmp_path / "state.pt"))
    while not resumed.finished:
        resumed.run_period()

    assert timeless(resumed.history) == timeless(whole.history)
    assert equal(list(resumed.strategy.model.state_dict().values()), list(whole.strategy.model.state_dict().values()))
    assert equal(list(resumed.best.weights.values()), list(whole.best.weights.values()))
    assert timeless([resumed.summary()]) == timeless([whole.summary()])


def test_same_seed_same_numbers_other_seed_other_numbers():
    first, second, other = (train(toy_problem(), {"strategy": "io", "lr": 0.01, "seed": seed}) for seed in (1, 1, 2))
    assert timeless(first.history) == timeless(second.history)
    assert timeless(first.history) != timeless(other.history)


def test_every_strategy_starts_from_the_same_weights_and_sees_the_same_batches():
    seen = {}
    for name in sorted(registry):
        batches = []

        def to_device(batch, _, batches=batches):
            batches.append(batch.inputs.clone())
            return batch

        trainer = make_trainer(toy_problem(conv=True, to_device=to_device), strategy=name, seed=4)
        start = [tensor.clone() for tensor in trainer._model.state_dict().values()]
        trainer.run_period()
        seen[name] = start + batches
    reference = seen.pop("sus")
    assert all(equal(other, reference) for other in seen.values())


def test_training_leaves_the_callers_random_state_and_threads_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    train(toy_problem(), {"strategy": "sus", "lr": 0.01, "epochs": 1, "threads": threads + 1})
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_an_epoch_is_a_permutation_without_the_last_partial_batch():
    first, again, other = (training_order(23, 5, 0, epoch) for epoch in (0, 0, 1))
    flat = torch.cat(first)
    assert len(first) == 4
    assert len(set(flat.tolist())) == 20
    assert torch.equal(flat, torch.cat(again))
    assert not torch.equal(flat, torch.cat(other))


@pytest.mark.parametrize(("samples", "sizes"), [(10, [4, 4, 2]), (9, [4, 5]), (1, [1]), (4, [4]), (5, [5])])
def test_evaluation_keeps_every_sample_and_never_ends_with_one(samples, sizes):
    order = evaluation_order(samples, 4)
    assert [len(batch) for batch in order] == sizes
    assert torch.cat(order).tolist() == list(range(samples))


def test_evaluate_every_and_the_last_epoch():
    trainer = make_trainer(epochs=7, evaluate_every=3)
    while not trainer.finished:
        trainer.run_period()
    assert [record["epoch"] for record in trainer.history] == [3, 6, 7]


class Quadratic(nn.Module):
    """A trunk that hands its one weight to the head, which does nothing: losses can be computed by hand."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([start]))

    def forward(self, inputs):
        return inputs * self.weight


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, features):
        return features + 0 * self.shift


def by_hand_problem(present=None, **parts) -> Problem:
    tasks = [
        Task("a", F.mse_loss, lambda: MetricCollection({"mse": MeanSquaredError()}), reference_loss=2.0),
        Task("b", F.l1_loss, reference_loss=4.0),
    ]

    def data(_):
        inputs = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        return TensorData(inputs, {"a": torch.zeros(5), "b": torch.zeros(5)}, present)

    return Problem(
        "by-hand",
        tasks,
        lambda: MultiTaskModel(Quadratic(1.0), {"a": Shift(), "b": Shift()}),
        data,
        **{"defaults": {"epochs": 1, "batch_size": 5, "eval_batch_size": 2, "threads": 1}, **parts},
    )


def test_losses_are_means_over_labelled_samples_and_relative_to_the_reference():
    present = {"a": torch.tensor([True, False, True, False, False])}
    trainer = make_trainer(by_hand_problem(present), strategy="sus", lr=1e-9, optimizer="sgd")
    record = trainer.run_period()
    assert record["val/loss/a"] == pytest.approx((1 + 9) / 2)
    assert record["val/a/mse"] == pytest.approx((1 + 9) / 2)
    assert record["val/loss/b"] == pytest.approx(3.0)
    assert record["val/loss"] == pytest.approx(4.0)
    assert record["val/relative_loss"] == pytest.approx((5 / 2 + 3 / 4) / 2)
    assert record["train/loss/a"] == pytest.approx(5.0)


def test_a_task_without_any_label_is_left_out():
    present = {"a": torch.zeros(5, dtype=torch.bool)}
    record = make_trainer(by_hand_problem(present), strategy="io", lr=1e-9).run_period()
    assert "val/loss/a" not in record
    assert "val/a/mse" not in record
    assert record["val/loss"] == pytest.approx(3.0)


def test_the_best_epoch_is_the_objectives():
    trainer = make_trainer(epochs=6)
    while not trainer.finished:
        trainer.run_period()
    losses = {record["epoch"]: record["val/loss"] for record in trainer.history}
    best = min(losses, key=losses.__getitem__)
    summary = trainer.summary()
    assert summary["best/epoch"] == best
    assert summary["best/val/loss"] == losses[best]
    record = trainer.history[best - 1]
    assert summary["path/best_total"] == record["path/total"]
    assert summary["path/best_shortest"] == record["path/from_start"]
    assert summary["path/best_ratio"] == record["path/total"] / record["path/from_start"]
    worst = make_trainer(epochs=6, metric="val/loss:max")
    while not worst.finished:
        worst.run_period()
    assert worst.best.record["val/loss"] == max(losses.values())


def test_test_is_computed_once_for_the_best_weights():
    problem = toy_problem(dropout=False)
    asked = []
    data = problem.data
    problem.data = lambda split: asked.append(split) or data(split)
    result = train(problem, {"strategy": "sus", "lr": 0.05, "epochs": 3})
    assert asked.count("test") == 1
    model, batch = result.load_model(), data("test").batch(torch.arange(60))
    expected = sum(
        task.loss(model(batch.inputs)[task.name], batch.targets[task.name]).item() for task in problem.tasks
    ) / len(problem.tasks)
    assert result.metrics["test/loss"] == pytest.approx(expected, rel=1e-5)


def test_no_test_split_no_test_metrics():
    problem = toy_problem()
    data = problem.data
    problem.data = lambda split: None if split == "test" else data(split)
    assert not any(name.startswith("test/") for name in train(problem, {"strategy": "sus", "lr": 0.1}).metrics)


def test_a_non_finite_training_loss_ends_the_trial_within_fifty_mini_batches():
    seen = 0

    def to_device(batch, _):
        nonlocal seen
        seen += 1
        return Batch(batch.inputs * math.nan, batch.targets) if seen == 20 else batch

    problem = toy_problem(samples=1000, to_device=to_device)
    trainer = make_trainer(problem, batch_size=2)
    with pytest.raises(Diverged, match="epoch 1, mini-batch 20: first to be not finite was the loss"):
        trainer.run_period()
    assert seen == 50
    result = train(toy_problem(), {"strategy": "sus", "lr": 1e30, "optimizer": "sgd"})
    assert result.outcome == "diverged"
    assert all(math.isfinite(value) for record in result.history for value in record.values())


def test_an_undefined_metric_is_no_divergence():
    class Undefined(MeanMetric):
        def update(self, *_):
            super().update(torch.zeros(0))

        def compute(self):
            return torch.tensor(float("nan"))

    problem = toy_problem(1)
    problem.tasks = [Task("t0", F.mse_loss, lambda: MetricCollection({"nothing": Undefined()}))]
    result = train(problem, {"strategy": "sus", "lr": 0.01, "metric": "val/loss"})
    assert result.outcome == "completed"
    assert math.isnan(result.history[0]["val/t0/nothing"])


def test_bad_input_is_named():
    problem = toy_problem()
    for config, message in (
        ({"batch_size": 61}, "batch_size=61 exceeds the 60 training samples"),
        ({"epochs": 0}, "epochs=0"),
        ({"seed": -1}, "seed=-1"),
        ({"metric": "val/accuracy"}, "metric 'val/accuracy' is not reported by problem 'toy'"),
        ({"optimizer": "adm"}, r"unknown optimizer 'adm'. Did you mean 'adam'\?"),
        ({"model_widht": 3}, r"unknown option 'model_widht'. Did you mean 'model_width'\?"),
        ({"sgd_weight_decay": 0.1}, "'sgd_weight_decay' belongs to 'sgd'"),
        ({"device": "tpu"}, "device 'tpu' cannot be used"),
        ({"precision": "fp8"}, "precision='fp8'"),
        ({"problem": "other"}, "for problem 'other', not for 'toy'"),
        ({"groups": True}, "groups=True must be a number"),
        ({"metric": "val/loss/t9"}, "'val/loss/t9' is not reported"),
        ({"metric": "val/loss/0"}, "'val/loss/0' is not reported"),
        ({"bogus": None}, "unknown option 'bogus'"),
        ({"threads": 3_000_000_000}, "threads=3000000000"),
        ({"lr": 10**400}, "must be a finite number > 0"),
        ({"device": "meta"}, "device 'meta' cannot be used"),
        ({"model_width": -1}, "makes no model with model_width=-1"),
        ({"optimizer": "momentum", "momentum_momentum": 0, "momentum_nesterov": True}, "nesterov needs a momentum"),
        ({"schedule": "step"}, "step_every is missing"),
        ({"schedule": "cosin"}, r"unknown schedule 'cosin'. Did you mean 'cosine'\?"),
        ({"step_every": 3}, "'step_every' belongs to 'step'"),
    ):
        with pytest.raises(UserError, match=message):
            train(problem, {"strategy": "io", "lr": 0.1, **config})


def test_options_reach_the_model_and_the_schedule():
    trainer = make_trainer(model_width=9, schedule="cosine", epochs=2)
    assert trainer._model.trunk[0].out_features == 9
    while not trainer.finished:
        trainer.run_period()
    last = trainer.strategy.optimizers[0].param_groups[0]["lr"]
    assert 0 < last < 0.01 * 0.1
    assert trainer.config.as_dict()["model_width"] == 9


def test_random_groups_depend_on_the_seed_alone():
    problem = toy_problem(6)
    trainers = [make_trainer(problem, strategy=name, groups=2, seed=3) for name in ("io", "ius")]
    assert trainers[0].strategy.groups == trainers[1].strategy.groups


@pytest.mark.slow
def test_compile_keeps_names_and_numbers():
    eager = train(toy_problem(dropout=False), {"strategy": "io", "lr": 0.01, "epochs": 1})
    compiled = train(toy_problem(dropout=False), {"strategy": "io", "lr": 0.01, "epochs": 1, "compile": True})
    assert compiled.history[0]["val/loss"] == pytest.approx(eager.history[0]["val/loss"], rel=1e-4)
    assert compiled.load_model().state_dict().keys() == eager.load_model().state_dict().keys()


def test_bf16_and_channels_last_train():
    result = train("multidigits", {"strategy": "sus", "lr": 3e-3, "epochs": 1, "precision": "bf16"})
    assert result.outcome == "completed"
    assert result.history[0]["val/relative_loss"] < 1.0


def test_data_sets_with_one_sample_and_one_task_work():
    problem = Problem(
        "one",
        make_tasks(1),
        lambda: MultiTaskModel(nn.Linear(FEATURES, 3), {name: nn.Linear(3, 2) for name in task_names(1)}),
        lambda _: TensorData(*make_batch(1, seed=0, rows=1, dtype=torch.float32)[:2]),
        objective=Objective("val/loss/t0"),
    )
    assert train(problem, {"strategy": "io", "lr": 0.1, "batch_size": 1}).outcome == "completed"


def test_a_metric_says_itself_what_is_better():
    problem = load_problem("multidigits")
    for name, mode in (
        ("val/sum/mae", "min"),
        ("val/left/accuracy", "max"),
        ("val/loss", "min"),
        ("val/sum/rmse", "min"),
    ):
        assert resolve(problem, {"strategy": "sus", "lr": 0.1, "metric": name}).metric == f"{name}:{mode}"
    assert resolve(problem, {"strategy": "sus", "lr": 0.1, "metric": "val/sum/mae:max"}).objective.mode == "max"


def test_a_metric_of_a_task_without_labels_is_named():
    present = {"a": torch.zeros(5, dtype=torch.bool)}
    with pytest.raises(UserError, match="'val/loss/a' was not reported"):
        make_trainer(by_hand_problem(present), metric="val/loss/a").run_period()


def test_random_samples_are_the_same_under_every_strategy():
    class Noise(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, _):
            return torch.randn(FEATURES), {name: torch.zeros(2) for name in task_names(3)}

    seen = []
    for name in ("sus", "ius"):
        batches = []
        problem = toy_problem(to_device=lambda batch, _, kept=batches: kept.append(batch.inputs) or batch)
        problem.data = lambda _: DatasetData(Noise())
        make_trainer(problem, strategy=name, epochs=1).run_period()
        seen.append(batches)
    assert equal(*seen)


def test_a_frozen_trunk_trains_its_heads_without_a_path():
    problem = toy_problem()
    make = problem.model

    def frozen():
        model = make()
        model.trunk.requires_grad_(False)
        return model

    problem.model = frozen
    record = make_trainer(problem, strategy="io").run_period()
    assert "path/total" not in record
    assert record["updates"] == 21


def test_testing_the_best_weights_leaves_the_trainer_as_it_was():
    trainer = make_trainer(strategy="io", epochs=3)
    while not trainer.finished:
        trainer.run_period()
    before = [tensor.clone() for tensor in trainer.strategy.model.state_dict().values()]
    tested = trainer.test_best()
    assert tested
    assert equal(before, list(trainer.strategy.model.state_dict().values()))
    assert tested == trainer.test_best()


def test_optimizer_memory_counts_every_optimizers_moments():
    one, several = (make_trainer(strategy=name, epochs=1, groups=groups) for name, groups in (("sus", None), ("io", 3)))
    for trainer in (one, several):
        trainer.run_period()
    trunk = sum(weight.numel() for weight in one.strategy.model.trunk.parameters())
    mib = [trainer.summary()["memory/optimizer_mib"] for trainer in (one, several)]
    assert (mib[1] - mib[0]) * 2**20 == pytest.approx(2 * 2 * trunk * 4, rel=0.2)
