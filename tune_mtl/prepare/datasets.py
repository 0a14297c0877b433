"""The data sets that can be prepared, by name. Imports neither torch nor torchvision by itself."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tune_mtl.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tune_mtl.prepare.prepared_set import Manifest
    from tune_mtl.prepare.source import Source

DATASETS = ("celeba", "cityscapes", "nyuv2")
_HALVINGS = {"celeba": 8, "cityscapes": 16, "nyuv2": 16}
"""Sides must be multiples of this: the networks halve them that often."""


def open_source(dataset: str, folder: Path, size: str | None, normals: Path | None) -> "Source":
    """Return the data set in ``folder``, found and listed.

    Raises:
        UserError: for an unknown data set, and for whatever is missing in the folder.
    """
    if dataset not in DATASETS:
        raise UserError(f"unknown data set '{dataset}'. {did_you_mean(dataset, DATASETS)}")
    if normals is not None and dataset != "nyuv2":
        raise UserError(f"--normals belongs to nyuv2, not to {dataset}.")
    if normals is not None and not normals.is_dir():
        raise UserError(f"--normals {normals} is no folder.")

    from tune_mtl.prepare import celeba, cityscapes, nyuv2
    from tune_mtl.prepare.source import parse_size

    default = {"celeba": celeba.SIZE, "cityscapes": cityscapes.SIZE, "nyuv2": nyuv2.SIZE}[dataset]
    chosen = parse_size(size, default, _HALVINGS[dataset])
    if dataset == "celeba":
        source = celeba.open_celeba(folder, chosen)
    elif dataset == "cityscapes":
        source = cityscapes.open_cityscapes(folder, chosen)
    else:
        source = nyuv2.open_nyuv2(folder, chosen, normals)
    origin = {"source": str(folder.absolute()), "size": f"{chosen[0]}x{chosen[1]}"}
    origin |= {} if normals is None else {"normals": str(normals.absolute())}
    return replace(source, origin=origin)


def prepare_source(
    source: "Source",
    out: Path,
    *,
    workers: int | None = None,
    skip_bad: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> "Manifest":
    """Write the prepared set; see :func:`tune_mtl.prepare.writer.prepare`."""
    from tune_mtl.prepare.writer import prepare

    if workers is not None and workers < 1:
        raise UserError(f"workers={workers} must be >= 1.")
    chosen = workers or len(os.sched_getaffinity(0))
    return prepare(source, out, workers=chosen, skip_bad=skip_bad, on_progress=on_progress)
