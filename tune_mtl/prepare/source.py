"""What the writer needs to know of a data set, and what all data sets need to find and read theirs."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tune_mtl.core.errors import UserError

Array: TypeAlias = np.ndarray[Any, Any]


class BadSample(Exception):
    """A sample that cannot be used: its file, and why."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set, found and listed but not yet read.

    Attributes:
        name: The name of the prepared set.
        splits: The samples of each split, in the order they will have.
        arrays: What each sample becomes: shape and dtype by name.
        read: Reads one sample; called from several threads.
        counts: What was found, for the manifest.
        notes: What a reader should know, for the manifest.
        warnings: What the user should know now.
        origin: The options of ``tune-mtl prepare`` with which it was opened, for the command that renews the set.
    """

    name: str
    splits: Mapping[str, Sequence[Any]]
    arrays: Mapping[str, tuple[tuple[int, ...], str]]
    read: Callable[[Any], Mapping[str, Array]]
    counts: Mapping[str, int]
    notes: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)


def find(folder: Path, names: Sequence[str], what: str) -> Path:
    """Return the first of ``names`` that exists in ``folder``.

    Raises:
        UserError: with what was looked for and what is there instead.
    """
    try:
        if not folder.is_dir():
            raise UserError(f"--source {folder} is no folder.")
        for name in names:
            if (folder / name).exists():
                return folder / name
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}.") from None
    there = [path.name + ("/" if path.is_dir() else "") for path in listed(folder)]
    shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "") or "nothing"
    raise UserError(f"{folder} has no {what} ({' or '.join(names)}); it holds {shown}.")


def listed(folder: Path, ending: str = "") -> list[Path]:
    """Return what ``folder`` holds, by name, without hidden files (macOS leaves a ``._name`` beside every file).

    Unlike a glob, it does not pass over a folder that may not be read.

    Args:
        folder: The folder to look in.
        ending: The ending of the names that are wanted, in small or capital letters.

    Raises:
        UserError: if the folder cannot be read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}.") from None
    return [folder / name for name in names if not name.startswith(".") and name.lower().endswith(ending.lower())]


def is_number(text: str) -> bool:
    """Return whether ``text`` is a whole number in digits 0 to 9."""
    return text.isascii() and text.isdigit()


def content(path: Path | str) -> bytes:
    """Return what a sample's file holds.

    Raises:
        BadSample: if it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadSample(f"{path} cannot be read: {error.strerror}") from None


def check_same_size(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse parts of a sample that differ in height or width: they do not show the same scene.

    Args:
        shapes: ``[..., height, width]`` of each part, by its file; the first is the image.

    Raises:
        BadSample: naming the two files that differ.
    """
    (image, wanted), *others = ((file, shape[-2:]) for file, shape in shapes.items())
    for file, found in others:
        if found != wanted:
            raise BadSample(f"{file} has {found[0]}x{found[1]} pixels, but {image} has {wanted[0]}x{wanted[1]}")


def parse_size(text: str | None, default: tuple[int, int], multiple: int = 1) -> tuple[int, int]:
    """Return ``HxW`` as two numbers.

    Raises:
        UserError: for anything else, or sides that are not multiples of ``multiple``.
    """
    if text is None:
        return default
    try:
        height, width = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise UserError(f"--size {text!r} must be HEIGHTxWIDTH, such as {default[0]}x{default[1]}.") from None
    if min(height, width) < multiple or height % multiple or width % multiple:
        raise UserError(f"--size {text} must have sides that are multiples of {multiple}: the network halves them.")
    return height, width
