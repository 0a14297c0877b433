"""Reference losses against closed forms, and what is judged by them."""

import logging
import math
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis.strategies import floats, integers
from torch import nn

from tests.toys import make_tasks, toy_problem
from tune_mtl import Batch, DatasetData, MultiTaskModel, Objective, Problem, Task, TensorData, UserError, load_problem
from tune_mtl import train as train_trial
from tune_mtl.training.config import resolve
from tune_mtl.training.references import cache, labelled
from tune_mtl.training.references import find as references
from tune_mtl.training.references.find import find_references, judged, references_of


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No memory of other tests, and a home that does not exist yet."""
    monkeypatch.setattr(cache, "_found", {})
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))


class Reshaped(nn.Module):
    """A head of any output shape; ``last`` is applied to it."""

    def __init__(self, shape, last=lambda outputs: outputs):
        super().__init__()
        self.linear, self.shape, self.last = nn.Linear(3, math.prod(shape)), shape, last

    def forward(self, features):
        return self.last(self.linear(features).reshape(len(features), *self.shape))


def problem_of(loss, target, shape, *, present=None, last=lambda outputs: outputs, **parts) -> Problem:
    """One task with these targets; inputs are of no importance."""

    def model():
        return MultiTaskModel(nn.Linear(3, 3), {"a": Reshaped(shape, last)})

    def data(_):
        masks = None if present is None else {"a": present}
        return TensorData(torch.zeros(len(target), 3), {"a": target}, masks)

    return Problem("one", [Task("a", loss)], model, data, defaults={"epochs": 1, "batch_size": 8}, **parts)


def reference(problem: Problem) -> float:
    found = find_references(problem, {})
    assert not found.reasons, found.warning
    return found.losses["a"]


def entropy(labels) -> float:
    shares = torch.bincount(labels.flatten().long()).double() / labels.numel()
    return float(torch.special.entr(shares).sum())


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=20)
@given(seed=integers(0, 2**31), offset=floats(-1e4, 1e4), scale=floats(1e-2, 1e3))
def test_mean_squared_and_absolute_errors_are_variance_and_mean_deviation_from_the_median(seed, offset, scale):
    target = (draw(seed, 101, 2).exp() * scale + offset).float()
    variance = target.double().var(dim=0, correction=0).mean().item()
    deviation = (target.double() - target.double().median(dim=0).values).abs().mean().item()
    assert reference(problem_of(F.mse_loss, target, (2,))) == pytest.approx(variance, rel=1e-4)
    assert reference(problem_of(F.l1_loss, target, (2,))) == pytest.approx(deviation, rel=1e-4)

    def hidden(prediction, target):  # targets are not built like outputs: there is no start from them
        return F.l1_loss(prediction[:, :2], target)

    assert reference(problem_of(hidden, target, (3,))) == pytest.approx(deviation, rel=5e-3)


@settings(max_examples=20)
@given(seed=integers(0, 2**31), classes=integers(2, 12))
def test_cross_entropies_are_entropies(seed, classes):
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (200,), generator=random).minimum(torch.tensor(classes // 2 + 1))
    labels[:2] = torch.tensor([0, 1])
    bits = (labels > 0).float()
    assert reference(problem_of(F.cross_entropy, labels, (classes,))) == pytest.approx(entropy(labels), rel=1e-4)
    assert reference(problem_of(F.binary_cross_entropy_with_logits, bits, ())) == pytest.approx(entropy(bits), rel=1e-4)
    given_logs = problem_of(F.nll_loss, labels, (classes,), last=lambda outputs: outputs.log_softmax(dim=1))
    assert reference(given_logs) == pytest.approx(entropy(labels), rel=1e-4)
    given_shares = problem_of(F.binary_cross_entropy, bits, (), last=torch.sigmoid)
    assert reference(given_shares) == pytest.approx(entropy(bits), rel=1e-4)


def test_huber_and_cosine_losses():
    target = draw(0, 500, 1).exp()
    outputs = torch.linspace(0, 5, 5001, dtype=torch.float64)
    least = min(F.huber_loss(torch.full_like(target, value), target).item() for value in outputs.tolist())
    assert reference(problem_of(F.huber_loss, target.float(), (1,))) == pytest.approx(least, rel=1e-4)
    units = F.normalize(draw(1, 500, 3) + 0.5, dim=1)

    def cosine(prediction, target):
        return 1 - F.cosine_similarity(prediction, target).mean()

    assert reference(problem_of(cosine, units, (3,))) == pytest.approx(1 - units.mean(dim=0).norm().item(), rel=1e-4)


def test_a_loss_that_refuses_double_precision_is_taken_in_its_own():
    labels = torch.arange(90) % 3
    weights = torch.tensor([1.0, 1.0, 1.0])
    loss = nn.CrossEntropyLoss(weight=weights)
    assert reference(problem_of(loss, labels, (3,))) == pytest.approx(math.log(3), rel=1e-5)


def test_only_labelled_samples_count_each_alike():
    target = draw(2, 1000, 1).float()
    present = torch.arange(1000) % 7 == 0
    present[500:] = False
    target[~present] = 1e9
    expected = target[present].double().var(correction=0).item()
    assert reference(problem_of(F.mse_loss, target, (1,), present=present)) == pytest.approx(expected, rel=1e-5)
    none = find_references(problem_of(F.mse_loss, target, (1,), present=torch.zeros(1000, dtype=torch.bool)), {})
    assert none.reasons == {"a": "it has no labels"}


def test_a_dense_output_has_one_value_per_channel():
    target = draw(3, 40, 2, 3, 5).float() + torch.arange(15).reshape(3, 5)
    per_channel = target.double().transpose(0, 1).flatten(1)
    expected = per_channel.var(dim=1, correction=0).mean().item()
    assert reference(problem_of(F.mse_loss, target, (2, 3, 5))) == pytest.approx(expected, rel=1e-5)
    labels = (target[:, 0] > 7).long()
    assert reference(problem_of(F.cross_entropy, labels, (2, 3, 5))) == pytest.approx(entropy(labels), rel=1e-5)


def test_predictions_and_targets_may_be_nested():
    target = {"place": draw(4, 300, 2).float(), "kind": torch.arange(300) % 5}

    def loss(prediction, target):
        place, (kind,) = prediction["place"], prediction["kind"]
        return F.mse_loss(place, target["place"]) + F.cross_entropy(kind, target["kind"])

    def parts(outputs):
        return {"place": outputs[:, :2], "kind": (outputs[:, 2:],)}

    expected = target["place"].double().var(dim=0, correction=0).mean().item() + math.log(5)
    problem = problem_of(loss, torch.zeros(300), (7,), last=parts)
    problem.data = lambda _: TensorData(torch.zeros(300, 3), {"a": target})
    assert reference(problem) == pytest.approx(expected, rel=1e-4)


def test_the_references_that_multidigits_works_out_by_hand_are_found():
    by_hand = load_problem("multidigits")
    stripped = Problem(
        "stripped", [replace(task, reference_loss=None) for task in by_hand.tasks], by_hand.model, by_hand.data
    )
    found = judged(stripped)
    assert references_of(found) == pytest.approx(references_of(by_hand), rel=1e-3)
    assert str(found.judged_by) == "val/relative_loss:min"


def test_a_fixed_part_of_a_large_set_is_enough():
    target = torch.arange(50_000.0).reshape(-1, 1)  # sorted: its beginning would not do
    problem = problem_of(F.mse_loss, target, (1,))
    assert reference(problem) == pytest.approx(50_000**2 / 12, rel=0.02)
    assert reference(problem_of(F.mse_loss, target, (1,))) == reference(problem)


def test_few_samples_of_large_outputs_are_enough(monkeypatch):
    monkeypatch.setattr(labelled, "_MOST_OUTPUTS", 100 * 12)
    counts = []

    def counted(prediction, target):
        counts.append(len(target))
        return F.mse_loss(prediction, target)

    reference(problem_of(counted, draw(5, 1000, 1, 3, 4).float(), (1, 3, 4)))
    assert max(counts) == 100


def test_targets_are_those_that_to_device_makes_and_datasets_will_do():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            return torch.zeros(3), {"a": torch.tensor([float(index % 2)])}

    def tenfold(batch, _):
        return Batch(batch.inputs, {"a": 10 * batch.targets["a"]}, batch.present)

    problem = problem_of(F.mse_loss, torch.zeros(1), (1,), to_device=tenfold)
    problem.data = lambda _: DatasetData(Rows())
    assert reference(problem) == pytest.approx(25.0)


def test_tasks_of_every_scale_count_alike_by_default():
    problem = toy_problem(2, objective=None)
    problem.tasks = make_tasks(2, scale=1e6)
    result = train_trial(problem, {"strategy": "sus", "lr": 0.01, "epochs": 1})
    assert result.config["metric"] == "val/relative_loss:min"
    targets = problem.data("train").everything.targets
    variance = [targets[name].double().var(dim=0, correction=0).mean().item() for name in ("t0", "t1")]
    (record,) = result.history
    expected = (record["val/loss/t0"] / variance[0] + record["val/loss/t1"] / variance[1] / 1e6) / 2
    assert record["val/relative_loss"] == pytest.approx(expected, rel=1e-6)
    assert [task.reference_loss for task in problem.tasks] == [None, None], "the user's problem is left as it is"
    assert result.load_model() is not None


def test_a_problem_may_be_a_dataclass_without_a_hash():
    @dataclass
    class Mine(Problem):
        width: int = 3

        def __post_init__(self):
            toy = toy_problem(2)
            super().__init__("mine", toy.tasks, toy.model, toy.data)

    assert str(judged(Mine()).judged_by) == "val/relative_loss:min"


def test_a_given_reference_stays_and_the_others_are_found():
    problem = toy_problem(2, objective=None)
    problem.tasks = [Task("t0", F.mse_loss, reference_loss=7.0), Task("t1", F.mse_loss)]
    found = references_of(judged(problem))
    assert found["t0"] == 7.0
    assert found["t1"] == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize(
    ("parts", "config", "metric"),
    [
        ({"objective": Objective()}, {}, "val/loss:min"),
        ({"objective": Objective("val/loss/t1")}, {}, "val/loss/t1:min"),
        ({"objective": None}, {"metric": "val/loss"}, "val/loss:min"),
        ({"objective": None, "defaults": {"metric": "val/loss", "batch_size": 8}}, {}, "val/loss:min"),
    ],
)
def test_who_says_what_decides_is_left_alone(monkeypatch, parts, config, metric):
    monkeypatch.setattr(references, "find_references", lambda *_: pytest.fail("nothing is to be found"))
    problem = toy_problem(2, **parts)
    assert judged(problem, config) is problem
    assert resolve(problem, {"strategy": "sus", "lr": 0.1, **config}).metric == metric


def test_the_relative_loss_can_be_asked_for():
    config = {"strategy": "sus", "lr": 0.01, "epochs": 1, "metric": "val/relative_loss"}
    assert train_trial(toy_problem(2), config).history[0]["val/relative_loss"] > 0
    problem = toy_problem(2)
    problem.tasks = [Task("t0", F.mse_loss), Task("t1", lambda prediction, _: (prediction**2).mean())]
    with pytest.raises(UserError, match=r"task 't1' \(its best constant prediction scores 0"):
        train_trial(problem, config)


@pytest.mark.parametrize(
    ("name", "metric"),
    [("multidigits", "val/relative_loss:min"), ("quadratics", "val/loss:min")],
)
def test_built_in_problems_keep_their_objective_and_compute_nothing(monkeypatch, name, metric):
    monkeypatch.setattr(references, "find_references", lambda *_: pytest.fail("nothing is to be found"))
    assert str(judged(load_problem(name)).judged_by) == metric


def undecided(prediction, target):
    """It trains (there is a gradient of zero), but no output is better than another to it."""
    return F.mse_loss(prediction.detach(), target)


def broken(*_):
    raise RuntimeError("the user's\nown mistake")


@pytest.mark.parametrize(
    ("loss", "parts", "reason"),
    [
        (undecided, {}, "its loss has no gradient in the prediction"),
        (lambda prediction, _: prediction.mean() * float("nan"), {}, "its loss is not finite"),
        (lambda prediction, _: prediction.mean(), {}, "its best constant prediction scores -"),
        (lambda prediction, _: (prediction**2).mean(), {}, "its best constant prediction scores 0"),
        (broken, {}, "RuntimeError: the user's"),
        (F.mse_loss, {"to_device": broken}, "RuntimeError: the user's own mistake"),
        (F.mse_loss, {"model": broken}, "RuntimeError: the user's own mistake"),
        (F.mse_loss, {"data": lambda _: None}, "there are no training data"),
        (F.mse_loss, {"data": lambda _: [1, 2, 3]}, "AttributeError"),
    ],
)
def test_what_cannot_be_found_is_said_and_val_loss_decides(caplog, loss, parts, reason):
    problem = toy_problem(2, objective=None)
    problem.tasks = [Task("t0", F.mse_loss), Task("t1", loss)]
    for part, value in parts.items():
        setattr(problem, part, value)
    with caplog.at_level(logging.WARNING):
        found = judged(problem)
    assert str(found.judged_by) == "val/loss:min"
    assert references_of(found) == {}
    (record,) = caplog.records
    assert found.objective_warning in record.getMessage()
    assert reason in found.objective_warning
    assert "\n" not in found.objective_warning
    assert f"task '{'t0' if parts else 't1'}'" in found.objective_warning


def test_labels_that_are_all_the_same_have_no_reference():
    for loss, target, shape in (
        (F.mse_loss, torch.full((50, 1), 5.0), (1,)),
        (F.cross_entropy, torch.ones(50, dtype=torch.long), (3,)),
    ):
        found = find_references(problem_of(loss, target, shape), {})
        assert "all labels are the same" in found.reasons["a"]


def test_the_warning_says_which_task_dominates_and_by_how_much():
    problem = toy_problem(2, objective=None, dropout=False)
    problem.tasks = [
        Task("t0", lambda prediction, target: F.mse_loss(prediction, target) * 0 + 1.0),
        Task("t1", lambda prediction, target: F.mse_loss(prediction.detach(), target) * 0 + 3.0),
    ]
    assert "task 't1' is 75 % before training" in judged(problem).objective_warning


def test_a_trial_that_cannot_be_judged_fairly_trains_all_the_same():
    problem = toy_problem(2, objective=None)
    problem.tasks = [Task("t0", F.mse_loss), Task("t1", lambda p, t: F.mse_loss(p, t) - 100.0)]
    result = train_trial(problem, {"strategy": "sus", "lr": 0.01, "epochs": 1})
    assert (result.outcome, result.config["metric"]) == ("completed", "val/loss:min")
    assert "val/relative_loss" not in result.history[0]


def test_global_random_states_and_threads_are_left_alone():
    torch.manual_seed(3)
    expected, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(3)
    judged(toy_problem(2, objective=None))
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
