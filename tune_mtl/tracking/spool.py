"""What MLflow is still to be told: on disk first, then delivered in order. No kill and no lost server loses it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tune_mtl.training.checkpoint import replace_atomically

_RECORDS, _MARK = "tracking.jsonl", "tracking.delivered"


class Spool:
    """Records in a file, one JSON line each, and how far they were delivered.

    A record is on disk before ``append`` returns (it survives a kill of the process), and counts as delivered only once
    ``done`` was called: after a kill in between it is delivered again, so deliveries must bear repetition.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._mark = folder / _RECORDS, folder / _MARK
        self._cut_torn_end()
        self._writer = self._path.open("ab")
        self._reader = self._path.open("rb")
        self._delivered = int(self._mark.read_text()) if self._mark.exists() else 0

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep a record (plain values) to be delivered after all that were kept before it."""
        self._writer.write(json.dumps(dict(record)).encode() + b"\n")
        self._writer.flush()

    def next(self) -> dict[str, Any] | None:
        """The first record that was not delivered, or None."""
        self._reader.seek(self._delivered)
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            return None
        self._following = self._delivered + len(line)
        return dict(json.loads(line))

    def done(self) -> None:
        """What ``next`` gave was delivered."""
        self._delivered = self._following
        replace_atomically(self._mark, lambda temporary: temporary.write_text(str(self._delivered)))

    def waiting(self) -> int:
        """How many records were not delivered."""
        self._reader.seek(self._delivered)
        return sum(line.endswith(b"\n") for line in self._reader)

    def close(self) -> None:
        """Let go of the files."""
        self._writer.close()
        self._reader.close()

    def _cut_torn_end(self) -> None:
        """A kill in the middle of a write leaves half a line."""
        if self._path.exists():
            content = self._path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with self._path.open("r+b") as file:
                    file.truncate(whole)
