"""Tasks, models, data, objectives, seeds and errors."""

import math

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from tests.toys import make_batch, make_model, make_tasks
from tune_mtl import (
    Batch,
    DatasetData,
    MultiTaskModel,
    Objective,
    Problem,
    ShareOfRun,
    Task,
    TensorData,
    Tunable,
    UserError,
    make_strategy,
)
from tune_mtl.core.errors import did_you_mean
from tune_mtl.core.problem import checked
from tune_mtl.core.seeds import derive, generator, global_state, isolated, seed_everything, set_global_state


@pytest.mark.parametrize("name", ["", "a/b", "a.b", "loss", "relative_loss", " x", "ä"])
def test_task_names_that_cannot_name_metrics_are_refused(name):
    with pytest.raises(UserError, match="task name"):
        Task(name, nn.functional.mse_loss)


@pytest.mark.parametrize("values", [{"weight": -1.0}, {"weight": math.nan}, {"reference_loss": 0.0}])
def test_task_numbers_are_checked(values):
    with pytest.raises(UserError, match=next(iter(values))):
        Task("a", nn.functional.mse_loss, **values)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (lambda: Tunable("soft", "hard"), r"Tunable\(values=\(A, B\)\)"),
        (lambda: Tunable(5.0, 1.0), "low=5.0, high=1.0"),
        (lambda: Tunable(0.0, math.inf), "finite"),
        (lambda: Tunable(1.0), "high=None"),
        (lambda: Tunable(), r"must be Tunable\(LOW, HIGH\)"),
        (lambda: Tunable(0.0, 1.0, values=(1.0,)), "values="),
        (lambda: Tunable(0.0, 1.0, log=True), "above 0"),
        (lambda: ShareOfRun(1.5), "whole run"),
        (lambda: ShareOfRun(0.0), "above 0"),
    ],
)
def test_marks_that_cannot_be_searched_are_refused_where_they_stand(mark, said):
    with pytest.raises(UserError, match=said):
        mark()


def test_a_loss_that_is_not_a_scalar_is_named():
    task = Task("pixels", lambda prediction, target: (prediction - target) ** 2)
    model = MultiTaskModel(nn.Linear(2, 2), {"pixels": nn.Linear(2, 2)})
    with pytest.raises(UserError, match=r"task 'pixels'.*shape \(3, 2\).*scalar"):
        make_strategy("sus", model, [task], lr=0.1).step(torch.zeros(3, 2), {"pixels": torch.zeros(3, 2)})


def test_a_missing_head_is_named():
    with pytest.raises(UserError, match="task 't2' has no head: the model's heads are t0, t1"):
        make_strategy("sus", make_model(2), make_tasks(3), lr=0.1)


@pytest.mark.parametrize("lr", [0, -1.0, math.nan, math.inf, "fast", True])
def test_learning_rates_must_be_positive_numbers(lr):
    with pytest.raises(UserError, match=f"lr={lr}"):
        make_strategy("sus", make_model(1), make_tasks(1), lr=lr)


def test_names_are_suggested():
    with pytest.raises(UserError, match=r"unknown strategy 'oi'. Did you mean 'io'\?"):
        make_strategy("oi", make_model(1), make_tasks(1), lr=0.1)
    with pytest.raises(UserError, match=r"unknown option 'adam_wieght_decay'. Did you mean 'adam_weight_decay'\?"):
        make_strategy("io", make_model(1), make_tasks(1), lr=0.1, adam_wieght_decay=1)
    with pytest.raises(UserError, match="only ius, io, adatask have groups"):
        make_strategy("sus", make_model(1), make_tasks(1), lr=0.1, groups=1)
    assert did_you_mean("zzz", ["io", "sus"]) == "Known: io, sus."


def test_the_model_predicts_the_tasks_asked_for():
    model, batch = make_model(3), make_batch(3, seed=0)
    everything = model(batch.inputs)
    some = model(batch.inputs, ["t2", "t0"])
    assert list(everything) == ["t0", "t1", "t2"]
    assert list(some) == ["t2", "t0"]
    assert torch.equal(some["t2"], everything["t2"])


