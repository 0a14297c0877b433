"""Exporting a trained network: made, put in its place, loaded back and compared before it counts as done."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_mtl.core.errors import UserError, did_you_mean
from tune_mtl.core.process.home import home
from tune_mtl.tracking.store import client

if TYPE_CHECKING:
    from tune_mtl.core.model import MultiTaskModel
    from tune_mtl.core.nested import Nested
    from tune_mtl.exporting.archive import Archive

FORMATS = ("mlflow", "torch", "onnx")
_ENDINGS = {"torch": ".pt2", "onnx": ".onnx"}


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A network that other programs can load; it was loaded back, and predicts what the trained one does.

    Attributes:
        to: ``mlflow``, ``torch`` or ``onnx``.
        uri: ``runs:/RUN_ID/model`` in MLflow; None of files.
        tracking_uri: The MLflow store that knows ``uri``.
        path: The file, or the folder of an MLflow model that was asked for on disk too; else None.
        version: The number under which it was registered, or None.
        difference: How far its predictions are off, in relation to the largest; 0 is bit for bit.
        batch_size: The only number of samples that it takes at once; None: any.
        inputs: The names of what it takes.
        takes: How these make up its argument, in Python: ``inputs``, ``{'image': image, 'depth': depth}``.
        outputs: The names of what it predicts: the tasks.
    """

    to: str
    uri: str | None
    tracking_uri: str
    path: Path | None
    version: str | None
    difference: float
    batch_size: int | None
    inputs: tuple[str, ...]
    takes: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is asked for: in which format, and where to.

    Attributes:
        to: One of ``FORMATS``.
        out: The file (``torch``, ``onnx``), or a folder for the MLflow model besides its run.
        register: The name of a registered model that gets a new version; MLflow only.
    """

    to: str
    out: Path | None = None
    register: str | None = None

    @classmethod
    def make(cls, to: str, out: str | os.PathLike[str] | None, register: str | None, name: str) -> "Order":
        """Check an order, so that what cannot be is said before anything is loaded; ``name`` names a default file.

        Raises:
            UserError: for an unknown format, a name where nothing can be registered, a place that is taken.
        """
        if to not in FORMATS:
            raise UserError(f"unknown format '{to}'. {did_you_mean(to, FORMATS)}")
        if register is not None and to != "mlflow":
            raise UserError(f"--register {register} needs --to mlflow: only MLflow models can be registered.")
        if register is not None and not register.strip():
            raise UserError("--register needs a name that is not empty.")
        if to == "onnx":
            from tune_mtl.exporting.onnx_file import require_onnx

            require_onnx()
        path = None if out is None else Path(out).absolute()
        if path is None and to != "mlflow":
            path = home() / "exports" / f"{name}{_ENDINGS[to]}"
        if path is not None:
            _check_place(path)
        return cls(to=to, out=path, register=register)


def _check_place(path: Path) -> None:
    """Refuse a place that is taken or cannot be written."""
    try:
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} exists already: remove it, or give another --out.")
        if path.parent.exists() and not path.parent.is_dir():
            raise UserError(f"{path} cannot be written: {path.parent} is no folder. Give another --out.")
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}. Give another --out.") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UserError(f"{path} cannot be written: permission denied. Give another --out.")


def deliver(
    order: Order,
    network: "MultiTaskModel",
    inputs: "Nested",
    *,
    run_id: str,
    tracking_uri: str,
    told: Mapping[str, Any],
) -> Exported:
    """Export ``network`` as ``order`` says.

    Args:
        order: Checked.
        network: Trained, in evaluation mode, on the CPU.
        inputs: Some samples, as the network takes them.
        run_id: The id of the trial's run in MLflow.
        tracking_uri: The address of the store that has it.
        told: What a torch archive says of its origin: JSON.

    Raises:
        UserError: if it cannot be exported, or does not predict what the network does.
    """
    from mlflow.exceptions import MlflowException

    from tune_mtl.exporting.archive import check_archive, make_archive, save_archive
    from tune_mtl.exporting.compare import predicted
    from tune_mtl.exporting.sample import named_tensors, spelled

    archive, version = make_archive(network, inputs), None
    outputs = list(predicted(network, archive.example))
    if order.to == "mlflow":
        try:
            off = _in_run(order, network, archive, run_id, tracking_uri)
        except MlflowException as error:
            raise UserError(f"MLflow does not take the model: {str(error).splitlines()[0]}") from error
        if order.register is not None:
            from tune_mtl.exporting.run_model import register

            version = register(client(tracking_uri), tracking_uri, run_id, order.register)
    elif order.to == "torch":
        extra = {"tune_mtl.json": json.dumps(dict(told))}
        off = _put(
            order.out,
            lambda path: save_archive(archive, path, extra),
            lambda path: check_archive(network, archive, path),
        )
    else:
        from tune_mtl.exporting.onnx_file import check_onnx, output_names, save_onnx

        outputs = output_names(network, archive)
        off = _put(
            order.out,
            lambda path: save_onnx(network, archive, path),
            lambda path: check_onnx(network, archive, path),
        )
    return Exported(
        to=order.to,
        uri=f"runs:/{run_id}/model" if order.to == "mlflow" else None,
        tracking_uri=tracking_uri,
        path=order.out,
        version=version,
        difference=off,
        batch_size=archive.batch_size,
        inputs=tuple(named_tensors(archive.example)),
        takes=spelled(archive.example),
        outputs=tuple(outputs),
    )


def _in_run(order: Order, network: "MultiTaskModel", archive: "Archive", run_id: str, uri: str) -> float:
    """Put the model into the run unless it has it, and on disk where that is asked for; returns how far it is off."""
    from mlflow.models import Model

    from tune_mtl.exporting.mlflow_folder import write_folder
    from tune_mtl.exporting.run_model import check_folder, check_run_model, log_model, model_of

    store = client(uri)
    there = model_of(store, run_id)
    if there is not None:
        off = check_run_model(uri, there, network, archive)
    else:
        off = log_model(store, uri, run_id, network, archive)
    if order.out is not None:
        _put(
            order.out,
            lambda path: write_folder(path, network, archive, Model(run_id=run_id)),
            lambda path: check_folder(path, network, archive),
        )
    return off


def _put(path: Path | None, write: Callable[[Path], None], check: Callable[[Path], float]) -> float:
    """Write beside ``path``, check, then put in place: a file that does not predict right is never there."""
    assert path is not None
    scratch = Path(tempfile.mkdtemp(prefix=".tune-mtl-", dir=path.parent))
    try:
        write(scratch / path.name)
        off = check(scratch / path.name)
        (scratch / path.name).rename(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}. Give another --out.") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return off
