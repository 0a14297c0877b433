"""NYUv2: 13-class segmentation, depth and surface normals of indoor scenes, 288x384."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.images import bilinear, nearest, unit
from tune_mtl.prepare.matlab import read_mat, whole_numbers
from tune_mtl.prepare.normals import normal_files, normals_from_depth, read_normals
from tune_mtl.prepare.source import Array, BadSample, Source, check_same_size, find, is_number, listed

SIZE = (288, 384)
CLASSES = 13
UNLABELLED = 255
OFFICIAL = "nyu_depth_v2_labeled.mat"
_FARTHEST = 100.0
"""Metres: ten times as far as the camera sees."""
_OFF = 0.1
"""How far a vector's length may be from 1."""
_NPY_SPLITS = {"train": "train", "test": "val"}
"""Ours, and the folder that holds it: the pre-processed layout calls the official test split `val`."""


def open_nyuv2(folder: Path, size: tuple[int, int] = SIZE, normals: Path | None = None) -> Source:
    """Return the official file where there is one, else the pre-processed ``.npy`` layout.

    Args:
        folder: Holds ``nyu_depth_v2_labeled.mat``, ``splits.mat`` and ``class13Mapping.mat`` (with
            ``classMapping40.mat``), or ``train`` and ``val``.
        size: The size of the prepared images.
        normals: A folder of PNGs named by the official number, or with such folders ``train`` and ``test``; default:
            ``normals`` beside the official file, else normals are computed from depth.

    Raises:
        UserError: if something is missing or does not match.
    """
    found = find(folder, (OFFICIAL, "train"), "data")
    if found.name == OFFICIAL:
        return _official(folder, size, normals)
    if normals is not None:
        raise UserError(f"--normals {normals} belongs to {OFFICIAL}; {folder} brings its own in */normal.")
    return _preprocessed(folder, size)


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
            "unknown_normals": "0, 0, 0",
            "resized": "images bilinear, antialiased; labels, depth and normals nearest, centred",
            **notes,
        },
    )


@dataclass(frozen=True)
class _Scene:
    """One scene, not yet checked.

    Attributes:
        image: uint8 ``[3, h, w]``.
        labels: The classes from 0, or -1 (unlabelled), ``[h, w]``.
        depth: Metres, 0 is unknown, ``[h, w]``.
        normals: ``[3, h, w]``, zeros are unknown.
        files: Where image, labels, depth and normals come from, in this order.
    """

    image: Array
    labels: Array
    depth: Array
    normals: Array
    files: tuple[str, str, str, str]


def _as_prepared(scene: _Scene, size: tuple[int, int]) -> dict[str, Array]:
    """Return the scene, checked and resized."""
    image, labels, depth, normals = scene.image, scene.labels, scene.depth, scene.normals
    _, of_labels, of_depth, of_normals = scene.files
    if labels.ndim != 2:
        raise BadSample(
            f"{of_labels} has labels of shape {list(labels.shape)}, but they are one map of class numbers, [h, w]:"
            " of one-hot labels take the argmax"
        )
    if depth.ndim != 2:
        raise BadSample(f"{of_depth} has a depth of shape {list(depth.shape)}, but it is one map, [h, w]")
    named = zip(scene.files, (image, labels, depth, normals), strict=True)
    check_same_size({file: array.shape for file, array in named})
    if not np.isfinite(labels).all() or (labels != np.rint(labels)).any():
        wrong = labels[~np.isfinite(labels) | (labels != np.rint(labels))].flat[0]
        raise BadSample(f"{of_labels} has label {wrong:g}, but labels are whole numbers from -1 to {CLASSES - 1}")
    if labels.min() < -1 or labels.max() >= CLASSES:
        wrong = labels[(labels < -1) | (labels >= CLASSES)].flat[0]
        raise BadSample(f"{of_labels} has label {int(wrong)}, but labels go from -1 to {CLASSES - 1}")
    if not np.isfinite(depth).all() or (depth < 0).any():
        raise BadSample(f"{of_depth} has a depth that is negative or no number")
    if depth.max() > _FARTHEST:
        raise BadSample(f"{of_depth} has a depth of {depth.max():g}, but depth is in metres: are these millimetres?")
    if not np.isfinite(normals).all():
        raise BadSample(f"{of_normals} has a normal that is no number")
    if _encoded(normals):
        raise BadSample(
            f"{of_normals} has normals without a negative number and not of length 1, but they are vectors:"
            " are these encoded as (n + 1) / 2?"
        )
    return {
        "images": bilinear(torch.from_numpy(np.ascontiguousarray(image)), size).numpy(),
        "labels": nearest(np.where(labels < 0, UNLABELLED, labels).astype(np.uint8), size),
        "depth": nearest(depth, size).astype(np.float16),
        "normals": unit(nearest(normals, size)).astype(np.float16),
    }


