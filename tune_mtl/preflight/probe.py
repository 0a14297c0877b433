"""What a node of a cluster sees: versions, the storage, disks, data, GPUs. Facts only; `doctor` judges them.

This file is shipped to nodes by value, since a node may have another tune_mtl than the driver, or none: it imports the
standard library alone, and what nodes send back are plain dicts.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OURS = ("tune_mtl", "trainables", "search_spaces")
TOKEN = "driver"
"""The file that the driver leaves for nodes to find."""
_PATIENCE_SECONDS = 2.0
"""A network file system may show a new file only after a moment."""
_GPU_SECONDS = 60
_LIST_GPUS = """
import json, torch
gpus = [[torch.cuda.get_device_name(i), *torch.cuda.mem_get_info(i)] for i in range(torch.cuda.device_count())]
print(json.dumps({"cuda": torch.version.cuda, "gpus": gpus}))
"""


def look(
    packages: Sequence[str],
    storage: str,
    token: str | None,
    name: str,
    files: Sequence[tuple[str, int | None, str | None]],
    gpus: bool,
    modules: tuple[str, Sequence[str], bool] = ("", (), False),
) -> dict[str, Any]:
    """Return all facts of the node that runs this.

    Args:
        packages: Whose versions.
        storage: The folder that holds ``token``'s file; its disk is looked at in any case.
        token: What the driver has written there; None to leave the storage alone.
        name: The name of the file that this node writes beside it.
        files: The files of prepared data: path, bytes and SHA-256; None where that is not to be compared.
        gpus: Whether to ask torch for GPUs, which takes seconds.
        modules: The folder of the user's modules on the driver, those that trials import, and whether the driver has
            imported them on this machine.
    """
    temp = _ray_temp()
    return {
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
        "code": code(),
        "storage": None if token is None else exchange(storage, token, name),
        "storage_disk": disk(storage),
        "temp": temp,
        "temp_disk": disk(temp),
        "data": data_problems(files),
        "gpus": find_gpus() if gpus else None,
        "modules": import_problems(*modules),
    }


def version(package: str) -> str | None:
    """Return the version that is installed; None if the package is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def code() -> str | None:
    """Return a digest of our own source, which tells states of one version apart; None if a package is not there."""
    found = hashlib.sha256()
    for package in OURS:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            return None
        root = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(root.rglob("*.py")):
            found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def exchange(storage: str, token: str, name: str) -> tuple[str, str] | None:
    """Find the driver's file in ``storage`` and leave one called ``name``; else what failed (see or write) and why."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            if Path(storage, TOKEN).read_bytes().rstrip(b"\0") == token.encode():
                break
            return "see", "something else is where the driver wrote"
        except OSError as error:
            if time.monotonic() > deadline:
                return "see", f"what the driver wrote is not found ({reason(error)})"
            time.sleep(0.1)
    try:
        write(Path(storage, name), token.encode())
    except OSError as error:
        return "write", reason(error)
    return None


def write(path: Path, content: bytes) -> None:
    """Write a file, which is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def disk(folder: str) -> tuple[int, int] | None:
    """Return the bytes free for us and in all where ``folder`` is or will be; None if nobody can tell."""
    path = Path(folder)
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def data_problems(files: Sequence[tuple[str, int | None, str | None]]) -> list[str]:
    """Return what is wrong with files of prepared data, a sentence each."""
    wrong = []
    for name, size, sha256 in files:
        path = Path(name)
        try:
            with path.open("rb") as file:
                file.read(1)
                found = os.fstat(file.fileno()).st_size
                file.seek(0)
                if size is not None and found != size:
                    wrong.append(f"{path} has {found} bytes, not {size}")
                elif sha256 is not None and hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    wrong.append(f"{path} is not what was prepared: its checksum differs")
        except FileNotFoundError:
            wrong.append(f"{path} is missing")
        except OSError as error:
            wrong.append(f"{path} cannot be read: {reason(error)}")
    return wrong


def import_problems(directory: str, modules: Sequence[str], imported: bool) -> list[str]:
    """Return which of ``modules`` do not import here, and why, a sentence each.

    What was ``imported`` on this machine already need only be found: to import it loads torch, which takes seconds.
    """
    if modules and directory not in sys.path:
        sys.path.insert(0, directory)
    wrong = []
    for module in modules:
        try:
            if not imported:
                importlib.import_module(module)
            elif importlib.util.find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}")
        except (Exception, SystemExit) as error:
            wrong.append(f"module '{module}' does not import: {reason(error)}")
    return wrong


def find_gpus() -> dict[str, Any]:
    """Return torch's GPUs as ``[name, bytes free, bytes in all]``; another process asks, since asking takes memory."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LIST_GPUS], capture_output=True, text=True, timeout=_GPU_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": reason(error), "gpus": []}
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1], "gpus": []}
    return {"error": None, **json.loads(done.stdout.splitlines()[-1])}


def reason(error: BaseException) -> str:
    """Return an error in a few words, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _ray_temp() -> str:
    import ray

    if ray.is_initialized():  # else to ask would start or join a Ray
        return str(ray.get_runtime_context().get_temp_dir())
    return str(Path(tempfile.gettempdir(), "ray"))
