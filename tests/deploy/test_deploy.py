"""What is handed to Ray's launcher, Kubernetes and SLURM is what they take."""

import copy
import json
import os
import re
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import ray
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.deploy.command_lines import code_blocks, command_lines, parse
from tune_mtl.tracking.names import SNAPSHOT

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.33"
SCHEMA = json.loads(Path(__file__).with_name("ray_schema.json").read_text())
PLACES = ("address", "storage", "tracking_uri")


def comments(path: Path) -> str:
    """The commands that a file's comments tell to type: those lines that are set off."""
    return "\n".join(re.findall(r"^#   (.*)$", path.read_text(), flags=re.MULTILINE))


def launched() -> dict:
    return yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text())


def manifests() -> dict[str, dict]:
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text())}


def ray_starts(*lists: list[str]) -> list[dict]:
    return [parse(words) for lines in lists for words in command_lines("\n".join(lines)) if words[1] == "start"]


def check_search(words: list[str]) -> None:
    """A search on a cluster names all places, and its storage is a folder that is shared."""
    given = parse(words)
    assert all(given[place] for place in PLACES), words
    assert given["storage"].startswith("/shared/")
    assert given["address"] == "auto"


# Ray's launcher


def test_rays_launcher_takes_the_cluster_file():
    validate_config(prepare_config(launched()))


@pytest.mark.parametrize("damage", ["unknown key", "head of no type", "too few workers"])
def test_rays_launcher_would_refuse_a_broken_one(damage):
    broken = launched()
    if damage == "unknown key":
        broken["max_worker"] = 3
    elif damage == "head of no type":
        broken["head_node_type"] = "haed"
    else:
        broken["available_node_types"]["gpu"]["min_workers"] = broken["max_workers"] + 1
    with pytest.raises((jsonschema.ValidationError, ValueError)):
        validate_config(prepare_config(broken))


def test_the_launched_nodes_are_of_this_version_and_demand_a_token():
    config = launched()
    starts = config["head_start_ray_commands"], config["worker_start_ray_commands"]
    head, worker = ray_starts(*starts)
    assert head["head"]
    assert head["dashboard_host"] == "127.0.0.1"
    assert worker["address"] == f"$RAY_HEAD_IP:{head['port']}"
    for line in (line for lines in starts for line in lines if "ray start" in line):
        assert line.startswith("RAY_AUTH_MODE=token ")
    assert "/home/ray/.ray/auth_token" in config["file_mounts"]
    for image in (config["docker"]["head_image"], config["docker"]["worker_image"]):
        assert image.startswith(f"rayproject/ray:{ray.__version__}-py311")
    assert any("/shared:/shared" in option for option in config["docker"]["run_options"])


# KubeRay


def check_kubernetes(manifest: dict) -> None:
    """Ours by Kubernetes' schema; the operator's by ours, and the pods in it by Kubernetes' again; nothing unknown."""
    if not manifest["apiVersion"].startswith("ray.io/"):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    jsonschema.validate(manifest, SCHEMA)
    spec = manifest["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]] if manifest["kind"] == "RayCluster" else []
    for group in groups:
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": group["template"]}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        for option, value in group["rayStartParams"].items():
            parse(["ray", "start", f"--{option}={value}"])


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "RayCluster", "RayJob"])
def test_kubernetes_takes_the_manifests(kind):
    check_kubernetes(manifests()[kind])


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("PersistentVolumeClaim", ("spec", "accessMode"), ["ReadWriteMany"]),
        ("RayCluster", ("spec", "authOption"), {"mode": "token"}),
        ("RayCluster", ("spec", "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        ("RayCluster", ("spec", "headGroupSpec", "template", "spec", "volume"), []),
        ("RayCluster", ("spec", "workerGroupSpecs", 0, "template", "spec", "containers", 0, "imagge"), "x"),
        ("RayCluster", ("spec", "workerGroupSpecs", 0, "minReplicas"), "1"),
        ("RayJob", ("spec", "entryPoint"), "tune-mtl list"),
    ],
)
def test_kubernetes_would_refuse_broken_ones(kind, path, value):
    broken = copy.deepcopy(manifests()[kind])
    inner = broken
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
        check_kubernetes(broken)


def test_all_pods_share_the_claimed_folder_and_demand_a_token():
    found = manifests()
    claim, cluster, job = (found[kind] for kind in ("PersistentVolumeClaim", "RayCluster", "RayJob"))
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    assert cluster["spec"]["rayVersion"] == ray.__version__
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (volume,) = pod["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        for container in pod["containers"]:
            assert {"name": volume["name"], "mountPath": "/shared"} in container["volumeMounts"]


# SLURM


@pytest.fixture
def slurm(tmp_path):
    """Runs the script with stand-ins for everything it calls, which write down what they were called with."""
    programs = tmp_path / "bin"
    programs.mkdir()
    words = '"${0##*/}" "$@" "token=${RAY_AUTH_MODE:-}:${RAY_AUTH_TOKEN:-}"'
    record = f'line=$(printf \'%s\\037\' {words}); echo "$line" >>"$CALLS"\n'  # one write: lines stay whole
    bodies = {
        "scontrol": "printf '127.0.0.%d\\n' 1 2 3\n",
        "srun": record + "exec sleep 60\n",
        "python": record + 'until [ "$(grep -c ^srun "$CALLS")" = 3 ]; do sleep 0.05; done\n',  # waits for the nodes
        "tune-mtl": record,
    }
    for name, body in bodies.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{body}")
        (programs / name).chmod(stat.S_IRWXU)

    calls = tmp_path / "calls"
    with socket.create_server(("127.0.0.1", 0)) as head:  # a head that answers

        def run(*words: str, storage: Path) -> list[list[str]]:
            calls.write_text("")
            environment = {
                "PATH": f"{programs}:{os.environ['PATH']}",
                "CALLS": str(calls),
                "STORAGE": str(storage),
                "MLFLOW_TRACKING_URI": "http://team:5000",
                "RAY_PORT": str(head.getsockname()[1]),
                "SLURM_JOB_NAME": "night",
                "SLURM_JOB_NODELIST": "127.0.0.[1-3]",
                "SLURM_CPUS_PER_TASK": "16",
            }
            script = [str(DEPLOY / "slurm.sh"), *words]
            done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=50)
            assert done.returncode == 0, done.stderr
            return [line.rstrip("\37").split("\37") for line in calls.read_text().splitlines()]

        yield run


