"""What every node of a cluster says, asked all at once, and what that means."""

import hashlib
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
import ray.cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tune_mtl.preflight import checks as verdicts
from tune_mtl.preflight import probe
from tune_mtl.preflight.checks import DRIVER, Check, Facts
from tune_mtl.prepare.prepared_set import MANIFEST, PreparedSet
from tune_mtl.ray_tune import compat

LEAST_DISK = 256 * 2**20
_TOKEN_BYTES = 2**20
_ANSWER_SECONDS = 60
_IMPORT_SECONDS = 120
"""How long a node may take to import modules, which load torch."""
_CHECKSUM_BYTES_PER_SECOND = 20 * 2**20
"""How slowly a node may read data before it counts as one that does not answer."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What nodes are asked about.

    Attributes:
        storage: The folder that all nodes share.
        sets: Prepared data that must be there.
        thorough: Whether data are compared with their checksums; else with their sizes here.
        gpus: Whether torch has to see the GPUs that Ray offers.
        least_disk: Bytes that must be free.
        modules: The user's, which every node must be able to import.
    """

    storage: Path
    sets: tuple[PreparedSet, ...] = ()
    thorough: bool = True
    gpus: bool = True
    least_disk: int = LEAST_DISK
    modules: tuple[str, ...] = ()

    @property
    def files(self) -> list[tuple[str, int | None, str | None]]:
        """The files of all sets: path, bytes, SHA-256. The manifest is the driver's, to the byte."""
        files: list[tuple[str, int | None, str | None]] = []
        for found in self.sets:
            manifest = found.folder / MANIFEST
            files.append((str(manifest), None, hashlib.sha256(manifest.read_bytes()).hexdigest()))
            for info in (info for arrays in found.manifest.splits.values() for info in arrays.values()):
                path = found.folder / info.file
                if self.thorough:
                    files.append((str(path), None, info.sha256))
                elif path.exists():
                    files.append((str(path), path.stat().st_size, None))
        return files

    @property
    def seconds(self) -> float:
        """The seconds that a node may take."""
        arrays = [path for found in self.sets for path in found.folder.glob("*.npy")] if self.thorough else []
        importing = _IMPORT_SECONDS if self.modules else 0
        return _ANSWER_SECONDS + importing + sum(path.stat().st_size for path in arrays) / _CHECKSUM_BYTES_PER_SECOND


def check_driver(case: Case) -> list[Check]:
    """Check what can be looked at without Ray."""
    with _token(case.storage) as left:
        facts = Facts(**probe.look([], str(case.storage), None, DRIVER, case.files, False))
        return [left.check, *_disk_checks(DRIVER, facts, case), *_data_checks(DRIVER, facts, case)]


def check_nodes(case: Case) -> list[Check]:
    """Ask every node of the Ray that runs, all at once; one that does not answer in time is a failure."""
    driver = Facts(**probe.look(verdicts.packages(), str(case.storage), None, DRIVER, (), False))
    shown = ", ".join(f"{name} {version}" for name, version in driver.packages.items() if version)
    checks = [Check("ok", DRIVER, f"Python {driver.python}, {shown}")]
    nodes = {node["NodeID"]: node for node in alive()}
    with _token(case.storage) as left:
        checks.append(left.check)
        answers = _ask(nodes, case, left)
        staying = {node["NodeID"] for node in alive()}
        for node, name in _names(nodes).items():
            answer = answers[node]
            if node not in staying:
                checks.append(Check("warning", name, "has left the cluster", "trials go on without it"))
                continue
            if isinstance(answer, Check):
                checks.append(replace(answer, where=name))
                continue
            checks += verdicts.versions(name, answer, driver)
            if left.token is not None:
                checks += verdicts.storage(name, left.seen(node, answer), str(case.storage))
            checks += [*_disk_checks(name, answer, case), *_data_checks(name, answer, case)]
            checks += verdicts.modules(name, answer)
            checks += verdicts.gpus(name, answer, nodes[node]["Resources"].get("GPU", 0))
    return checks


