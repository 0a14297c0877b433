"""A prepared data set on disk: arrays that are mapped into memory, and a manifest that says what they are.

A set is whole or it is not there: it is written under another name and renamed when its manifest is complete.
"""

import hashlib
import json
import mmap
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tune_mtl.core.data import Batch
from tune_mtl.core.errors import UserError

MANIFEST = "manifest.json"
VERSION = 2
"""The version of the layout and of what arrays mean. In 2, labels, depth, normals are resized about pixel centres."""
_BLOCK = 2**24


@dataclass(frozen=True)
class ArrayInfo:
    """One array of one split: ``[samples, *shape]`` in a ``.npy`` file."""

    file: str
    shape: tuple[int, ...]
    dtype: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a prepared set holds and where it comes from.

    Attributes:
        name: The name of the data set.
        version: The version of this layout.
        tool: What prepared it.
        splits: Arrays by split and name.
        source: Counts of what was found.
        skipped: Samples left out, each with the reason.
        notes: What else a reader should know.
        origin: The options of ``tune-mtl prepare`` with which it was made, besides ``out``.
    """

    name: str
    version: int
    tool: str
    splits: Mapping[str, Mapping[str, ArrayInfo]]
    source: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the manifest as JSON, whole or not at all."""
        partial = folder / f"{MANIFEST}.partial"
        partial.write_text(json.dumps(asdict(self), indent=1))
        partial.replace(folder / MANIFEST)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a prepared set's folder.

        Raises:
            UserError: if there is none, or it is of another version or damaged.
        """
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_text())
            version = int(content["version"])
            if version != VERSION:
                raise UserError(
                    f"{folder} was prepared in layout {version}, but this version of tune-mtl reads {VERSION}:"
                    f" {_renewal(folder, content)}"
                )
            splits = {
                split: {name: ArrayInfo(**{**info, "shape": tuple(info["shape"])}) for name, info in arrays.items()}
                for split, arrays in content.pop("splits").items()
            }
            return cls(splits=splits, **{**content, "skipped": tuple(content.get("skipped", ()))})
        except FileNotFoundError:
            raise UserError(f"{folder} is no prepared data set: it has no {MANIFEST}.") from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(f"{path} is damaged ({error}): prepare the set again.") from None


def version_in(folder: Path) -> int | None:
    """Return the layout of the prepared set in ``folder``, or None if there is none that can be read."""
    try:
        return int(json.loads((folder / MANIFEST).read_text())["version"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _renewal(folder: Path, content: Mapping[str, Any]) -> str:
    """Return the sentence with the command that makes a set of another layout anew, as far as its manifest says how."""
    name, origin = str(content.get("name", folder.name)), dict(content.get("origin") or {})
    words = ["tune-mtl", "prepare", name, "--source", origin.pop("source", "DIR"), "--out", str(folder.parent)]
    try:
        height, width = next(iter(content["splits"].values()))["images"]["shape"][-2:]
        origin.setdefault("size", f"{height}x{width}")
    except (LookupError, StopIteration, TypeError, ValueError):
        pass
    for option, value in origin.items():
        words += [f"--{option}", value]
    where = ", where DIR is the folder of the original files" if "DIR" in words else ""
    return f"renew it with `{shlex.join(words)}`{where}."


class PreparedSet:
    """A prepared set, opened: ``arrays(split)`` are maps of its files, shared by all processes that read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = Manifest.read(folder)

    def arrays(self, split: str) -> dict[str, "np.ndarray[Any, Any]"]:
        """Return the arrays of a split as memory maps, by name.

        Raises:
            UserError: if a file is missing or not as the manifest says, or arrays differ in length.
        """
        found = {}
        for name, info in self.manifest.splits[split].items():
            try:
                array = np.load(self.folder / info.file, mmap_mode="r")
                held = array.dtype, list(array.shape)
            except Exception as error:  # damaged headers give errors of many kinds
                raise UserError(f"{self.folder / info.file} cannot be read ({error}): prepare the set again.") from None
            if array.shape != info.shape or str(array.dtype) != info.dtype:
                raise UserError(
                    f"{self.folder / info.file} holds {held[0]}{held[1]}, but the manifest says"
                    f" {info.dtype}{list(info.shape)}: prepare the set again."
                )
            found[name] = array
        if len({len(array) for array in found.values()}) > 1:
            raise self.damaged(f"the arrays of split '{split}' differ in length")
        return found

    def require(self, splits: Iterable[str], arrays: Iterable[str], notes: Iterable[str]) -> None:
        """Refuse a set that lacks any of these; all files are opened.

        Raises:
            UserError: naming the first that is missing, or wrong.
        """
        for split in splits:
            if split not in self.manifest.splits:
                raise self.damaged(f"it has no split '{split}'")
            there = self.arrays(split)
            for name in arrays:
                if name not in there:
                    raise self.damaged(f"split '{split}' has no array '{name}'")
        for note in notes:
            if not isinstance(self.manifest.notes, Mapping) or note not in self.manifest.notes:
                raise self.damaged(f"it has no note '{note}'")

    def damaged(self, how: str) -> UserError:
        """Return what to raise where the manifest says what cannot be."""
        return UserError(f"{self.folder / MANIFEST} is damaged ({how}): prepare the set again.")

    def problems(self) -> list[str]:
        """Return what is wrong with its files, compared with their checksums; empty if nothing is."""
        wrong = []
        for arrays in self.manifest.splits.values():
            for info in arrays.values():
                path = self.folder / info.file
                if not path.exists():
                    wrong.append(f"{path} is missing")
                elif checksum(path) != info.sha256:
                    wrong.append(f"{path} is not what was prepared: its checksum differs")
        return wrong


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def data_folder(given: str | None = None) -> Path:
    """Return where prepared sets are: the given folder, else ``TUNE_MTL_DATA``, else ``data`` here."""
    return Path(given or os.environ.get("TUNE_MTL_DATA", "data")).absolute()


