"""The commands as people type them: real processes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tune_mtl.cli import main
from tune_mtl.commands.help_texts import SCHEDULES
from tune_mtl.core.version import VERSION
from tune_mtl.strategies.optimizers import optimizers
from tune_mtl.strategies.registry import registry
from tune_mtl.strategies.schedules import schedules


def tune_mtl(
    *words: str, cwd: Path | None = None, timeout: float = 120, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tune_mtl.cli", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout, env=env)


def test_help_is_quick_and_loads_no_torch():
    code = "import sys, tune_mtl.cli; print(sorted({'torch', 'ray', 'mlflow', 'torchmetrics'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    times = []
    for _ in range(3):
        started = time.monotonic()
        assert "train" in tune_mtl("--help").stdout
        times.append(time.monotonic() - started)
    assert min(times) < 0.5


def test_the_version_is_told_by_the_command_and_by_the_package():
    import tune_mtl as package

    done = tune_mtl("--version")
    assert (done.returncode, done.stdout) == (0, f"tune-mtl {VERSION}\n")
    assert package.__version__ == VERSION
    assert tune_mtl("--version", "nonsense").returncode == 0, "whatever follows"
    assert "No such command" in tune_mtl("nonsense").stderr


def test_importing_the_package_loads_neither_torch_nor_ray_nor_mlflow():
    code = "import sys, tune_mtl; dir(tune_mtl); print(sorted({'torch', 'ray', 'mlflow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import tune_mtl as package

    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


def test_lists():
    listed = tune_mtl("strategies").stdout
    for info in registry.values():
        assert info.name in listed
        assert info.rule in listed
    said = tune_mtl("problems").stdout
    assert all(name in said for name in ("multidigits", "glyphs", "celeba"))
    assert list(schedules) == SCHEDULES.partition(" (")[0].split(", ")
    for kind, known in (("optimizers", optimizers), ("schedules", schedules)):
        said = tune_mtl(kind).stdout
        assert all(f" {name} " in said for name in known)
        assert all(f"{name}_{option} " in said for name in known for option in known[name].options.model_fields)
        assert f"Your own: --{kind[:-1]} package.module:" in said.splitlines()[-1]


@pytest.mark.slow
def test_train_shows_and_writes_the_result(tmp_path):
    done = tune_mtl(
        "train",
        "multidigits",
        "--strategy",
        "io",
        "--lr",
        "3e-3",
        "--epochs",
        "2",
        "--set",
        "adam_eps=1e-7",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs" / "train").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert result["config"]["adam_eps"] == 1e-7
    assert [record["epoch"] for record in result["history"]] == [1, 2]
    for word in ("epoch 2/2", "completed", "left/accuracy", "segment/miou", "shortest", "result.json"):
        assert word in done.stdout
    again = tune_mtl("train", "multidigits", "--config", str(folder / "result.json"), "--out", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    repeated = json.loads((tmp_path / "again" / "result.json").read_text())
    for record in (*result["history"], *repeated["history"]):
        del record["seconds"]
    assert repeated["history"] == result["history"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["multidigit", "--strategy", "io", "--lr", "1"], "unknown problem 'multidigit'. Did you mean 'multidigits'?"),
        (["multidigits", "--strategy", "sux", "--lr", "1"], "unknown strategy 'sux'. Did you mean 'sus'?"),
        (["multidigits", "--strategy", "io", "--lr", "fast"], "lr=fast must be a finite number > 0"),
        (["multidigits", "--strategy", "io", "--lr", "0"], "lr=0 must be a finite number > 0"),
        (["multidigits", "--strategy", "io"], "lr is missing"),
        (["multidigits", "--strategy", "sus", "--lr", "1", "--groups", "2"], "only ius, io, adatask have groups"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--groups", "0"], "groups=0 is impossible with 4 tasks"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--groups", "5"], "groups=5 is impossible with 4 tasks"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--grops", "5"], "--grops"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--set", "adam_bets=1"], "Did you mean 'adam_betas'?"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--set", "nothing"], "must be KEY=VALUE"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--config", "no.json"], "--config no.json cannot be read"),
        (["multidigits", "--strategy", "io", "--lr", "1", "--resume"], "--resume needs --out"),
        (["no_module:problem", "--strategy", "io", "--lr", "1"], "module 'no_module' does not import"),
        (["broken:problem", "--strategy", "io", "--lr", "1"], "ZeroDivisionError: division by zero"),
        (["json:nothing", "--strategy", "io", "--lr", "1"], "module 'json' has no 'nothing'"),
        (["json:dumps", "--strategy", "io", "--lr", "1"], "'json:dumps' could not be made: TypeError"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(tmp_path, monkeypatch, capsys, words, expected):
    (tmp_path / "broken.py").write_text("problem = 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "train", *words])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as exited:
        main()
    errors = capsys.readouterr().err
    assert exited.value.code == 2
    assert expected in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_mistake_ends_the_process_with_code_2():
    done = tune_mtl("train", "multidigits", "--strategy", "io", "--lr", "-1")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: lr=-1 must be a finite number > 0.\n")


OWN_PROBLEM = """
import torch
from torch import nn
from tune_mtl import MultiTaskModel, Problem, Task, TensorData

def data(split):
    x = torch.linspace(-1, 1, 64).unsqueeze(1)
    return TensorData(x, {"square": x**2, "cube": x**3}, {"cube": torch.arange(64) % 2 == 0})

def model():
    return MultiTaskModel(nn.Sequential(nn.Linear(1, 16), nn.Tanh()), {t: nn.Linear(16, 1) for t in ("square", "cube")})

curves = Problem("curves", [Task(t, nn.functional.mse_loss) for t in ("square", "cube")], model, data)
"""


def test_ones_own_problem_is_found_from_the_current_directory(tmp_path):
    (tmp_path / "mine.py").write_text(OWN_PROBLEM)
    words = ["train", "mine:curves", "--strategy", "io", "--lr", "1e-2", "--epochs", "20", "--batch-size", "16"]
    done = tune_mtl(*words, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["config"]["problem"] == "mine:curves"
    assert result["history"][-1]["val/loss/cube"] < result["history"][0]["val/loss/cube"]


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path):
    import signal

    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tune_mtl.cli",
            "train",
            "multidigits",
            "--strategy",
            "io",
            "--lr",
            "3e-3",
            "--out",
            "r",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    while not (tmp_path / "r" / "checkpoint.pt").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "train multidigits --strategy io --lr 3e-3 --out r --resume" in errors
    assert "Traceback" not in errors
