"""``torch.export``: the network as a graph that torch alone runs, for any batch size where that can be."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from tune_mtl.core.errors import UserError
from tune_mtl.core.nested import Nested, map_tensors, row_count
from tune_mtl.core.seeds import isolated
from tune_mtl.exporting.compare import check_predictions, predicted
from tune_mtl.exporting.sample import first_rows


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A network as a graph.

    Attributes:
        program: The graph; ``program.module()(inputs)`` is a dict of predictions by task.
        example: The inputs that it was traced with.
        checked: The inputs that it is checked on: as many samples as it takes.
        batch_size: The only number of samples that it takes; None: any.
    """

    program: ExportedProgram
    example: Nested
    checked: Nested
    batch_size: int | None


def make_archive(model: nn.Module, inputs: Nested) -> Archive:
    """Trace ``model`` (in evaluation mode, on the CPU) for batches of any size; if it has none, for single samples.

    Raises:
        UserError: if torch cannot trace the network at all; with torch's reason.
    """
    with torch.no_grad():
        model(inputs)  # what a network decides in its first pass is decided
    reason: Exception | None = None
    if row_count(inputs) > 1:
        try:
            example = first_rows(inputs, 2)
            program = _trace(model, example, dynamic=True)
            if _takes(program, inputs, first_rows(inputs, 1)):
                return Archive(program=program, example=example, checked=inputs, batch_size=None)
        except Exception as error:  # whatever tracing trips over in a network of anyone's
            reason = error
    try:
        single = first_rows(inputs, 1)
        program = _trace(model, single, dynamic=False)
    except Exception as error:
        said = str(reason or error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"torch.export cannot trace this network: {said[0]}") from error
    return Archive(program=program, example=single, checked=single, batch_size=1)


def _trace(model: nn.Module, example: Nested, *, dynamic: bool) -> ExportedProgram:
    shapes = (map_tensors(lambda _: {0: Dim.AUTO}, example),) if dynamic else None  # type: ignore[arg-type, return-value]
    with quiet(), isolated(), torch.no_grad():
        return torch.export.export(model, (example,), dynamic_shapes=shapes, strict=False)


def _takes(program: ExportedProgram, *batches: Nested) -> bool:
    """Return whether the graph runs on batches of these sizes."""
    module = program.module()
    try:
        with torch.no_grad():
            for batch in batches:
                module(batch)
    except Exception:
        return False
    return True


def save_archive(archive: Archive, path: Path, told: Mapping[str, str] | None = None) -> None:
    """Write a ``.pt2`` file, with small files of text in it by name."""
    with quiet():
        torch.export.save(archive.program, path, extra_files=dict(told or {}))


def check_archive(model: nn.Module, archive: Archive, path: Path, what: str = "the archive") -> float:
    """Load the file back and return how far its predictions are off; see :func:`check_predictions`."""
    with quiet():
        loaded = torch.export.load(path).module()
    return check_predictions(model, partial(predicted, loaded), archive.checked, what)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what torch's exporters say of their own inner workings."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
