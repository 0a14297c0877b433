"""Surface normals of NYUv2: from a folder of PNGs, or computed from depth."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.images import decode_vectors, unit
from tune_mtl.prepare.source import Array, content, is_number, listed

_FOCAL, _CENTRE = (518.8579, 519.4696), (325.5824, 253.7362)
"""The focal lengths and the centre of the camera, for 640x480 pixels: where normals are computed from depth."""
_SHORTEST = 0.5
"""The least length of what is a normal: zeros, written as grey 127 or 128, come back far shorter than 1."""


def normal_files(folder: Path, splits: Mapping[str, Sequence[int]]) -> dict[int, Path]:
    """Return the PNG of each official number.

    Names are numbers, ``0001.png`` or ``1.png``, in ``folder`` itself or in its subfolders ``train`` and ``test``.
    Numbering from 0 is seen by a ``0000.png``.

    Args:
        folder: The folder of the PNGs.
        splits: The official numbers of each split.

    Raises:
        UserError: for a number without a PNG, or with two.
    """
    inside = {split: folder / split for split in splits if (folder / split).is_dir()}
    if inside and len(inside) < len(splits):
        missing = next(split for split in splits if split not in inside)
        raise UserError(f"{folder} has a subfolder '{next(iter(inside))}', but none for split '{missing}'.")
    places = {split: _numbered(inside.get(split, folder)) for split in splits}
    shift = 1 if any(0 in files for files in places.values()) else 0
    found = {}
    for split, numbers in splits.items():
        for number in numbers:
            if number - shift not in places[split]:
                raise UserError(
                    f"{inside.get(split, folder)} has normals for {len(places[split])} images, but none for number"
                    f" {number} of split '{split}'."
                )
            found[number] = places[split][number - shift]
    return found


def _numbered(folder: Path) -> dict[int, Path]:
    files: dict[int, Path] = {}
    for path in listed(folder, ".png"):
        if is_number(path.stem):
            if int(path.stem) in files:
                raise UserError(
                    f"{folder} has two normals of number {int(path.stem)}: {files[int(path.stem)]}, {path}."
                )
            files[int(path.stem)] = path
    return files


def read_normals(path: Path) -> Array:
    """Return unit normals ``[3, h, w]`` from a PNG that encodes them as ``(n + 1) / 2``; 0 where they are unknown.

    Unknown is black, or grey: a vector of zeros, encoded.

    Raises:
        BadSample: if it cannot be decoded, or is no image in colours.
    """
    pixels = decode_vectors(content(path), str(path))
    vectors = pixels.astype(np.float32) / 127.5 - 1.0
    known = pixels.any(axis=0) & (np.linalg.norm(vectors, axis=0) >= _SHORTEST)
    return unit(np.where(known, vectors, 0.0))


def normals_from_depth(depth: Array) -> Array:
    """Return unit normals ``[3, h, w]`` (x right, y down, z away from the camera) that face the camera.

    Pixels become points by the camera's focal length; a normal is the cross product of the differences between a
    point's neighbours. It is 0 where the depth of the pixel or of one of those neighbours is 0.
    """
    height, width = depth.shape
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    scale = width / 640.0
    points = np.stack(
        [
            (across - _CENTRE[0] * scale) * depth / (_FOCAL[0] * scale),
            (down - _CENTRE[1] * scale) * depth / (_FOCAL[1] * scale),
            depth,
        ]
    )
    found = np.cross(np.gradient(points, axis=2), np.gradient(points, axis=1), axis=0)
    facing = np.where((found * points).sum(axis=0, keepdims=True) > 0, -found, found)
    return unit(np.where(_surrounded(depth > 0), facing, 0.0))


def _surrounded(known: Array) -> Array:
    """Return where a pixel and those above, below, left and right of it are known."""
    wider = np.pad(known, 1, mode="edge")
    found: Array = known & wider[:-2, 1:-1] & wider[2:, 1:-1] & wider[1:-1, :-2] & wider[1:-1, 2:]
    return found
