"""The MLflow model of a trial's run: put there once, found again, registered under a name."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from tune_mtl.core.errors import UserError
from tune_mtl.exporting.archive import Archive, quiet
from tune_mtl.exporting.compare import check_predictions, predicted
from tune_mtl.exporting.mlflow_folder import write_folder

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run

MODEL = "model"
"""The name of the model in its run: ``runs:/RUN_ID/model``."""


def model_of(store: "MlflowClient", run_id: str) -> "LoggedModel | None":
    """Return the run's model if it is there and whole."""
    return next((model for model in _models(store, store.get_run(run_id)) if str(model.status) == "READY"), None)


def log_model(store: "MlflowClient", uri: str, run_id: str, network: nn.Module, archive: Archive) -> float:
    """Put the network into the run as its model, load it back, and return how far its predictions are off.

    What a kill left of an earlier try is removed first; a model that does not predict what the network does is not
    kept.
    """
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    run = store.get_run(run_id)
    for left in _models(store, run):
        store.delete_logged_model(left.model_id)
    made = store.create_logged_model(run.info.experiment_id, MODEL, source_run_id=run_id, params=dict(run.data.params))
    try:
        store.log_outputs(run_id, [LoggedModelOutput(made.model_id, step=0)])
        entry = Model(
            artifact_path=made.artifact_location, run_id=run_id, model_uuid=made.model_id, model_id=made.model_id
        )
        with tempfile.TemporaryDirectory(prefix="tune-mtl-") as scratch:
            write_folder(Path(scratch) / MODEL, network, archive, entry)
            store.log_model_artifacts(made.model_id, str(Path(scratch) / MODEL))
        off = check_run_model(uri, made, network, archive)
    except BaseException:
        store.delete_logged_model(made.model_id)
        raise
    store.finalize_logged_model(made.model_id, "READY")
    return off


def check_run_model(uri: str, model: "LoggedModel", network: nn.Module, archive: Archive) -> float:
    """Load the run's model as the store gives it, and return how far its predictions are off.

    ``runs:/...`` addresses are resolved by MLflow with the process's own store, which need not be this one.
    """
    from mlflow.artifacts import download_artifacts

    with tempfile.TemporaryDirectory(prefix="tune-mtl-") as scratch:
        folder = download_artifacts(artifact_uri=model.artifact_location, dst_path=scratch, tracking_uri=uri)
        return check_folder(Path(folder), network, archive)


def check_folder(folder: Path, network: nn.Module, archive: Archive) -> float:
    """Load an MLflow model from a folder, and return how far its predictions are off."""
    from mlflow.pytorch import load_model

    with quiet():
        loaded = load_model(str(folder))  # type: ignore[no-untyped-call]
    return check_predictions(network, partial(predicted, loaded), archive.checked, "the MLflow model")


def register(store: "MlflowClient", uri: str, run_id: str, name: str) -> str:
    """Make the run's model the newest version of the registered model ``name``; returns the version's number.

    Raises:
        UserError: if MLflow refuses.
    """
    from mlflow.exceptions import MlflowException

    model = model_of(store, run_id)
    assert model is not None
    # without a server, MLflow looks up models:/... in the process's own store, which need not be this one
    source = f"models:/{model.model_id}" if uri.startswith("http") else model.artifact_location
    try:
        with _known_already():
            store.create_registered_model(name)
        version = store.create_model_version(name, source, run_id=run_id, model_id=model.model_id)
    except MlflowException as error:
        raise UserError(f"--register {name!r} was refused by MLflow: {str(error).splitlines()[0]}") from None
    return str(version.version)


@contextmanager
def _known_already() -> Iterator[None]:
    """Let a registered model that is there already be."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_ALREADY_EXISTS", "ALREADY_EXISTS"):
            raise


def _models(store: "MlflowClient", run: "Run") -> "list[LoggedModel]":
    """Return the models that the run has under our name, those too that were never finished."""
    found: list[LoggedModel] = []
    token = None
    while True:
        page = store.search_logged_models(
            [run.info.experiment_id], filter_string=f"source_run_id = '{run.info.run_id}'", page_token=token
        )
        found += [model for model in page if model.name == MODEL]
        token = page.token
        if not token:
            return found