def open_prepared(name: str, given: str | None = None) -> PreparedSet:
    """Return the prepared set ``name``, in the folder of sets or given itself.

    Raises:
        UserError: if it is not there, with the command that prepares it.
    """
    folder = data_folder(given)
    if not (folder / MANIFEST).exists():
        folder = folder / name
    if not (folder / MANIFEST).exists():
        raise UserError(
            f"there is no prepared {name} in {folder.parent}: tune-mtl prepare {name} --source DIR --out"
            f" {folder.parent}, or say where it is with TUNE_MTL_DATA or --data."
        )
    found = PreparedSet(folder)
    if found.manifest.name != name:
        raise UserError(f"{folder} holds '{found.manifest.name}', not {name}.")
    return found


class MappedData:
    """Some rows of memory-mapped arrays; a batch is one gather per array.

    Args:
        arrays: The arrays by name; ``images`` are the inputs, all others targets.
        rows: Which of them, in order (None: all).
        fingerprint: Tells these data from others.
    """

    def __init__(
        self,
        arrays: Mapping[str, "np.ndarray[Any, Any]"],
        rows: "np.ndarray[Any, np.dtype[np.int64]] | None" = None,
        fingerprint: str = "",
    ) -> None:
        self.arrays, self.fingerprint = dict(arrays), fingerprint
        length = len(next(iter(self.arrays.values())))
        self.rows = np.arange(length) if rows is None else rows
        for array in self.arrays.values():
            _read_at_random(array)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Tensor) -> Batch:
        """Return the samples at ``indices``, as stored; the problem's ``to_device`` makes them what networks take."""
        chosen = self.rows[indices.numpy()]
        gathered = {name: torch.from_numpy(array[chosen]) for name, array in self.arrays.items()}
        return Batch(gathered.pop("images"), gathered)


def _read_at_random(array: "np.ndarray[Any, Any]") -> None:
    """Tell the kernel that rows come in any order: reading ahead would only waste memory."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_RANDOM)
