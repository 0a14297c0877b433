"""What is exported predicts what was trained, wherever it is loaded."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import onnxruntime
import pytest
import torch

import tune_mtl
from tests.exporting import problems
from tune_mtl.cli import main
from tune_mtl.exporting import archive as archives
from tune_mtl.exporting.compare import difference
from tune_mtl.exporting.onnx_file import runner
from tune_mtl.exporting.run_model import model_of
from tune_mtl.exporting.sample import named_tensors, spelled
from tune_mtl.terminal.exporting import usage
from tune_mtl.tracking.store import tracking_uri
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Trainer
from tune_mtl.training.trial import build_model


def inputs_of(problem: str, rows: int = 20):
    return getattr(problems, problem).data("test").batch(torch.arange(rows)).inputs


def predicted(network, inputs):
    with torch.no_grad():
        return network(inputs)


def same(first, second) -> bool:
    return list(first) == list(second) and all(torch.equal(first[task], second[task]) for task in first)


def used(done, **inputs):
    """What the lines predict that a user is told, where the inputs have the names that they use."""
    scope = {"torch": torch, "mlflow": mlflow, "onnxruntime": onnxruntime, **inputs}
    try:
        with torch.no_grad():
            exec("\n".join(usage(done)), scope)
    finally:  # they set the store for their whole process
        mlflow.set_tracking_uri(None)
        os.environ.pop("MLFLOW_TRACKING_URI", None)
    return scope


FRESH = """
import sys
sys.modules["tune_mtl"] = sys.modules["tests"] = None  # cannot be imported
import mlflow, torch
model = mlflow.pytorch.load_model(sys.argv[1])
for inputs, expected in torch.load(sys.argv[2]):
    with torch.no_grad():
        got = model(inputs)
    assert list(got) == list(expected)
    assert all(torch.equal(got[task], expected[task]) for task in got), len(inputs)
