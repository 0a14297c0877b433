"""Writes a prepared set: in parallel, resumable after a kill, whole or not at all."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tune_mtl.core.errors import UserError
from tune_mtl.prepare.prepared_set import MANIFEST, VERSION, ArrayInfo, Manifest, checksum, version_in
from tune_mtl.prepare.source import Array, BadSample, Source

_CHUNK = 64
_PLAN, _DONE = "plan.json", "done"
_MARGIN = 2**26


@dataclass(frozen=True)
class _Chunk:
    """Consecutive samples of a split."""

    split: str
    start: int
    items: Sequence[Any]

    @property
    def name(self) -> str:
        return f"{self.split}-{self.start}"


def prepare(
    source: Source,
    out: Path,
    *,
    workers: int,
    skip_bad: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Write ``source`` to ``out / source.name``; goes on with what a killed run left, and replaces an older layout.

    Args:
        source: What to read.
        out: The folder of prepared sets.
        workers: Threads that decode.
        skip_bad: Leave out samples that cannot be read, and list them, instead of stopping.
        on_progress: Called with samples done and samples in all.

    Raises:
        UserError: for a set that exists, a bad sample, or too little disk space; nothing is published then.
    """
    target, partial = out / source.name, out / f"{source.name}.partial"
    if target.exists() and version_in(target) in (None, VERSION):
        raise UserError(f"{target} exists already: remove it to prepare {source.name} again, or choose another --out.")
    writer = _Writer(source, partial, skip_bad=skip_bad)
    writer.begin()
    writer.write(workers, on_progress)
    manifest = writer.finish()
    if target.exists():  # of an older layout, which nothing reads any more
        older = out / f"{source.name}.older"
        shutil.rmtree(older, ignore_errors=True)
        target.rename(older)
        partial.rename(target)
        shutil.rmtree(older, ignore_errors=True)
    else:
        partial.rename(target)
    return manifest


