"""What the writer needs to know of a data set."""

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
        name: Of the prepared set.
        splits: The samples of each split, in the order they will have.
        arrays: What each sample becomes: shape and dtype by name.
        read: Reads one sample; called from several threads.
        counts: What was found, for the manifest.
        notes: What a reader should know, for the manifest.
        warnings: What the user should know now.
    """

    name: str
    splits: Mapping[str, Sequence[Any]]
    arrays: Mapping[str, tuple[tuple[int, ...], str]]
    read: Callable[[Any], Mapping[str, Array]]
    counts: Mapping[str, int]
    notes: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def find(folder: Path, names: Sequence[str], what: str) -> Path:
    """The first of ``names`` that exists in ``folder``.

    Raises:
        UserError: with what was looked for and what is there instead.
    """
    if not folder.is_dir():
        raise UserError(f"--source {folder} is no folder.")
    for name in names:
        if (folder / name).exists():
            return folder / name
    there = sorted(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())
    shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "") or "nothing"
    raise UserError(f"{folder} has no {what} ({' or '.join(names)}); it holds {shown}.")


def parse_size(text: str | None, default: tuple[int, int], multiple: int = 1) -> tuple[int, int]:
    """``HxW`` as two numbers.

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
