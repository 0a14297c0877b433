"""What the facts of a node mean: a list of checks, each ok, a warning or a failure with the way out."""

import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["ok", "warning", "failure"]

DRIVER = "driver"
PACKAGE = "tune-mtl"
_DRIVER_ONLY = {"matplotlib", "mlflow", "optuna", "psycopg", "rich", "typer"}
"""No trial imports them: another version on a node is odd, but harms nothing."""
_RAY_FULL = 0.95
"""The share of a disk above which Ray spills no more objects to it."""
LOW_DISK = 2 * 2**30
_MIB = 2**20


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        state: ``ok``; ``warning``: a search can run; ``failure``: it cannot, or would not be what it seems.
        where: The node, or ``driver``.
        what: Was found.
        way_out: What to do about it.
    """

    state: State
    where: str
    what: str
    way_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a node says of itself; see :func:`tune_mtl.preflight.probe.look`."""

    python: str
    packages: Mapping[str, str | None]
    code: str | None
    storage: tuple[str, str] | None
    storage_disk: tuple[int, int] | None
    temp: str
    temp_disk: tuple[int, int] | None
    data: Sequence[str]
    gpus: Mapping[str, Any] | None
    modules: Sequence[str] = ()


def packages() -> list[str]:
    """Return the packages whose versions must agree: ours, and what we need for other things than development."""
    needed = [PACKAGE]
    for requirement in importlib.metadata.requires(PACKAGE) or []:
        found = re.match(r"[A-Za-z0-9._-]+", requirement)
        if found and found[0] != PACKAGE and not re.search(r"extra == .dev", requirement):
            needed.append(found[0])
    return needed


def modules(where: str, facts: Facts) -> list[Check]:
    """Say which of the user's modules a worker on that node cannot import."""
    way_out = "trials import it in another process than yours: let it need nothing that only yours has"
    return [Check("failure", where, wrong, way_out) for wrong in facts.modules]


def versions(where: str, facts: Facts, driver: Facts) -> list[Check]:
    """Compare Python, packages and our own code with the driver's."""
    found = []
    if facts.python != driver.python:
        series = [python.rpartition(".")[0] for python in (facts.python, driver.python)]
        what = f"Python {facts.python}, but {driver.python} on the driver"
        found.append(Check("warning" if series[0] == series[1] else "failure", where, what, "install the same there"))
    for package, wanted in driver.packages.items():
        installed = facts.packages.get(package)
        if wanted is None or installed == wanted:
            continue
        same_release = installed is not None and installed.partition("+")[0] == wanted.partition("+")[0]
        harmless = package in _DRIVER_ONLY or same_release
        what = f"{package} {installed or 'is missing'}, but {wanted} on the driver"
        found.append(
            Check("warning" if harmless else "failure", where, what, f"on that node: pip install {package}=={wanted}")
        )
    same_version = facts.packages.get(PACKAGE) == driver.packages.get(PACKAGE)
    if same_version and facts.code != driver.code:
        what = f"its {PACKAGE} has the driver's version, but other code"
        found.append(Check("failure", where, what, "install the same build or commit there"))
    return found or [Check("ok", where, "versions as on the driver")]


def storage(where: str, facts: Facts, folder: str) -> list[Check]:
    """Check whether the storage is the driver's and can be written."""
    if facts.storage is None:
        return [Check("ok", where, f"storage {folder} is the driver's, and can be written")]
    failed, why = facts.storage
    if failed == "see":
        return [
            Check(
                "failure",
                where,
                f"storage {folder} is not the driver's: {why}",
                f"mount the same folder at {folder} on every node, or give --storage one that all share",
            )
        ]
    return [Check("failure", where, f"storage {folder} cannot be written: {why}", "see its permissions and free space")]


def disk(
    where: str, what: str, found: tuple[int, int] | None, way_out: str, *, least: int, rays: bool = False
) -> list[Check]:
    """Check whether there is room; ``least`` bytes must be free.

    Args:
        where: The node.
        what: Is on that disk.
        found: Bytes free and in all; None: nobody could tell.
        way_out: What to do if there is too little.
        least: Bytes.
        rays: Ray itself writes there, and stops when the disk is nearly full.
    """
    if found is None:
        return [Check("warning", where, f"{what}: free disk cannot be told", "see that the folder can be reached")]
    free, total = found
    text = f"{what}: {size(free)} free"
    if free < least:
        return [Check("failure", where, f"{text}, {size(least)} are the least", way_out)]
    if rays and free < (1 - _RAY_FULL) * total:
        return [Check("warning", where, f"{text}, more than {_RAY_FULL:.0%} used: Ray spills no objects", way_out)]
    return [Check("warning" if free < LOW_DISK else "ok", where, text, way_out if free < LOW_DISK else "")]


def gpus(where: str, facts: Facts, offered: float) -> list[Check]:
    """Compare the GPUs that torch sees with those that Ray offers."""
    if not offered:
        return [Check("ok", where, "GPUs: Ray offers none")]
    if facts.gpus is None:
        return [Check("ok", where, f"GPUs: Ray offers {offered:g}")]
    seen, why = facts.gpus["gpus"], facts.gpus["error"]
    if len(seen) < offered:
        what = f"GPUs: Ray offers {offered:g}, but torch sees {len(seen) or 'none'}"
        what += f" ({why})" if why else f" (it is built for CUDA {facts.gpus['cuda'] or '-'})"
        way_out = "see nvidia-smi and torch.cuda.is_available() there, or start the node with fewer --num-gpus"
        return [Check("failure", where, what, way_out)]
    return [Check("ok", where, f"GPU {name}: {size(free)} of {size(total)} free") for name, free, total in seen]


def size(count: int) -> str:
    """Return a number of bytes in the unit that a person would choose."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / _MIB:.0f} MiB"
