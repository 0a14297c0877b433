"""Serve an exported network: arrays in, one array per task out.

This file is copied into every exported MLflow model. It uses torch, numpy and the standard library, nothing else.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Network:
    """A network that was exported with torch, as MLflow's ``python_function`` asks for it."""

    def __init__(self, folder: Path) -> None:
        self._module = torch.export.load(folder / "model.pt2").module()
        self._layout = json.loads((folder / "inputs.json").read_text())

    def predict(self, data: Any, params: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Return an array for each task, from an array, or from a dict of them by name."""
        with torch.no_grad():
            return _arrays(self._module(self._inputs(data)))

    def _inputs(self, data: Any) -> Any:
        kind, names = self._layout["kind"], self._layout["names"]
        if kind == "nested":
            raise TypeError("this network takes nested inputs: use mlflow.pytorch.load_model and give them as tensors.")
        if kind == "tensor":
            return torch.from_numpy(np.ascontiguousarray(data))
        tensors = {name: torch.from_numpy(np.ascontiguousarray(data[name])) for name in names}
        return tensors if kind == "dict" else tuple(tensors.values())


def _arrays(predictions: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for task, value in predictions.items():
        _add(found, task, value)
    return found


def _add(found: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        found[name] = value.numpy()
    elif isinstance(value, dict):
        for key, item in value.items():
            _add(found, f"{name}_{key}", item)
    else:
        for index, item in enumerate(value):
            _add(found, f"{name}_{index}", item)


def _load_pyfunc(path: str) -> Network:
    """Load the model; MLflow calls this function by its name."""
    return Network(Path(path))