def test_the_slurm_script_is_shell():
    assert os.access(DEPLOY / "slurm.sh", os.X_OK)
    assert subprocess.run(["bash", "-n", str(DEPLOY / "slurm.sh")]).returncode == 0


def test_slurm_starts_one_ray_node_per_node_with_one_token_then_searches(slurm, tmp_path):
    calls = slurm("multidigits", "--gpus-per-trial", "0.5", "--cpus-per-trial", "8", storage=tmp_path / "shared")
    tokens = {call.pop() for call in calls}
    assert len(tokens) == 1
    assert re.fullmatch(r"token=token:[0-9a-f]{64}", tokens.pop())
    starts = {}
    for call in (call for call in calls if call[0] == "srun"):
        (node,) = (word.removeprefix("--nodelist=") for word in call if word.startswith("--nodelist="))
        starts[node] = parse(call[call.index("ray") :])
    assert set(starts) == {"127.0.0.1", "127.0.0.2", "127.0.0.3"}
    assert starts["127.0.0.1"]["head"]
    assert not starts["127.0.0.1"]["include_dashboard"]
    for node in ("127.0.0.2", "127.0.0.3"):
        assert starts[node]["address"] == f"127.0.0.1:{starts['127.0.0.1']['port']}"
    assert all(start["block"] and start["num_cpus"] == 16 for start in starts.values())
    (waited,) = (call for call in calls if call[0] == "python")
    assert waited[-1] == "3"
    doctor, search = (call for call in calls if call[0] == "tune-mtl")
    places = {"address": "auto", "storage": str(tmp_path / "shared"), "tracking_uri": "http://team:5000"}
    assert doctor[:2] == ["tune-mtl", "doctor"]
    given = parse(search)
    assert search[1] == "search"
    assert places.items() <= given.items()
    assert (given["problem"], given["name"], given["gpus_per_trial"]) == ("multidigits", "night", "0.5")
    assert given["cpus_per_trial"] == "8", "what the user says wins"


def test_slurm_goes_on_with_a_search_that_is_there(slurm, tmp_path):
    state = tmp_path / "shared" / "night" / SNAPSHOT
    state.parent.mkdir(parents=True)
    state.touch()
    calls = slurm("multidigits", storage=tmp_path / "shared")
    last = calls[-1][:-1]
    assert last[:3] == ["tune-mtl", "resume", "night"]
    assert parse(last)["address"] == "auto"


def test_everybody_gives_a_search_the_time_to_stop_gently():
    cluster = manifests()["RayCluster"]["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["spec"]["terminationGracePeriodSeconds"] >= 60
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    (waits,) = (entry["value"] for entry in head["env"] if entry["name"] == "RAY_JOB_STOP_WAIT_TIME_S")
    assert 60 <= int(waits) < cluster["headGroupSpec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    (seconds,) = re.findall(r"^#SBATCH --signal=B:TERM@(\d+)$", (DEPLOY / "slurm.sh").read_text(), re.MULTILINE)
    assert int(seconds) >= 60


def test_a_pod_that_ends_hands_the_signal_on_to_its_search_and_waits(tmp_path):
    (head,) = manifests()["RayCluster"]["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    shell, flag, script = head["lifecycle"]["preStop"]["exec"]["command"]
    search = subprocess.Popen(["bash", "-c", "trap 'sleep 0.5; exit 143' TERM; while true; do sleep 0.1; done"])
    waiting = threading.Thread(target=search.wait)
    waiting.start()
    found = f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nkill -0 {search.pid} && echo /proc/{search.pid}/comm\n'
    (tmp_path / "grep").write_text(found)  # the real one would find whatever searches run here
    (tmp_path / "grep").chmod(0o755)
    time.sleep(0.2)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run([shell, flag, script], env=path, timeout=30, check=True)
    assert search.returncode == 143, "it has ended before the pod goes on to end"
    waiting.join()
    assert (tmp_path / "asked").read_text().startswith("-lsx tune-mtl /proc/")


# All of them


def test_every_deployment_searches_on_shared_storage():
    job = manifests()["RayJob"]["spec"]["entrypoint"]
    texts = {"launcher": comments(DEPLOY / "ray-cluster.yaml"), "kuberay": job}
    for name, text in texts.items():
        searches = [words for words in command_lines(text) if words[:2] == ["tune-mtl", "search"]]
        assert searches, name
        for words in searches:
            check_search(words)


COMMANDS = {
    " ".join(words): words
    for text in (
        comments(DEPLOY / "ray-cluster.yaml"),
        comments(DEPLOY / "kuberay.yaml"),
        comments(DEPLOY / "slurm.sh"),
        code_blocks((ROOT / "docs" / "cluster.md").read_text()),
        code_blocks((ROOT / "docs" / "security.md").read_text()),
    )
    for words in command_lines(text)
}


@pytest.mark.parametrize("page", ["docs/cluster.md", "docs/security.md"])
def test_the_links_of_the_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text())
    assert links
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_every_command_that_is_told_can_be_typed(words):
    parse(words)