@dataclass(frozen=True)
class _Left:
    """What the driver has left in the storage for nodes to find; ``token`` is None if that failed."""

    folder: Path
    token: str | None
    check: Check

    def seen(self, node: str, facts: Facts) -> Facts:
        """Return ``facts``, corrected if what the node says it has written is not found from here."""
        if facts.storage is not None:
            return facts
        try:
            found = (self.folder / node).read_text() == self.token
        except OSError:
            found = False
        return facts if found else replace(facts, storage=("see", "the driver does not find what the node wrote"))


@contextmanager
def _token(storage: Path) -> Iterator[_Left]:
    """Make a folder in the storage with the driver's token in it; it is gone afterwards, with folders made for it."""
    folder, token = storage / f".tune-mtl-doctor-{secrets.token_hex(4)}", secrets.token_hex(16)
    made = [path for path in (storage, *storage.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True)
            probe.write(folder / probe.TOKEN, token.encode().ljust(_TOKEN_BYTES, b"\0"))
        except OSError as error:
            what = f"storage {storage} cannot be written: {probe.reason(error)}"
            way_out = "see its permissions and free space, or give another --storage"
            left = _Left(folder, None, Check("failure", DRIVER, what, way_out))
        else:
            left = _Left(folder, token, Check("ok", DRIVER, f"storage {storage} can be written"))
        yield left
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()


def _ask(nodes: Mapping[str, Any], case: Case, left: _Left) -> dict[str, Facts | Check]:
    """Return the facts of every node, or the failure to get them."""
    ray.cloudpickle.register_pickle_by_value(probe)  # type: ignore[no-untyped-call]
    try:
        task = ray.remote(num_cpus=0, max_retries=0)(probe.look)
        asked, files = {}, case.files
        for node, about in nodes.items():
            there = task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
            look_at_gpus = case.gpus and about["Resources"].get("GPU", 0) > 0
            modules = (str(Path.cwd()), case.modules, compat.started_here())
            asked[node] = there.remote(
                verdicts.packages(), str(left.folder), left.token, node, files, look_at_gpus, modules
            )
    finally:
        ray.cloudpickle.unregister_pickle_by_value(probe)  # type: ignore[no-untyped-call]
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=case.seconds)
    answers: dict[str, Facts | Check] = {}
    for node, reference in asked.items():
        try:
            answers[node] = Facts(**ray.get(reference, timeout=0))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(reference, force=True)
            what = f"no answer within {case.seconds:.0f} s"
            answers[node] = Check("failure", node, what, "see that it runs and is not overloaded: ray status")
        except Exception as error:
            what = f"cannot run a task: {probe.reason(getattr(error, 'cause', None) or error)}"
            answers[node] = Check("failure", node, what, "see Ray's logs on that node, and restart it")
    return answers


def _disk_checks(where: str, facts: Facts, case: Case) -> list[Check]:
    """Check the free disk in the storage, and where Ray writes on that node."""
    way_out = "free some, or give another --storage"
    checks = verdicts.disk(where, f"storage {case.storage}", facts.storage_disk, way_out, least=case.least_disk)
    if where != DRIVER:
        way_out = "free some, or start the node with another --temp-dir"
        what = f"Ray's folder {facts.temp}"
        checks += verdicts.disk(where, what, facts.temp_disk, way_out, least=case.least_disk, rays=True)
    return checks


def _data_checks(where: str, facts: Facts, case: Case) -> list[Check]:
    """Check prepared data, as found on that node."""
    way_out = "prepare it again" if where == DRIVER else "prepare it again, or share or copy the driver's folder there"
    if facts.data:
        return [Check("failure", where, f"data: {wrong}", way_out) for wrong in facts.data]
    held = "all checksums hold" if case.thorough else "all files are there"
    return [Check("ok", where, f"data: {found.folder}: {held}") for found in case.sets]


def alive() -> list[dict[str, Any]]:
    """Return the nodes of the Ray that runs, as Ray describes them."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _names(nodes: Mapping[str, Any]) -> dict[str, str]:
    """Return how nodes are called: as `ray start --node-name` says, by address, and by id where that is not enough."""
    names = {}
    for node, about in nodes.items():
        name, address = about.get("NodeName") or "", about["NodeManagerAddress"]
        names[node] = f"{name} ({address})" if name not in ("", address) else address
    often = Counter(names.values())
    return {node: name if often[name] == 1 else f"{name} {node[:8]}" for node, name in names.items()}
