"""What MLflow is still to be told: on disk first, then delivered in order. No kill and no lost server loses it."""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import replace_atomically

logger = logging.getLogger(__name__)

_RECORDS, _MARK = "tracking.jsonl", "tracking.delivered"
_MARK_SECONDS = 1.0


class Journal:
    """Records in a file, one JSON line each, and how far they were delivered.

    A record is in the file before ``append`` returns, so it survives a kill of the process, and on the disk before
    ``next`` gives it out, so nothing that MLflow knows is forgotten when a machine is lost. It counts as delivered once
    ``done`` was called; how far that is gets to the disk every second, so after a kill some records are delivered
    again: deliveries must bear repetition. While the disk is full, records wait in memory. One thread may append while
    another delivers.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._mark = folder / _RECORDS, folder / _MARK
        self._cut_torn_end()
        self._writer = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._reader = self._path.open("rb")
        self._size = self._path.stat().st_size
        self._synced = 0
        self._unwritten: list[bytes] = []
        self._delivered = int(self._mark.read_text()) if self._mark.exists() else 0
        self._marked_at = 0.0

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep a record (plain values) to be delivered after all that were kept before it."""
        self._unwritten.append(json.dumps(dict(record)).encode() + b"\n")
        self._write()

    def _write(self) -> None:
        while self._unwritten:
            line = self._unwritten[0]
            try:
                written = os.write(self._writer, line)
                if written < len(line):
                    raise OSError(f"only {written} of {len(line)} bytes were written")
            except OSError as error:
                with suppress(OSError):
                    os.ftruncate(self._writer, self._size)
                logger.warning("%s cannot be written (%s); %d records wait", self._path, error, len(self._unwritten))
                return
            self._size += len(line)
            self._unwritten.pop(0)

    def next(self) -> dict[str, Any] | None:
        """Return the first record that was not delivered, or None."""
        self._reader.seek(self._delivered)
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            self._keep_mark()
            return None
        self._following = self._delivered + len(line)
        if self._following > self._synced:
            size = self._size
            os.fdatasync(self._writer)
            self._synced = max(size, self._following)
        return dict(json.loads(line))

    def done(self) -> None:
        """Note that what ``next`` gave was delivered."""
        self._delivered = self._following
        if time.monotonic() - self._marked_at >= _MARK_SECONDS:
            self._keep_mark()

    def _keep_mark(self) -> None:
        with suppress(UserError):  # a full disk: what is not marked is delivered once more
            if not self._mark.exists() or self._mark.read_text() != str(self._delivered):
                replace_atomically(self._mark, lambda temporary: temporary.write_text(str(self._delivered)))
        self._marked_at = time.monotonic()

    def waiting(self) -> int:
        """Return how many records were not delivered."""
        with self._path.open("rb") as file:
            file.seek(self._delivered)
            return sum(line.endswith(b"\n") for line in file) + len(self._unwritten)

    def close(self) -> None:
        """Let go of the files."""
        self._write()
        self._keep_mark()
        os.close(self._writer)
        self._reader.close()

    def _cut_torn_end(self) -> None:
        """Cut off the half line that a kill in the middle of a write leaves."""
        if self._path.exists():
            whole = sum(map(len, _whole_lines(self._path)))
            if whole < self._path.stat().st_size:
                os.truncate(self._path, whole)


def read_journal(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield everything that was ever kept in ``folder``, delivered or not, in order."""
    path = folder / _RECORDS
    if path.exists():
        for line in _whole_lines(path):
            yield dict(json.loads(line))


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line