def _encoded(normals: Array) -> bool:
    """Return whether these look like an image of normals instead: no side faces back, and no vector has its length."""
    lengths = np.linalg.norm(normals.astype(np.float32), axis=0)
    return bool(normals.min() >= 0 and (np.abs(lengths[lengths > 0] - 1.0) > _OFF).any())


# The pre-processed layout


@dataclass(frozen=True)
class _Numbered:
    folder: str
    stem: str

    def file(self, part: str) -> str:
        """Return the path of ``image``, ``label``, ``depth`` or ``normal``."""
        return str(Path(self.folder, part, f"{self.stem}.npy"))


def _preprocessed(folder: Path, size: tuple[int, int]) -> Source:
    splits: dict[str, list[_Numbered]] = {}
    for split, name in _NPY_SPLITS.items():
        place = find(folder, (name,), f"split '{name}'")
        numbers = {}
        for part in ("image", "label", "depth", "normal"):
            inside = find(place, (part,), f"folder '{part}'")
            numbers[part] = {path.stem for path in listed(inside, ".npy")}
        for part, found in numbers.items():
            if found != numbers["image"]:
                other = min(found ^ numbers["image"])
                raise UserError(f"{place}: image and {part} do not match, for one in '{other}.npy'.")
        stems = sorted(numbers["image"])
        if not stems or not all(map(is_number, stems)):
            raise UserError(f"{place / 'image'} must hold numbered files: 0.npy, 1.npy, ...")
        twice = [number for number, times in Counter(map(int, stems)).items() if times > 1]
        if twice:
            raise UserError(f"{place / 'image'} has two files of number {twice[0]}: each scene has one.")
        splits[split] = [_Numbered(str(place), stem) for stem in sorted(stems, key=int)]

    def read(item: _Numbered) -> Mapping[str, Array]:
        files = (item.file("image"), item.file("label"), item.file("depth"), item.file("normal"))
        image, labels, depth, normals = map(_load, files)
        scene = _Scene(
            _bytes_of(_channels_first(image, 3, files[0]), files[0]),
            np.squeeze(labels),
            np.squeeze(depth),
            _channels_first(normals, 3, files[3]),
            files,
        )
        return _as_prepared(scene, size)

    return _source(splits, read, size, {"form": "pre-processed .npy files", "normals": "as given"})


def _load(path: str) -> Array:
    try:
        array = np.asarray(np.load(path))
    except Exception as error:  # damaged headers give errors of many kinds
        raise BadSample(f"{path} cannot be read: {error}") from None
    if array.dtype.kind not in "iuf" or not array.size:
        raise BadSample(f"{path} holds {array.dtype}{list(array.shape)}, but numbers were expected")
    return array


