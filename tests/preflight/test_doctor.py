"""The doctor on real nodes that are ill in known ways: each illness is found, on the right node, and nothing else."""

import base64
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from tests.preflight.nodes import Nodes, free_port
from tests.prepare import makers
from tests.toys import toy_problem
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.experiment.search import plan_search
from tune_mtl.preflight import doctor, probe
from tune_mtl.preflight import nodes as asking
from tune_mtl.preflight import requirements as needs
from tune_mtl.preflight.checks import DRIVER, Check
from tune_mtl.preflight.doctor import _no_ray, examine, require_healthy
from tune_mtl.preflight.nodes import Case, check_driver, check_nodes
from tune_mtl.prepare.datasets import open_source, prepare_source
from tune_mtl.prepare.prepared_set import PreparedSet
from tune_mtl.ray_tune import compat

pytestmark = pytest.mark.slow
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting file systems needs root")
PASSWORD = "s3cret"
HEAD, ILL = "head (127.0.0.2)", "ill (127.0.0.3)"


def failures(checks: list[Check]) -> dict[str, list[str]]:
    """What failed, by place."""
    found: dict[str, list[str]] = {}
    for check in checks:
        if check.state == "failure":
            assert check.way_out or check.what.endswith((".", "again."))
            found.setdefault(check.where, []).append(check.what)
    return found


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))
    for name in ("MLFLOW_TRACKING_URI", "TUNE_MTL_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders that nodes share, a prepared set, and disks that are full."""
    place = tmp_path_factory.mktemp("place")
    for name in ("shared", "unshared", "full", "small"):
        (place / name).mkdir()
    prepare_source(open_source("celeba", makers.write_celeba(place / "source", 8), "16x16", None), place / "data")
    shutil.copytree(place / "data", place / "ill data")
    damage(place / "ill data" / "celeba" / "train_images.npy")
    (place / "ill data" / "celeba" / "val_images.npy").unlink()
    return place


@pytest.fixture(scope="module")
def head(place):
    """A cluster of one healthy node."""
    with pytest.MonkeyPatch.context() as patched, Nodes() as nodes:
        patched.delenv("RAY_ADDRESS", raising=False)
        sizes = {"full": "64k", "small": "32m"}
        for name, size in sizes.items():
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place / name)], check=True)
        try:
            (place / "full" / "ballast").write_bytes(bytes(64 * 1024))
            nodes.start("head", environment={"RAY_health_check_period_ms": "500"})  # a lost node is missed in seconds
            with nodes.admitted():
                yield nodes
        finally:
            for name in sizes:
                subprocess.run(["umount", str(place / name)], check=True)


@pytest.fixture(scope="module")
def cluster(head, place):
    """With a second node, which has everything that a node can have."""
    packages = place / "packages"
    (packages / "torch-0.0.1.dist-info").mkdir(parents=True)
    (packages / "torch-0.0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.0.1\n")
    mounts = f"mount -t tmpfs tmpfs '{place}/unshared' && mount --bind '{place}/ill data' '{place}/data'"
    under = ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh"]
    head.start("ill", gpus=1, under=under, environment={"PYTHONPATH": str(packages)})
    return head


