"""CelebA: 40 attributes of faces, 64x64."""

import csv
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.images import decode_photograph
from tune_mtl.prepare.source import Array, BadSample, Source, content, find, is_number, listed

SIZE = (64, 64)
_SPLITS = {0: "train", 1: "val", 2: "test"}
_IMAGES = ("img_align_celeba", "Img/img_align_celeba", "img_align_celeba.zip", "Img/img_align_celeba.zip")


@dataclass(frozen=True)
class Face:
    """One image and its attributes, as -1 or 1."""

    file: str
    attributes: tuple[int, ...]


def open_celeba(folder: Path, size: tuple[int, int] = SIZE) -> Source:
    """Find images (folder or zip) and both lists (text or csv), as released or in one folder.

    Raises:
        UserError: if something is missing, or lists and images do not match.
    """
    images = find(folder, _IMAGES, "images")
    attributes, rows = read_attributes(_list(folder, "Anno", "list_attr_celeba"))
    parted_by = _list(folder, "Eval", "list_eval_partition")
    partition = read_partition(parted_by)
    store = _Zip(images) if images.suffix == ".zip" else _Folder(images)
    _check_match(set(rows), set(partition), store.names())
    splits: dict[str, list[Face]] = {split: [] for split in _SPLITS.values()}
    for file in sorted(rows):
        splits[_SPLITS[partition[file]]].append(Face(file, rows[file]))
    for number, split in _SPLITS.items():
        if not splits[split]:
            raise UserError(f"{parted_by} leaves split '{split}' empty: no image has a {number} there.")

    def read(face: Face) -> Mapping[str, Array]:
        bits = np.packbits(np.array(face.attributes) > 0)
        return {"images": decode_photograph(store.read(face.file), store.where(face.file), size), "attributes": bits}

    return Source(
        name="celeba",
        splits=splits,
        arrays={
            "images": ((3, *size), "uint8"),
            "attributes": ((-(-len(attributes) // 8),), "uint8"),
        },
        read=read,
        counts={"images": len(rows), **{split: len(items) for split, items in splits.items()}},
        notes={"attributes": attributes, "resized": "bilinear, antialiased", "labels": "bits, first attribute first"},
    )


def _list(folder: Path, release: str, name: str) -> Path:
    names = [f"{place}{name}{ending}" for place in ("", f"{release}/") for ending in (".txt", ".csv")]
    return find(folder, names, f"list '{name}'")


def read_attributes(path: Path) -> tuple[list[str], dict[str, tuple[int, ...]]]:
    """Return the attributes' names, and their values by file, from the released text or its common csv form.

    Raises:
        UserError: naming the first line that cannot be.
    """
    lines = _lines(path)
    if path.suffix == ".csv":
        names, body = lines[0][1:], lines[1:]
    else:
        if len(lines) < 2 or len(lines[0]) != 1 or not is_number(lines[0][0]):
            raise UserError(f"{path} must begin with the number of images and a line of attribute names.")
        names, body = lines[1], lines[2:]
        if len(body) != int(lines[0][0]):
            raise UserError(f"{path} says {lines[0][0]} images, but lists {len(body)}.")
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise UserError(f"{path} names attribute '{twice[0]}' twice: each has a name of its own.")
    rows: dict[str, tuple[int, ...]] = {}
    absent: tuple[str, str] | None = None
    for words in body:
        file, *values = _key(words[0]), *words[1:]
        if len(values) != len(names) or any(value not in ("-1", "1", "0") for value in values):
            raise UserError(f"{path}: the line of '{file}' must have {len(names)} values of -1 or 1.")
        if file in rows:
            raise UserError(f"{path} lists '{file}' twice: each image has one line.")
        for no in {"-1", "0"} & set(values):
            absent = absent or (no, file)
            if no != absent[0]:
                raise UserError(
                    f"{path} has {absent[0]} for '{absent[1]}' and {no} for '{file}': absent is -1 or 0, not both."
                )
        rows[file] = tuple(1 if value == "1" else -1 for value in values)
    return names, rows


def read_partition(path: Path) -> dict[str, int]:
    """Return the split of every file: 0 (train), 1 (val) or 2 (test).

    Raises:
        UserError: naming the first line that cannot be.
    """
    found: dict[str, int] = {}
    lines = _lines(path)
    for words in lines[1:] if path.suffix == ".csv" else lines:
        if len(words) != 2 or words[1] not in ("0", "1", "2"):
            raise UserError(f"{path}: '{' '.join(words)}' must be a file and 0, 1 or 2.")
        file = _key(words[0])
        if file in found:
            raise UserError(f"{path} lists '{file}' twice: each image has one line.")
        found[file] = int(words[1])
    return found


def _key(name: str) -> str:
    """Return a file's name with its ending in small letters: some tools write ``.JPG``."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}{dot}{ending.lower()}"


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file) if path.suffix == ".csv" else (line.split() for line in file)
            lines = [[word.strip() for word in row] for row in rows if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None
    if not lines:
        raise UserError(f"{path} is empty.")
    return lines


def _check_match(rows: set[str], partition: set[str], images: set[str]) -> None:
    for missing, text in (
        (rows - images, "are in the attribute list, but there is no image"),
        (images - rows, "are images without attributes"),
        (rows ^ partition, "are in one of the two lists only"),
    ):
        if missing:
            raise UserError(f"lists and images do not match: {len(missing)} {text}, the first '{min(missing)}'.")


class _Folder:
    """Images as files."""

    def __init__(self, path: Path) -> None:
        nested = path / path.name
        self.path = nested if nested.is_dir() else path
        self._files: dict[str, str] = {}
        for name in (path.name for path in listed(self.path) if path.suffix.lower() in (".jpg", ".png")):
            if _key(name) in self._files:
                raise UserError(f"{self.path} holds '{name}' twice: as {self._files[_key(name)]}, too.")
            self._files[_key(name)] = name

    def names(self) -> set[str]:
        return set(self._files)

    def where(self, file: str) -> str:
        return str(self.path / self._files[file])

    def read(self, file: str) -> bytes:
        return content(self.where(file))


class _Zip:
    """Images in the archive as it was downloaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise UserError(f"{path} cannot be read: {error}.") from None
        self._members: dict[str, str] = {}
        for member in self._archive.namelist():
            name = _key(Path(member).name)
            if name.startswith(".") or not name.lower().endswith((".jpg", ".png")):
                continue
            if name in self._members:
                raise UserError(f"{path} holds '{name}' twice: {self._members[name]} and {member}.")
            self._members[name] = member

    def names(self) -> set[str]:
        return set(self._members)

    def where(self, file: str) -> str:
        return f"{self.path}/{self._members[file]}"

    def read(self, file: str) -> bytes:
        try:
            return self._archive.read(self._members[file])
        except (OSError, zipfile.BadZipFile, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
            raise BadSample(f"{self.where(file)} cannot be read: {error}") from None
