"""Files that are whole or not there: written beside their place, brought to the disk, then put in place at once."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tune_mtl.core.errors import UserError

BEST_WEIGHTS = "best.pt"
"""The file with the weights of a trial's best epoch: in its folder, in its checkpoints, and an artifact of its run."""


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON atomically; undefined numbers (NaN, infinities) become null."""
    text = json.dumps(_finite(content), indent=1, allow_nan=False) + "\n"
    replace_atomically(path, lambda temporary: temporary.write_text(text))


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """Return the JSON object in one of our own files, which holds at least ``keys``.

    Raises:
        UserError: if the file cannot be read, or is damaged: the user has to look at it.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None
    if not isinstance(content, dict) or not content.keys() >= set(keys):
        raise UserError(f"{path} is damaged: it should hold {', '.join(keys) or 'a config'}.")
    return content


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, bring it to the disk, then put it in place.

    Raises:
        UserError: if the file cannot be written; what was there before is intact.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as the latter
        with suppress(OSError):
            temporary.unlink()
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"{path} cannot be written: {reason}. What was there before is intact.") from None


def _finite(value: Any) -> Any:
    """Return ``value`` with None in place of every number that is undefined."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
