"""Checkpoints: written whole or not at all, checked by digest when read, loaded without executing code."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tune_mtl.core.data import Data, MarkedData, TensorData
from tune_mtl.core.errors import UserError
from tune_mtl.core.files import replace_atomically

_FORMAT = 1


def save(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` (tensors and plain values) with its digest; a kill leaves the old file or the new.

    The file is an ordinary one: ``torch.load(path, weights_only=True)["content"]``.
    """

    def write(temporary: Path) -> None:
        torch.save({"format": _FORMAT, "digest": digest(content), "content": content}, temporary)

    replace_atomically(path, write)


def load(path: Path) -> dict[str, Any]:
    """Return the content that was saved, on the CPU.

    Raises:
        UserError: if the file is missing, truncated, altered, of another format, or holds anything but data.
    """
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        content: dict[str, Any] = saved["content"]
        if saved["format"] == _FORMAT and saved["digest"] == digest(content):
            return content
        reason = "its content does not match its digest"
    except FileNotFoundError:
        reason = "there is no such file"
    except Exception as error:  # whatever torch's reader trips over in a file that is no checkpoint of ours
        reason = f"it cannot be read as weights and numbers ({type(error).__name__})"
    raise UserError(f"checkpoint {path} is unusable: {reason}. Nothing was changed; start anew with another --out.")


def digest(content: Any) -> str:
    """Return a fingerprint of nested tensors and plain values."""
    hashed = hashlib.sha256()
    for part in _parts(content):
        hashed.update(part)
    return hashed.hexdigest()


def fingerprint(data: Data) -> str | None:
    """Return what tells the content of ``data`` from that of others; None where only its owner could tell."""
    if isinstance(data, TensorData):
        return digest(tuple(data.everything))[:12]
    return (data.fingerprint or None) if isinstance(data, MarkedData) else None


def _parts(value: Any) -> Iterator[Any]:
    """Yield everything in ``value`` as bytes, in a fixed order, structure included."""
    if isinstance(value, Tensor):
        yield f"T{value.dtype}{tuple(value.shape)}".encode()
        flat = value.detach().cpu().contiguous().flatten()
        if flat.numel():
            yield flat.view(torch.uint8).numpy().data
    elif isinstance(value, dict):
        yield b"{%d" % len(value)
        for key, item in value.items():
            yield repr(key).encode()
            yield from _parts(item)
    elif isinstance(value, list | tuple):
        yield b"[%d" % len(value)
        for item in value:
            yield from _parts(item)
    else:
        yield repr(value).encode()