class _Writer:
    """A set on its way: arrays of their full size, and a mark for each chunk that is in them."""

    def __init__(self, source: Source, folder: Path, *, skip_bad: bool) -> None:
        self.source, self.folder, self.skip_bad = source, folder, skip_bad

    def begin(self) -> None:
        """Make the arrays, or keep those of a run that was killed while preparing the same samples."""
        plan = {
            "tool": _tool(),
            "version": VERSION,
            "samples": _fingerprint(self.source),
            "arrays": _plain(self.source.arrays),
        }
        try:
            if self.folder.exists() and not (_read(self.folder / _PLAN) == plan and self._whole()):
                shutil.rmtree(self.folder) if self.folder.is_dir() else self.folder.unlink()
            if not self.folder.exists():
                self._check_disk()
                (self.folder / _DONE).mkdir(parents=True)
                for split, items in self.source.splits.items():
                    for name, (shape, dtype) in self.source.arrays.items():
                        np.lib.format.open_memmap(
                            self._file(split, name), mode="w+", dtype=np.dtype(dtype), shape=(len(items), *shape)
                        )
                (self.folder / _PLAN).write_text(json.dumps(plan))
        except OSError as error:
            raise UserError(f"{self.folder.parent} cannot be written: {error.strerror}. Give --out.") from None

    def _whole(self) -> bool:
        """Return whether every array of an earlier run is there in full: mapping a short one would fill it up."""
        if not (self.folder / _DONE).is_dir():
            return False
        for split, items in self.source.splits.items():
            for name, (shape, dtype) in self.source.arrays.items() if len(items) else ():
                try:
                    array = np.load(self._file(split, name), mmap_mode="r")
                except (OSError, ValueError, EOFError):
                    return False
                if array.shape != (len(items), *shape) or array.dtype != dtype:
                    return False
        return True

    def _check_disk(self) -> None:
        samples = sum(len(items) for items in self.source.splits.values())
        each = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self.source.arrays.values())
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        needed, free = samples * each + _MARGIN, shutil.disk_usage(self.folder.parent).free
        if needed > free:
            raise UserError(
                f"{self.source.name} needs {needed / 2**30:.1f} GiB in {self.folder.parent}, but only"
                f" {free / 2**30:.1f} GiB are free. Give --out."
            )

    def write(self, workers: int, on_progress: Callable[[int, int], None] | None) -> None:
        """Read all chunks that are not done."""
        arrays = {
            (split, name): np.load(self._file(split, name), mmap_mode="r+")
            for split in self.source.splits
            for name in self.source.arrays
            if len(self.source.splits[split])
        }
        chunks = list(_chunks(self.source))
        total = sum(len(chunk.items) for chunk in chunks)
        due = [chunk for chunk in chunks if _read(self.folder / _DONE / chunk.name) is None]
        done = total - sum(len(chunk.items) for chunk in due)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(workers, thread_name_prefix="tune-mtl-prepare") as pool:
                futures = [pool.submit(self._write_chunk, chunk, arrays) for chunk in due]
                try:
                    for chunk, future in zip(due, futures, strict=True):
                        future.result()
                        done += len(chunk.items)
                        if on_progress is not None:
                            on_progress(done, total)
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
        except BadSample as error:
            ending = "" if str(error).endswith(("?", ".")) else "."
            raise UserError(f"{error}{ending} Nothing was published; --skip-bad leaves such samples out.") from None
        finally:
            torch.set_num_threads(threads)

    def _write_chunk(self, chunk: _Chunk, arrays: dict[tuple[str, str], Array]) -> None:
        bad = []
        for index, item in enumerate(chunk.items, chunk.start):
            try:
                for name, value in self.source.read(item).items():
                    arrays[chunk.split, name][index] = value
            except BadSample as error:
                if not self.skip_bad:
                    raise
                bad.append([index, str(error)])
        for name in self.source.arrays:
            arrays[chunk.split, name].flush()  # type: ignore[attr-defined]
        _write_atomically(self.folder / _DONE / chunk.name, json.dumps(bad))

    def finish(self) -> Manifest:
        """Take out what is bad, sum everything up."""
        bad: dict[str, dict[int, str]] = {split: {} for split in self.source.splits}
        for chunk in _chunks(self.source):
            bad[chunk.split] |= dict(json.loads((self.folder / _DONE / chunk.name).read_text()))
        for split, items in self.source.splits.items():
            if len(bad[split]) == len(items):
                why = next(iter(bad[split].values()), "there are no samples")
                raise UserError(f"split '{split}' of {self.source.name} would be empty: {why}. Nothing was published.")
            if bad[split]:
                kept = np.array([index for index in range(len(items)) if index not in bad[split]], dtype=np.int64)
                for name in self.source.arrays:
                    self._compact(self._file(split, name), kept, len(items))
        manifest = Manifest(
            name=self.source.name,
            version=VERSION,
            tool=_tool(),
            splits={
                split: {name: self._info(split, name) for name in self.source.arrays} for split in self.source.splits
            },
            source=dict(self.source.counts),
            skipped=tuple(reason for reasons in bad.values() for reason in reasons.values()),
            notes=dict(self.source.notes),
            origin=dict(self.source.origin),
        )
        manifest.write(self.folder)
        for leftover in (self.folder / _DONE, self.folder / _PLAN):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        return manifest

    def _compact(self, path: Path, kept: Array, before: int) -> None:
        old = np.load(path, mmap_mode="r")
        if len(old) != before:
            return
        smaller = path.with_suffix(".smaller")
        new = np.lib.format.open_memmap(smaller, mode="w+", dtype=old.dtype, shape=(len(kept), *old.shape[1:]))
        for start in range(0, len(kept), _CHUNK):
            new[start : start + _CHUNK] = old[kept[start : start + _CHUNK]]
        new.flush()
        smaller.replace(path)

    def _info(self, split: str, name: str) -> ArrayInfo:
        path = self._file(split, name)
        array = np.load(path, mmap_mode="r")
        return ArrayInfo(path.name, array.shape, str(array.dtype), checksum(path))

    def _file(self, split: str, name: str) -> Path:
        return self.folder / f"{split}_{name}.npy"


def _chunks(source: Source) -> Iterator[_Chunk]:
    for split, items in source.splits.items():
        for start in range(0, len(items), _CHUNK):
            yield _Chunk(split, start, items[start : start + _CHUNK])


def _fingerprint(source: Source) -> str:
    """Return what tells one list of samples from another."""
    found = sha256()
    for split, items in source.splits.items():
        found.update(split.encode())
        for item in items:
            found.update(repr(item).encode())
    return found.hexdigest()


def _tool() -> str:
    return f"tune_mtl {metadata.version('tune-mtl')}"


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _write_atomically(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(text)
    partial.replace(path)


__all__ = ["MANIFEST", "prepare"]