def _bytes_of(image: Array, where: str) -> Array:
    """Return an image of any type of number as uint8; fractions up to 1 are taken as [0, 1]."""
    if image.dtype == np.uint8:
        return image
    if not np.isfinite(image).all() or image.min() < 0 or image.max() > 255:
        raise BadSample(
            f"{where} has values from {image.min():g} to {image.max():g}, but images go from 0 to 1 or from 0 to 255"
        )
    scale = 255.0 if image.dtype.kind == "f" and image.max() <= 1.0 else 1.0
    return np.rint(image * scale).astype(np.uint8)


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
        shapes = [list(part.shape) for part in (images, labels, depths)]
    except (OSError, KeyError, AttributeError) as error:  # the last: of a group, which has no shape
        raise UserError(f"{folder / OFFICIAL} cannot be read: {error}.") from None
    if len(shapes[0]) != 4 or shapes[0][1] != 3 or any(other != shapes[0][:1] + shapes[0][2:] for other in shapes[1:]):
        raise UserError(
            f"{folder / OFFICIAL} has images of shape {shapes[0]}, labels of {shapes[1]} and depths of {shapes[2]}, but"
            " they must be [n, 3, width, height] and twice [n, width, height], as in the official file."
        )
    table = class_table(folder)
    splits = official_splits(folder, len(images))
    beside = folder / "normals"
    given = normals or (beside if beside.is_dir() else None)
    files = {} if given is None else normal_files(given, splits)
    lock = threading.Lock()

    def read(number: int) -> Mapping[str, Array]:
        where = f"{folder / OFFICIAL}, image {number}"
        with lock:  # HDF5 reads one thing at a time
            image, ids, depth = (np.asarray(part[number - 1]) for part in (images, labels, depths))
        image, depth = _bytes_of(image.transpose(0, 2, 1), where), depth.T.astype(np.float32)
        if ids.dtype.kind == "f" and (ids != np.rint(ids)).any():  # so are those that are no number
            raise BadSample(f"{where} has labels that are no whole numbers")
        ids = ids.T.astype(np.int64)
        if ids.min() < 0 or ids.max() >= len(table):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise BadSample(f"{where} has label {wrong}, but the class mapping goes from 0 to {len(table) - 1}")
        if not np.isfinite(depth).all():
            raise BadSample(f"{where} has a depth that is no number")
        surface = read_normals(files[number]) if files else normals_from_depth(depth)
        of_normals = str(files[number]) if files else f"{where} (normals)"
        named = (where, f"{where} (labels)", f"{where} (depth)", of_normals)
        return _as_prepared(_Scene(image, table[ids], depth, surface, named), size)

    origin = f"from {given}" if files else "computed from depth: cross products of neighbouring points"
    return _source(splits, read, size, {"form": OFFICIAL, "normals": origin})


def official_splits(folder: Path, count: int) -> dict[str, list[int]]:
    """Return the numbers, from 1, of the images in each split, by ``splits.mat``.

    Args:
        folder: That holds it.
        count: How many images there are.

    Raises:
        UserError: if it does not give each split numbers of its own.
    """
    path = find(folder, ("splits.mat",), "splits")
    indices, splits = read_mat(path), {}
    for split, variable in (("train", "trainNdxs"), ("test", "testNdxs")):
        if variable not in indices:
            raise UserError(f"{path} has no variable '{variable}'.")
        numbers = whole_numbers(indices[variable])
        if numbers is not None and not len(numbers):
            raise UserError(f"{path} leaves split '{split}' empty: '{variable}' has no numbers.")
        if numbers is None or numbers.min() < 1 or numbers.max() > count:
            raise UserError(f"{path}: '{variable}' must number images from 1 to {count}.")
        splits[split] = [int(number) for number in numbers]
    twice = [number for number, times in Counter([*splits["train"], *splits["test"]]).items() if times > 1]
    if twice:
        raise UserError(f"{path} lists image {twice[0]} twice: each is in one split, once.")
    return splits


def class_table(folder: Path) -> Array:
    """Return the class of each official label id (0 is none): from 0, or -1.

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
        wrong = to13.min() if to13.min() < 0 else to13.max()
        raise UserError(f"the class mapping in {folder} must give 0 (none) to {CLASSES}, got {wrong}.")
    return to13 - 1


def _mapping(path: Path) -> Array:
    """Return the one vector of whole numbers in a MATLAB file, also within a struct."""
    for name, value in read_mat(path).items():
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
    return whole_numbers(array) if array.size >= CLASSES else None