print("equal")
"""


def test_mlflow_loads_it_in_a_fresh_process_without_this_package_bit_for_bit(searches, tmp_path):
    name = searches.of("conv", "mr", epochs=3)
    done = tune_mtl.export(name, to="mlflow", register="toys")
    assert (done.difference, done.version, done.batch_size) == (0.0, "1", None)
    network = tune_mtl.best(name).load_model()
    cases = [(batch, predicted(network, batch)) for batch in (inputs_of("conv", rows) for rows in (1, 2, 5, 50))]
    torch.save(cases, tmp_path / "cases.pt")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-c", FRESH, done.uri, str(tmp_path / "cases.pt")],
        cwd=tmp_path,
        env={**env, "MLFLOW_TRACKING_URI": tracking_uri()},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.stdout.strip() == "equal", ran.stderr


def test_the_model_of_a_run_has_signature_and_example_and_is_served(searches, monkeypatch):
    best = tune_mtl.best(searches.of("conv", "mr", epochs=3))
    best.export(to="mlflow")
    logged = model_of(best.client, best.run_id)
    folder = logged.artifact_location.removeprefix("file://")
    entry = mlflow.models.Model.load(folder)
    assert [spec.shape for spec in entry.signature.inputs.inputs] == [(-1, 5)]
    assert entry.signature.outputs.input_names() == ["t0", "t1", "t2"]
    example = np.asarray(entry.load_input_example(folder), dtype=np.float32)
    assert torch.equal(torch.from_numpy(example), problems.conv.data("val").batch(torch.arange(2)).inputs)
    assert "tune-mtl" not in Path(folder, "requirements.txt").read_text()
    served = mlflow.pyfunc.load_model(folder).predict(inputs_of("conv", 3).numpy())
    expected = predicted(best.load_model(), inputs_of("conv", 3))
    assert same({task: torch.from_numpy(array) for task, array in served.items()}, expected)


def test_a_run_keeps_one_model_however_often_it_is_exported(searches):
    best = tune_mtl.best(searches.of("by_name", "sus"))
    best.export(to="mlflow")
    first = model_of(best.client, best.run_id).model_id
    assert best.export(to="mlflow", register="again").version == "1"
    assert best.export(to="mlflow", register="again").version == "2"
    assert model_of(best.client, best.run_id).model_id == first


@pytest.mark.parametrize(
    ("problem", "strategy"),
    [("conv", "mr"), ("conv", "stl"), ("by_name", "sus")],
)
def test_files_predict_what_was_trained_for_every_batch_size(searches, tmp_path, problem, strategy):
    name = searches.of(problem, strategy)
    network = tune_mtl.best(name).load_model()
    archive = tune_mtl.export(name, to="torch", out=tmp_path / "network.pt2")
    assert archive.difference == 0
    told: dict[str, str] = {"tune_mtl.json": ""}
    loaded = torch.export.load(archive.path, extra_files=told).module()
    assert json.loads(told["tune_mtl.json"])["config"]["strategy"] == strategy
    onnx = tune_mtl.export(name, to="onnx", out=tmp_path / "network.onnx")
    run = runner(onnx.path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.onnx", "network.pt2"]
    for rows in (1, 3, 20):
        batch = inputs_of(problem, rows)
        expected = predicted(network, batch)
        assert same(predicted(loaded, batch), expected)
        got = run(batch)
        assert list(got) == list(expected)
        assert max(difference(expected[task], got[task]) for task in got) < 1e-5


@pytest.mark.parametrize("strategy", ["mr", "stl", "io"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_what_is_loaded_predicts_what_evaluation_saw(strategy, channels_last):
    """Masks, a network per task and running statistics included."""
    masks = {"mr_sigma": 0.25} if strategy == "mr" else {}
    given = {"strategy": strategy, "lr": 1e-2, "epochs": 1, "channels_last": channels_last, **masks}
    config = resolve(problems.conv, given)
    trainer = Trainer(problems.conv, config)
    trainer.run_period()
    trainer.strategy.model.eval()
    seen = predicted(trainer.strategy.predict, inputs_of("conv"))
    loaded = predicted(build_model(problems.conv, config, trainer.best.weights), inputs_of("conv"))
    trainer.close()
    assert same(seen, loaded)
    if strategy == "mr":  # the masks do something
        for mask in trainer.strategy.model.masks:
            mask.used.fill_(True)
        assert not same(seen, predicted(trainer.strategy.predict, inputs_of("conv")))


def test_inputs_in_a_tuple_stay_one_and_the_lines_that_are_printed_run(searches, tmp_path):
    name = searches.of("by_place", "sus")
    batch = inputs_of("by_place", 3)
    told = used(tune_mtl.export(name, to="torch", out=tmp_path / "a.pt2"), inputs_0=batch[0], inputs_1=batch[1])
    assert same(told["predictions"], predicted(tune_mtl.best(name).load_model(), batch))


def test_the_lines_that_are_printed_run_for_inputs_by_name(searches, tmp_path):
    best, batch = tune_mtl.best(searches.of("by_name", "sus")), inputs_of("by_name", 3)
    expected = predicted(best.load_model(), batch)
    assert same(used(best.export(to="mlflow"), **batch)["predictions"], expected)
    onnx = best.export(to="onnx", out=tmp_path / "a.onnx")
    told = used(onnx, **{name: tensor.numpy() for name, tensor in batch.items()})
    assert onnx.outputs == ("sum", "first_prediction")
    for task, output in zip(expected, onnx.outputs, strict=True):
        assert difference(expected[task], torch.from_numpy(told[output])) < 1e-5


def test_inputs_are_spelled_as_the_network_takes_them():
    x = torch.zeros(1)
    assert spelled(x) == "inputs"
    assert spelled((x,)) == "(inputs_0,)"
    assert spelled({"a": x, "b": (x, {"c": x})}) == "{'a': a, 'b': (b_0, {'c': b_1_c})}"
    deep = {"a": x, "b": (x, {"c": x})}
    scope = named_tensors(deep)
    assert eval(spelled(deep), dict(scope)) == deep


def test_a_network_with_one_batch_size_is_exported_for_single_samples(searches, tmp_path, capsys):
    name = searches.of("fixed", "sus")
    done = tune_mtl.export(name, to="torch", out=tmp_path / "one.pt2")
    assert done.batch_size == 1
    one = inputs_of("fixed", 1)
    assert same(predicted(torch.export.load(done.path).module(), one), predicted(tune_mtl.best(name).load_model(), one))


def test_a_mismatch_is_an_error_that_says_how_much_and_leaves_nothing(searches, tmp_path, monkeypatch):
    make = archives.make_archive

    def altered(network, inputs):
        made = make(copy.deepcopy(network), inputs)
        with torch.no_grad():
            for value in network.parameters():
                value.add_(0.25)
        return made

    monkeypatch.setattr(archives, "make_archive", altered)
    name = searches.of("by_place", "sus")
    with pytest.raises(tune_mtl.UserError, match=r"off by [\d.]+ in relation to the largest value, where 1e-05"):
        tune_mtl.export(name, to="torch", out=tmp_path / "wrong.pt2")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(tune_mtl.UserError, match="the MLflow model predicts"):
        tune_mtl.export(name, to="mlflow")
    best = tune_mtl.best(name)
    assert model_of(best.client, best.run_id) is None


def test_differences_are_measured():
    a = torch.tensor([100.0, float("nan"), float("inf")])
    assert difference(a, a.clone()) == 0
    assert difference(a, torch.tensor([101.0, float("nan"), float("inf")])) == pytest.approx(0.01)
    assert difference(a, torch.tensor([100.0, 1.0, float("inf")])) == float("inf")
    assert difference(a, a[:2]) == float("inf")


def test_the_command_says_where_it_is_and_how_it_is_used(searches, tmp_path, monkeypatch, capsys):
    name = searches.of("conv", "io")
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "export", name, "--to", "torch", "--out", str(tmp_path / "a.pt2")])
    with pytest.raises(SystemExit) as exited:
        main()
    said = capsys.readouterr().out
    assert exited.value.code == 0
    assert "bit for bit" in said
    assert f'torch.export.load("{tmp_path / "a.pt2"}")' in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing", "--to", "torch"], "there is no search 'nothing'"),
        (["{io}", "--to", "xyz"], "unknown format 'xyz'. Known: mlflow, onnx, torch."),
        (["{io}"], "Missing option '--to'"),
        (["{io}", "--to", "torch", "--strategy", "sus"], "no finished trial of 'sus'"),
        (["{io}", "--to", "onnx", "--register", "x"], "--register x needs --to mlflow"),
        (["{io}", "--to", "mlflow", "--register", "a:b/c"], "--register 'a:b/c' was refused by MLflow"),
        (["{io}", "--to", "torch", "--out", "{taken}"], "exists already: remove it, or give another --out"),
        (["{io}", "--to", "torch", "--out", "{taken}/below.pt2"], "taken is no folder. Give another --out"),
        (["{io}", "--to", "torch", "--out", "/proc/nowhere/a.pt2"], "cannot be written"),
        (["{empty}", "--to", "torch"], "has no weights (best.pt) in its run"),
        (["{untraceable}", "--to", "torch"], "torch.export cannot trace this network"),
    ],
)
def test_mistakes_are_one_line(searches, tmp_path, monkeypatch, capsys, words, expected):
    (tmp_path / "taken").write_text("something")
    places = {
        "io": searches.of("conv", "io"),
        "empty": searches.of("by_name", "io", weights=False),
        "untraceable": searches.of("untraceable", "sus"),
        "taken": str(tmp_path / "taken"),
    }
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "export", *(word.format(**places) for word in words)])
    with pytest.raises(SystemExit) as exited:
        main()
    errors = capsys.readouterr().err
    assert exited.value.code == 2
    assert expected in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1


def test_a_problem_that_is_gone_is_named(searches, monkeypatch):
    best = tune_mtl.best(searches.of("conv", "io"))
    monkeypatch.delattr(problems, "conv")
    with pytest.raises(tune_mtl.UserError, match=r"module 'tests.exporting.problems' has no 'conv'"):
        best.export(to="torch")


def test_onnx_says_what_is_not_installed(searches, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    with pytest.raises(tune_mtl.UserError, match=r'needs onnxruntime: pip install "tune-mtl\[onnx\]"'):
        tune_mtl.export(searches.of("conv", "io"), to="onnx")
