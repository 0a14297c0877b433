"""Reference losses that were found before: in this process, and in a small file in the home."""

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import write_json
from tune_mtl.core.nested import Nested, tensors
from tune_mtl.core.process.home import home
from tune_mtl.core.task import Task, select_rows
from tune_mtl.training.references.constant import Labels

FILE = "references.json"
_VERSION = 1
"""To be raised when the same data would give other numbers."""

_found: dict[str, float] = {}
"""What this process has found, by key."""


def key(task: Task, prediction: Nested, labels: list[Labels], fingerprint: str) -> str:
    """Return what decides a task's reference: its name, its loss, the build of its outputs, the data.

    A loss is known by its name and by what it gives for the untrained network's outputs: its name alone would not tell
    ``lambda a, b: 10 * mse_loss(a, b)`` from what it was before.
    """
    said: list[Any] = [_VERSION, task.name, qualified_name(task.loss), fingerprint]
    said += [[tuple(tensor.shape[1:]), str(tensor.dtype)] for tensor in tensors(prediction)]
    said += [part.samples for part in labels]
    said.append(_probe(task, prediction, labels[0]))
    return f"{task.name} {hashlib.sha256(json.dumps(said).encode()).hexdigest()[:24]}"


def _probe(task: Task, prediction: Nested, labels: Labels) -> str:
    """Return the task's loss for a few of the network's outputs against the first labels."""
    rows = min(labels.samples, len(next(tensors(prediction))))
    first = torch.arange(rows)
    return repr(float(task.loss_on(select_rows(prediction, first), select_rows(labels.target, first))))


def qualified_name(function: Callable[..., Any]) -> str:
    """Return module and name of a function; of an object that is called, those of its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def recall(key: str) -> float | None:
    """Return what was found for ``key``, or None; a file that cannot be read, or holds anything else, has nothing."""
    if key not in _found:
        value = _read(home() / FILE).get(key)
        if isinstance(value, float) and math.isfinite(value) and value > 0:
            _found[key] = value
    return _found.get(key)


def remember(key: str, value: float) -> None:
    """Keep ``value`` for this process, and for others where the home exists."""
    _found[key] = value
    save()


def save() -> None:
    """Add what this process has found to the file. A home that is not there is not made, one that is full left be."""
    path = home() / FILE
    if _found and path.parent.is_dir():
        before = _read(path)
        if not before.keys() >= _found.keys():
            with suppress(UserError):
                write_json(path, {**before, **_found})


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
