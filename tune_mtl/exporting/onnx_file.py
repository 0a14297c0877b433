"""ONNX: the network for runtimes without torch. Needs the extra ``tune-mtl[onnx]``."""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested
from tune_mtl.exporting.archive import Archive, quiet
from tune_mtl.exporting.compare import Flat, check_predictions, predicted
from tune_mtl.exporting.sample import named_tensors

_PREDICTION = "_prediction"
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def require_onnx() -> None:
    """Refuse to go on without the packages that ONNX needs.

    Raises:
        UserError: naming what is missing and how it is installed.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f'--to onnx needs {", ".join(missing)}: pip install "tune-mtl[onnx]".')


def save_onnx(network: nn.Module, archive: Archive, path: Path) -> None:
    """Write one file; inputs have the names of :func:`named_tensors`, outputs those of :func:`output_names`.

    Raises:
        UserError: if an operation of the network has no ONNX counterpart; with torch's reason.
    """
    try:
        with quiet():
            torch.onnx.export(
                archive.program,
                (archive.example,),
                path,
                input_names=list(named_tensors(archive.example)),
                output_names=output_names(network, archive),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # whatever its converter trips over in a network of anyone's
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"ONNX cannot hold this network: {said[0]}") from error


def output_names(network: nn.Module, archive: Archive) -> list[str]:
    """Return the names of the outputs: the tasks; ``TASK_prediction`` where an input has that name already."""
    taken = named_tensors(archive.example)
    tasks = predicted(network, archive.example)
    return [f"{name}{_PREDICTION}" if name in taken else name for name in tasks]


def check_onnx(network: nn.Module, archive: Archive, path: Path) -> float:
    """Run the file with onnxruntime and return how far its predictions are off."""
    return check_predictions(network, runner(path), archive.checked, "the ONNX file")


def runner(path: Path) -> Callable[[Nested], Flat]:
    """Return a function from inputs to predictions by name, by onnxruntime on the CPU."""
    runtime: Any = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    taken = {entry.name for entry in session.get_inputs()}  # an input that nothing uses may be left out
    names = [output.name for output in session.get_outputs()]

    def predict(inputs: Nested) -> dict[str, Tensor]:
        named = named_tensors(inputs)
        found = session.run(None, {name: tensor.numpy() for name, tensor in named.items() if name in taken})
        tasks = [stem if (stem := name.removesuffix(_PREDICTION)) in named else name for name in names]
        return {task: torch.from_numpy(array) for task, array in zip(tasks, found, strict=True)}

    return predict
