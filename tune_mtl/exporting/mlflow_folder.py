"""An MLflow model on disk: the archive with its signature, an input example and what it needs to run."""

import json
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tune_mtl.core.nested import Nested
from tune_mtl.exporting.archive import Archive, save_archive
from tune_mtl.exporting.compare import predicted
from tune_mtl.exporting.sample import named_tensors

if TYPE_CHECKING:
    from mlflow.models import Model, ModelSignature
    from mlflow.types import Schema

_DATA, _CODE, _GRAPH, _LAYOUT, _EXAMPLE = "data", "code", "model.pt2", "inputs.json", "input_example.json"
_LOADER = "tune_mtl_exported"
_SERVED = Path(__file__).with_name("served.py")
"""Travels with the model: MLflow's own loader serves networks of one output only."""


def write_folder(folder: Path, network: nn.Module, archive: Archive, entry: "Model") -> None:
    """Fill ``folder`` with an MLflow model of the flavours ``pytorch`` and ``python_function``.

    Args:
        folder: New or empty.
        network: The trained network, for the shapes of its predictions.
        archive: The same as a graph.
        entry: What the file ``MLmodel`` says besides: ids, where it comes from.
    """
    from mlflow import pyfunc

    for part in (_DATA, _CODE):
        (folder / part).mkdir(parents=True)
    save_archive(archive, folder / _DATA / _GRAPH)
    (folder / _DATA / _LAYOUT).write_text(json.dumps(layout(archive.example)))
    (folder / _CODE / f"{_LOADER}.py").write_text(_SERVED.read_text())
    entry.signature = signature_of(network, archive)
    entry.saved_input_example_info = _write_example(folder, archive.example)
    _write_requirements(folder)
    entry.add_flavor("pytorch", model_data=_DATA, pytorch_version=str(torch.__version__), code=None)
    environment = {"conda_env": "conda.yaml", "python_env": "python_env.yaml"}
    pyfunc.add_to_model(entry, loader_module=_LOADER, data=_DATA, code=_CODE, **environment)
    entry.save(str(folder / "MLmodel"))


def layout(inputs: Nested) -> dict[str, Any]:
    """Return how named arrays become what the network takes."""
    kind = "tensor" if isinstance(inputs, Tensor) else "dict" if isinstance(inputs, dict) else "tuple"
    values = inputs.values() if isinstance(inputs, dict) else inputs if kind == "tuple" else [inputs]
    deep = not all(isinstance(value, Tensor) for value in values)
    return {"kind": "nested" if deep else kind, "names": list(named_tensors(inputs))}


def signature_of(network: nn.Module, archive: Archive) -> "ModelSignature":
    """Return the names, types and shapes of inputs and predictions; -1 is the number of samples."""
    from mlflow.models import ModelSignature

    predictions = predicted(network, archive.example)
    inputs = named_tensors(archive.example)
    alone = isinstance(archive.example, Tensor)
    return ModelSignature(
        inputs=_schema(inputs, archive.batch_size, alone=alone), outputs=_schema(predictions, archive.batch_size)
    )


def _schema(tensors: Mapping[str, Tensor], batch_size: int | None, *, alone: bool = False) -> "Schema":
    from mlflow.types import ColSpec, Schema, TensorSpec

    rows = batch_size or -1
    specs: list[ColSpec | TensorSpec] = []
    for name, tensor in tensors.items():
        shape = (rows, *tensor.shape[1:]) if tensor.ndim else ()
        specs.append(TensorSpec(tensor.detach().numpy().dtype, shape, None if alone else name))
    return Schema(specs)


def _write_example(folder: Path, example: Nested) -> dict[str, str]:
    """Write the example as MLflow keeps arrays; returns what ``MLmodel`` says of it."""
    named = named_tensors(example)
    content = example.tolist() if isinstance(example, Tensor) else {key: each.tolist() for key, each in named.items()}
    (folder / _EXAMPLE).write_text(json.dumps(content))
    (folder / f"serving_{_EXAMPLE}").write_text(json.dumps({"inputs": content}))
    return {"artifact_path": _EXAMPLE, "serving_input_path": f"serving_{_EXAMPLE}", "type": "ndarray"}


def _write_requirements(folder: Path) -> None:
    """Write what the model needs to be served: not this package."""
    pins = [f"{name}=={metadata.version(name).partition('+')[0]}" for name in ("mlflow", "numpy", "torch")]
    python = platform.python_version()
    (folder / "requirements.txt").write_text("\n".join(pins) + "\n")
    (folder / "python_env.yaml").write_text(
        f'python: "{python}"\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n'
    )
    listed = "".join(f"  - {pin}\n" for pin in pins)
    (folder / "conda.yaml").write_text(
        f"name: mlflow-env\nchannels:\n- conda-forge\ndependencies:\n- python={python}\n- pip\n- pip:\n{listed}"
    )
