"""NYUv2: 13-class segmentation, depth and surface normals of indoor scenes, 288x384."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.io import loadmat

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.images import bilinear, decode_rgb, nearest, unit
from tune_mtl.prepare.source import Array, BadSample, Source, find

SIZE = (288, 384)
CLASSES = 13
UNLABELLED = 255
OFFICIAL = "nyu_depth_v2_labeled.mat"
_FOCAL, _CENTRE = (518.8579, 519.4696), (325.5824, 253.7362)
"""Of the camera, for 640x480 pixels: where normals are computed from depth."""

_NPY_SPLITS = {"train": "train", "test": "val"}
"""Ours, and the folder that holds it: the pre-processed layout calls the official test split `val`."""


def open_nyuv2(folder: Path, size: tuple[int, int] = SIZE, normals: Path | None = None) -> Source:
    """The official file where there is one, else the pre-processed ``.npy`` layout.

    Args:
        folder: Holds ``nyu_depth_v2_labeled.mat``, ``splits.mat`` and ``class13Mapping.mat`` (with
            ``classMapping40.mat``), or ``train`` and ``val``.
        size: Of the prepared images.
        normals: A folder of PNGs named by the official number; default: ``normals`` beside the official file, else
            normals are computed from depth.

    Raises:
        UserError: if something is missing or does not match.
    """
    found = find(folder, (OFFICIAL, "train"), "data")
    return _official(folder, size, normals) if found.name == OFFICIAL else _preprocessed(folder, size)


def _source(splits: Mapping[str, list[Any]], read: Any, size: tuple[int, int], notes: Mapping[str, Any]) -> Source:
    return Source(
        name="nyuv2",
        splits=splits,
        arrays={
            "images": ((3, *size), "uint8"),
            "labels": (size, "uint8"),
            "depth": (size, "float16"),
            "normals": ((3, *size), "float16"),
        },
        read=read,
        counts={split: len(items) for split, items in splits.items()},
        notes={
            "labels": f"0 to {CLASSES - 1}, {UNLABELLED} is unlabelled",
            "depth": "metres, 0 is unknown",
            "resized": "images and normals bilinear (normals to unit length again), labels and depth nearest",
            **notes,
        },
    )


def _as_prepared(
    image: Array, labels: Array, depth: Array, normals: Array, size: tuple[int, int], where: str
) -> dict[str, Array]:
    """Checked and resized: image uint8 ``[3, h, w]``, labels from -1, depth in metres, normals ``[3, h, w]``."""
    if not np.isfinite(depth).all() or (depth < 0).any():
        raise BadSample(f"{where} has a depth that is negative or no number")
    if not np.isfinite(normals).all():
        raise BadSample(f"{where} has a normal that is no number")
    if labels.min() < -1 or labels.max() >= CLASSES:
        wrong = labels[(labels < -1) | (labels >= CLASSES)].flat[0]
        raise BadSample(f"{where} has label {int(wrong)}, but labels go from -1 to {CLASSES - 1}")
    shrunk = nearest(torch.from_numpy(np.where(labels < 0, UNLABELLED, labels).astype(np.uint8)), size)
    known = nearest(torch.from_numpy(depth.astype(np.float32)), size)
    return {
        "images": bilinear(torch.from_numpy(np.ascontiguousarray(image)), size).numpy(),
        "labels": shrunk.numpy(),
        "depth": known.numpy().astype(np.float16),
        "normals": unit(bilinear(torch.from_numpy(normals.astype(np.float32)), size).numpy()).astype(np.float16),
    }


# The pre-processed layout


@dataclass(frozen=True)
class _Numbered:
    folder: str
    number: int


def _preprocessed(folder: Path, size: tuple[int, int]) -> Source:
    splits: dict[str, list[_Numbered]] = {}
    for split, name in _NPY_SPLITS.items():
        place = find(folder, (name,), f"split '{name}'")
        numbers = {}
        for part in ("image", "label", "depth", "normal"):
            inside = find(place, (part,), f"folder '{part}'")
            numbers[part] = {path.stem for path in inside.glob("*.npy")}
        for part, found in numbers.items():
            if found != numbers["image"]:
                other = min(found ^ numbers["image"])
                raise UserError(f"{place}: image and {part} do not match, for one in '{other}.npy'.")
        if not numbers["image"] or not all(stem.isdigit() for stem in numbers["image"]):
            raise UserError(f"{place / 'image'} must hold numbered files: 0.npy, 1.npy, ...")
        splits[split] = [_Numbered(str(place), number) for number in sorted(map(int, numbers["image"]))]

    def read(item: _Numbered) -> Mapping[str, Array]:
        parts = {part: _load(item, part) for part in ("image", "label", "depth", "normal")}
        where = f"{item.folder}/*/{item.number}.npy"
        image = _channels_first(parts["image"], 3, where)
        if image.dtype != np.uint8:
            scale = 255.0 if image.max() <= 1.0 else 1.0
            image = np.clip(np.rint(image * scale), 0, 255).astype(np.uint8)
        return _as_prepared(
            image,
            np.squeeze(parts["label"]),
            np.squeeze(parts["depth"]),
            _channels_first(parts["normal"], 3, where),
            size,
            where,
        )

    return _source(splits, read, size, {"form": "pre-processed .npy files", "normals": "as given"})


def _load(item: _Numbered, part: str) -> Array:
    path = Path(item.folder, part, f"{item.number}.npy")
    try:
        return np.asarray(np.load(path))
    except (OSError, ValueError, EOFError) as error:
        raise BadSample(f"{path} cannot be read: {error}") from None


def _channels_first(array: Array, channels: int, where: str) -> Array:
    if array.ndim == 3 and array.shape[0] == channels:
        return array
    if array.ndim == 3 and array.shape[2] == channels:
        return np.ascontiguousarray(array.transpose(2, 0, 1))
    raise BadSample(f"{where}: an array of shape {list(array.shape)} must have {channels} channels, first or last")


# The official file


def _official(folder: Path, size: tuple[int, int], normals: Path | None) -> Source:
    try:
        import h5py
    except ImportError:
        raise UserError(f'{OFFICIAL} needs the package h5py: pip install "tune-mtl[nyuv2]".') from None

    try:
        file = h5py.File(folder / OFFICIAL, "r")
        images, labels, depths = (file[name] for name in ("images", "labels", "depths"))
    except (OSError, KeyError) as error:
        raise UserError(f"{folder / OFFICIAL} cannot be read: {error}.") from None
    table = class_table(folder)
    indices = _mat(find(folder, ("splits.mat",), "splits"))
    splits = {}
    for split, variable in (("train", "trainNdxs"), ("test", "testNdxs")):
        if variable not in indices:
            raise UserError(f"{folder / 'splits.mat'} has no variable '{variable}'.")
        splits[split] = [int(number) for number in np.ravel(indices[variable])]
        if min(splits[split]) < 1 or max(splits[split]) > len(images):
            raise UserError(f"{folder / 'splits.mat'}: '{variable}' must number images from 1 to {len(images)}.")
    beside = folder / "normals"
    given = normals or (beside if beside.is_dir() else None)
    files = {} if given is None else _normal_files(given, [*splits["train"], *splits["test"]])
    lock = threading.Lock()

    def read(number: int) -> Mapping[str, Array]:
        where = f"{folder / OFFICIAL}, image {number}"
        with lock:  # HDF5 reads one thing at a time
            image, ids, depth = (np.asarray(part[number - 1]) for part in (images, labels, depths))
        image, ids, depth = image.transpose(0, 2, 1), ids.T.astype(np.int64), depth.T.astype(np.float32)
        if ids.max() >= len(table):
            raise BadSample(f"{where} has label {ids.max()}, but the class mapping ends at {len(table) - 1}")
        if not np.isfinite(depth).all():
            raise BadSample(f"{where} has a depth that is no number")
        if files:
            shape = (int(image.shape[1]), int(image.shape[2]))
            surface = decode_rgb(files[number].read_bytes(), str(files[number]), shape).astype(np.float32) / 127.5 - 1.0
        else:
            surface = normals_from_depth(depth)
        return _as_prepared(image, table[ids], depth, surface, size, where)

    origin = f"from {given}" if files else "computed from depth: cross products of neighbouring points"
    return _source(splits, read, size, {"form": OFFICIAL, "normals": origin})


def class_table(folder: Path) -> Array:
    """For each official label id (0 is none): its class from 0, or -1.

    ``class13Mapping.mat`` maps the 40 common classes, to which ``classMapping40.mat`` brings the 894 official ones.

    Raises:
        UserError: if a file is missing or holds no mapping.
    """
    to13 = np.insert(_mapping(find(folder, ("class13Mapping.mat", "classMapping13.mat"), "13-class mapping")), 0, 0)
    forty = folder / "classMapping40.mat"
    if forty.exists():
        to40 = np.insert(_mapping(forty), 0, 0)
        if to40.max() >= len(to13):
            raise UserError(f"{forty} maps to class {to40.max()}, but the 13-class mapping ends at {len(to13) - 1}.")
        to13 = to13[to40]
    if to13.min() < 0 or to13.max() > CLASSES:
        raise UserError(f"the class mapping in {folder} must give 0 (none) to {CLASSES}, got {to13.max()}.")
    return to13 - 1


def _mapping(path: Path) -> Array:
    """The one vector of whole numbers in a MATLAB file, also within a struct."""
    for name, value in _mat(path).items():
        if not name.startswith("__"):
            found = _vector(value)
            if found is not None:
                return found
    raise UserError(f"{path} holds no class mapping: a vector of whole numbers was expected.")


def _vector(value: Any) -> Array | None:
    array = np.asarray(value)
    if array.dtype.names:
        for name in array.dtype.names:
            found = _vector(array[name].flat[0])
            if found is not None:
                return found
        return None
    if array.dtype == object:
        return _vector(array.flat[0]) if array.size == 1 else None
    if np.issubdtype(array.dtype, np.number) and array.size >= CLASSES:
        return array.ravel().astype(np.int64)
    return None


def _mat(path: Path) -> dict[str, Any]:
    try:
        return dict(loadmat(path))
    except (OSError, ValueError, TypeError, NotImplementedError) as error:  # the last: scipy, of MATLAB 7.3 files
        raise UserError(f"{path} cannot be read: {error}.") from None


def _normal_files(folder: Path, numbers: list[int]) -> dict[int, Path]:
    """The PNG of each official number: ``0001.png`` or ``1.png``; numbering from 0 is seen by its ``0000.png``."""
    files = {int(path.stem): path for path in folder.glob("*.png") if path.stem.isdigit()}
    shift = 1 if 0 in files else 0
    missing = [number for number in numbers if number - shift not in files]
    if missing:
        raise UserError(f"{folder} has normals for {len(files)} images, but none for number {missing[0]}.")
    return {number: files[number - shift] for number in numbers}


def normals_from_depth(depth: Array) -> Array:
    """Unit normals ``[3, h, w]`` (x right, y down, z away from the camera) that face the camera; 0 where depth is 0.

    Pixels become points by the camera's focal length; a normal is the cross product of the differences between a
    point's neighbours.
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
    return unit(np.where(depth[None] > 0, facing, 0.0))