def test_heads_may_be_named_like_methods_of_a_module():
    names = ["type", "values", "train", "half"]
    model = MultiTaskModel(nn.Linear(2, 2), {name: nn.Linear(2, 1) for name in names})
    assert list(model(torch.zeros(1, 2))) == names
    assert model.to(torch.float64).heads["type"].weight.dtype == torch.float64
    assert "heads.values.weight" in model.state_dict()


def test_tensor_data_gather_nested_rows():
    data = TensorData({"a": torch.arange(5), "b": (torch.arange(5) * 2,)}, {"t": torch.arange(5) * 3})
    batch = data.batch(torch.tensor([4, 0]))
    assert batch.inputs["a"].tolist() == [4, 0]
    assert batch.inputs["b"][0].tolist() == [8, 0]
    assert batch.targets["t"].tolist() == [12, 0]
    assert (batch.size, len(data), batch.present) == (2, 5, None)


def test_tensor_data_of_different_lengths_are_refused():
    with pytest.raises(UserError, match=r"one length, got \[3, 4\]"):
        TensorData(torch.zeros(3), {"t": torch.zeros(4)})


class Samples(Dataset):
    """Each sample has a random part, as augmented images do."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.tensor([float(index), torch.rand(()).item()]), {"t": index * 2}, {"t": index % 2 == 0}


def test_dataset_data_collate_samples():
    batch = DatasetData(Samples()).batch(torch.tensor([3, 4]))
    assert batch.inputs[:, 0].tolist() == [3.0, 4.0]
    assert batch.targets["t"].tolist() == [6, 8]
    assert batch.present["t"].tolist() == [False, True]


def test_worker_count_does_not_change_augmented_samples():
    order = [torch.tensor([1, 5, 2]), torch.tensor([7, 0, 9])]
    runs = [list(DatasetData(Samples(), workers=workers).batches(order, seed=5)) for workers in (1, 2)]
    for one, two in zip(*runs, strict=True):
        assert isinstance(one, Batch)
        assert torch.equal(one.inputs, two.inputs)
    resumed = list(DatasetData(Samples(), workers=2).batches(order[1:], seed=5))
    assert torch.equal(resumed[0].inputs, runs[0][1].inputs)


def test_objective_text():
    assert Objective.parse("val/loss") == Objective("val/loss", "min")
    assert Objective.parse("val/left/accuracy") == Objective("val/left/accuracy", "max")
    assert Objective.parse("val/left/accuracy:min").mode == "min"
    assert str(Objective("val/x", "max")) == "val/x:max"
    for bad in ("test/loss", "val/loss:best"):
        with pytest.raises(UserError):
            Objective.parse(bad)


def test_an_undefined_value_is_never_better():
    assert not Objective("val/x", "max").better(math.nan, None)
    assert Objective("val/x", "max").better(1.0, None)
    assert Objective("val/x", "max").better(2.0, 1.0)
    assert not Objective("val/x", "min").better(2.0, 1.0)


def test_generators_are_independent_and_stable():
    assert derive(0, "init") == 1519069808562059438
    drawn = {
        purpose: torch.rand(3, generator=generator(1, purpose)).tolist() for purpose in ("init", "order", "groups")
    }
    assert len({tuple(values) for values in drawn.values()}) == 3


def test_global_random_states_come_back():
    import random

    import numpy as np

    def draw():
        return torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random(), np.random.normal()  # noqa: NPY002

    before = global_state()
    with isolated():
        seed_everything(1)
        state = global_state()
        first = draw()
        set_global_state(state)
        assert draw() == first
    outside = draw()
    set_global_state(before)
    assert draw() == outside


def test_a_problem_may_be_a_class_a_function_or_any_object_with_the_parts():
    class Mine(Problem):
        name = "mine"
        tasks = make_tasks(2)

        def model(self):
            return make_model(2)

        def data(self, split):
            return [split]

    class Duck:
        name, tasks, model, data = "duck", make_tasks(1), staticmethod(make_model), staticmethod(lambda split: split)

    assert checked(Mine, "m").name == "mine"
    assert checked(lambda: Mine(), "m").name == "mine"
    duck = checked(Duck(), "d")
    assert isinstance(duck, Problem)
    assert duck.data("val") == "val"
    with pytest.raises(UserError, match="'x' is no Problem: a int without name, tasks, model, data"):
        checked(3, "'x'")