@pytest.fixture(scope="module")
def connected(cluster):
    ray.init(cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def test_the_command_says_all_and_no_password(tmp_path, monkeypatch, capfd):
    uri, address = f"http://me:{PASSWORD}@127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    (tmp_path / "file").touch()
    words = ["--address", address, "--storage", str(tmp_path / "file"), "--tracking-uri", uri, "--data", "nowhere"]
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "doctor", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    printed = capfd.readouterr()
    assert printed.err == ""
    assert PASSWORD not in printed.out
    lines = [line for line in printed.out.splitlines() if line.startswith("failure")]
    for line, what in zip(
        lines,
        (
            f"Ray address {address} does not answer",
            "tracking server",
            f"data: none in {tmp_path}/nowhere -> tune-mtl prepare",
            f"storage {tmp_path}/file cannot be written: Not a directory -> see its permissions",
        ),
        strict=True,
    ):
        assert what in line
    assert printed.out.endswith("4 failures, no warnings.\n")
    assert not ray.is_initialized()


class Answers(http.server.BaseHTTPRequestHandler):
    """Lets in who has the password; knows no experiments."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        wanted = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
        known = self.headers.get("Authorization") == f"Basic {wanted}"
        body = b"{}" if known else f"no entry with {self.headers.get('Authorization')}".encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_tracking_server_must_answer_and_in_time(monkeypatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        assert needs.check_tracking(f"http://me:{PASSWORD}@{place}").state == "ok"
        refused = needs.check_tracking(f"http://me:wr0ng@{place}")
        server.shutdown()
    assert refused.state == "failure"
    assert "401" in refused.what
    assert "wr0ng" not in refused.what
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(needs, "_ANSWER_SECONDS", 1)
        hung = needs.check_tracking(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "no answer within 1 s" in hung.what


@pytest.mark.parametrize(
    "uri", ["http://me:s3cret/x@host:80", "http://me:s3cret@host:port", "http://me:s3?cret@h", "mysql://me:s3cret@h/d"]
)
def test_a_wrong_tracking_address_gives_no_part_of_the_password_away(uri):
    check = needs.check_tracking(uri)
    assert check.state == "failure"
    assert "s3" not in f"{check.what} {check.way_out}"


def test_a_store_that_is_a_file_is_opened_or_can_be_made(tmp_path):
    assert "the first search makes it" in needs.check_tracking(f"sqlite:///{tmp_path}/new/mlflow.db").what
    assert not (tmp_path / "new").exists()
    (tmp_path / "mlflow.db").write_text("no database")
    assert needs.check_tracking(f"sqlite:///{tmp_path}/mlflow.db").state == "failure"
    assert needs.check_tracking(f"sqlite:///{tmp_path}/mlflow.db/below/mlflow.db").state == "failure"


def test_data_are_looked_for_where_they_are_asked_for(place, tmp_path, monkeypatch):
    (check,) = needs.find_data(None)[1]
    assert (check.state, check.what) == ("ok", f"data: none in {tmp_path}/data, and none asked for")
    monkeypatch.setenv("TUNE_MTL_DATA", str(tmp_path))
    (check,) = needs.find_data(None)[1]
    assert check.state == "failure"
    shutil.copytree(place / "data" / "celeba", tmp_path / "celeba")
    for folder in (tmp_path, tmp_path / "celeba"):
        (found,), checks = needs.find_data(str(folder))
        assert (found.folder, checks) == (tmp_path / "celeba", [])
    (tmp_path / "nyuv2.partial").mkdir()
    assert [check.state for check in needs.find_data(None)[1]] == ["warning"]
    (tmp_path / "celeba" / "manifest.json").write_text("{")
    sets, checks = needs.find_data(None)
    assert sets == []
    assert "is damaged" in checks[0].what


def test_without_ray_the_driver_still_looks_at_its_data(place, tmp_path):
    case = Case(storage=tmp_path / "storage", sets=(PreparedSet(place / "ill data" / "celeba"),))
    checksum, missing = failures(check_driver(case))[DRIVER]
    assert "its checksum differs" in checksum
    assert "val_images.npy is missing" in missing
    quick = failures(check_driver(replace(case, thorough=False)))
    assert quick == {}
    assert "cannot be read" in needs.sizes(case.sets[0])[0].what


@pytest.mark.parametrize(
    ("wanted", "flags"), [((1, 1), "--gpus"), ((64, 0), "--cpus"), ((64, 1), "--cpus"), ((2, 0), "")]
)
def test_what_this_machine_does_not_have_is_refused_and_not_waited_for(monkeypatch, wanted, flags):
    monkeypatch.setattr(doctor, "alive", lambda: [{"Resources": {"CPU": 2.0}}])
    settings = SimpleNamespace(cpus=wanted[0], gpus=wanted[1])
    for here, state in ((True, "failure"), (False, "warning")):
        monkeypatch.setattr(doctor.compat, "started_here", lambda here=here: here)
        found = doctor._room(settings)
        assert [check.state for check in found] == ([state] if flags else [])
        if flags and here:
            assert "this machine has 2 CPUs and 0 GPUs" in found[0].what
            assert f"give less to {flags}-per-trial" in found[0].way_out


def test_a_wrong_token_is_told_from_a_cluster_that_is_not_there():
    try:
        try:
            raise RuntimeError("Last error: ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: ...")
        except RuntimeError as cause:
            raise UserError("Ray at host:1 cannot be used: Failed to connect") from cause
    except UserError as error:
        check = _no_ray(error)
    assert "RAY_AUTH_TOKEN_PATH" in check.way_out
    assert "RAY_AUTH_TOKEN_PATH" not in _no_ray(UserError("Ray at host:1 cannot be used")).way_out


@needs_root
def test_a_healthy_cluster_is_found_healthy_and_nothing_is_left(head, place, tmp_path):
    storage = tmp_path / "made" / "for" / "it"
    checks = examine(address=head.address, storage=str(storage), data=str(place / "data"))
    assert {check.state for check in checks} <= {"ok", "warning"}
    assert {check.where for check in checks} == {DRIVER, HEAD}
    said = " | ".join(check.what for check in checks if check.where == HEAD)
    for what in (
        "versions as on the driver",
        "can be written",
        "all checksums hold",
        "GPUs: Ray offers none",
        "Ray's folder",
    ):
        assert what in said
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "home").exists()
    assert not ray.is_initialized()


@needs_root
def test_the_token_is_shown_where_it_is_demanded_and_another_is_refused_at_once(head, monkeypatch):
    with monkeypatch.context() as patched:
        patched.delenv("RAY_AUTH_MODE")
        checks = examine(address=head.address)
        assert DRIVER not in failures(checks)
        assert HEAD in {check.where for check in checks}
        assert "RAY_AUTH_MODE" not in os.environ
        patched.setenv("RAY_AUTH_TOKEN", "another")
        (line,) = failures(examine(address=head.address))[DRIVER]
        assert "wants another token than the one in RAY_AUTH_TOKEN" in line
    compat.reread_environment()  # other tests show the token


@needs_root
def test_a_search_may_start_on_a_healthy_cluster(head, place, caplog):
    given = {"storage": str(place / "shared"), "cpus_per_trial": 64}
    plan = plan_search("celeba", fixed={"problem_data": str(place / "data")}, **given)
    ray.init(head.address, log_to_driver=False)
    try:
        require_healthy(plan.needs)
    finally:
        ray.shutdown()
    assert "no node offers the 64 CPUs and 0 GPUs of a trial" in caplog.text
    assert list((place / "shared").iterdir()) == []


@needs_root
def test_another_ray_than_the_clusters_is_one_line(head, monkeypatch):
    monkeypatch.setattr(ray, "__version__", "2.0.0")
    (line,) = failures(examine(address=head.address))[DRIVER]
    assert "Version mismatch" in line
    assert "Ray: 2.0.0" in line


@needs_root
def test_every_illness_of_a_node_is_found_there_and_only_there(cluster, place):
    port = free_port()
    found = failures(
        examine(
            address=cluster.address,
            storage=str(place / "unshared"),
            tracking_uri=f"http://me:{PASSWORD}@127.0.0.1:{port}",
            data=str(place / "data"),
        )
    )
    (tracking,) = found.pop(DRIVER)
    assert f"http://127.0.0.1:{port} does not answer" in tracking
    version, storage, checksum, missing, gpu = found.pop(ILL)
    assert version == f"torch 0.0.1, but {probe.version('torch')} on the driver"
    assert "unshared is not the driver's" in storage
    assert checksum.endswith("train_images.npy is not what was prepared: its checksum differs")
    assert missing.endswith("val_images.npy is missing")
    assert gpu.startswith("GPUs: Ray offers 1, but torch sees none")
    assert not found
    assert list((place / "unshared").iterdir()) == []


@needs_root
def test_full_disks_are_found_from_every_node(connected, place):
    full = failures(check_nodes(Case(storage=place / "full", gpus=False)))
    assert full[DRIVER] == [f"storage {place}/full cannot be written: No space left on device"]
    small = failures(check_nodes(Case(storage=place / "small", gpus=False)))
    assert DRIVER not in small
    for found, name, free in ((full, "full", 0), (small, "small", 31)):
        for node in (HEAD, ILL):
            assert f"storage {place}/{name}: {free} MiB free, 256 MiB are the least" in found[node]
    assert [path.name for name in ("full", "small") for path in (place / name).iterdir()] == ["ballast"]


@needs_root
def test_no_search_starts_on_an_ill_cluster(connected, place):
    given = {"address": connected.address, "storage": str(place / "shared")}
    data = {"fixed": {"problem_data": str(place / "data")}}
    plan = plan_search("celeba", tracking_uri=f"http://me:{PASSWORD}@127.0.0.1:{free_port()}", **given, **data)
    with pytest.raises(UserError) as raised:
        require_healthy(plan.needs)
    line = str(raised.value)
    assert "does not answer" in line
    assert " 2 more. " in line
    assert f"tune-mtl doctor --address {connected.address} --storage {place}/shared --tracking-uri" in line
    assert f"--data {place}/data/celeba" in line
    assert PASSWORD not in line
    with pytest.raises(UserError, match=r"ill \(127\.0\.0\.3\): torch 0\.0\.1, but .* pip install torch=="):
        require_healthy(plan_search(toy_problem(2), **given).needs)


@needs_root
def test_a_node_that_does_not_answer_is_a_failure_not_a_wait(connected, place, monkeypatch):
    monkeypatch.setattr(asking, "_ANSWER_SECONDS", 5)
    frozen = [process for process in connected.nodes[1].processes() if process.name() == "raylet"]
    for process in frozen:
        process.send_signal(signal.SIGSTOP)
    try:
        found = failures(check_nodes(Case(storage=place / "shared", gpus=False)))
    finally:
        for process in frozen:
            process.send_signal(signal.SIGCONT)
    assert len(frozen) == 1
    assert found == {ILL: ["no answer within 5 s"]}


@needs_root
def test_a_node_that_was_just_lost_stops_no_search(connected, place):
    connected.nodes[1].kill()
    checks = check_nodes(Case(storage=place / "shared", gpus=False))
    assert failures(checks) == {}
    assert {check.what for check in checks if check.where == ILL} <= {"has left the cluster"}
