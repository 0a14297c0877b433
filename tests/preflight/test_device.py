"""`doctor --device` on a simulated device and on the CPU: what is well is said to be, what has a fault is found."""

import sys

import pytest
import torch

from tests.device.simulated import counted, present
from tune_mtl.cli import main
from tune_mtl.preflight.device import examine, speed
from tune_mtl.preflight.device.examine import examine_device
from tune_mtl.preflight.device.page import page
from tune_mtl.strategies.methods.sus import SharedUpdateSteps


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(speed, "_STEPS", 1)
    monkeypatch.setattr(examine, "loading", lambda _: (0.1, 1.0))


def on_simulated(*strategies, **more):
    with present() as place:
        return examine_device(str(place), strategies=strategies, count_waits=lambda _: counted(), **more)


def states(found, name):
    return {verdict.law: verdict.state for verdict in found.verdicts[name]}


def test_all_is_well_on_a_simulated_device():
    told = []
    found = on_simulated("io", "pcgrad", told=told.append)
    for name in ("io", "pcgrad"):
        assert states(found, name) == dict.fromkeys(("numbers", "waits", "repeats", "gathered"), "ok")
        assert found.verdicts[name][0].said == "the same"
        assert found.costs[name].seconds > 0
    assert found.failures == []
    assert found.verdicts["pcgrad"][1].said == "1 in a step; declared: 1"
    assert told[0] == "io (1 of 2)"
    text = page(found)
    assert text.startswith("# tune-mtl on simulated:0: all laws hold for 2 strategies")
    assert "## Broken" not in text
    assert "| `pcgrad` | the same | 1 in a step; declared: 1 | bit for bit, resumed too |" in text


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ("ReadsALoss", {"waits"}),
        ("WeighsOnTheHost", {"numbers", "waits", "repeats", "gathered"}),
        ("ForgetsOnResume", {"numbers", "repeats"}),
    ],
)
def test_faults_are_found_and_said_on_the_page(fault, broken):
    found = on_simulated(f"tests.device.faults:{fault}")
    ((name, _),) = found.verdicts.items()
    assert {law for law, state in states(found, name).items() if state == "failed"} >= broken
    text = page(found)
    assert f"{len(found.failures)} laws broken" in text.splitlines()[0]
    assert f"- `{name}`, {found.failures[0][1].law}: " in text


def test_numbers_of_another_kind_are_found(monkeypatch):
    """A device whose steps are half as long."""
    learn = SharedUpdateSteps.learn

    def other(self, batch):
        if next(self.model.parameters()).device.type != "cpu":
            self.optimizers[0].param_groups[0]["lr"] /= 2
        return learn(self, batch)

    monkeypatch.setattr(SharedUpdateSteps, "learn", other)
    found = on_simulated("sus")
    assert states(found, "sus")["numbers"] == "failed"
    assert 0.4 < float(found.verdicts["sus"][0].said.split()[0]) < 0.6


def test_what_does_not_repeat_is_found(monkeypatch):
    draws = iter(range(1000))

    def learn(self, batch):
        losses = self.update(self.optimizers[0], self.tasks, batch)
        with torch.no_grad():
            next(self.model.parameters()).add_(1e-6 * next(draws))
        return losses

    monkeypatch.setattr(SharedUpdateSteps, "learn", learn)
    found = on_simulated("sus")
    assert states(found, "sus")["repeats"] == "failed"


def test_no_strategy_is_begun_when_time_is_over():
    found = on_simulated("sus", "io", minutes=1e-9)
    assert list(found.verdicts) == []
    assert found.left_out == dict.fromkeys(("sus", "io"), "no time: 1e-09 minutes were over")
    assert "## Left out" in page(found)


def test_the_command_writes_one_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("doctor", "--device", "cpu", "--strategies", "sus", "--out", "here.md") == 0
    assert "all laws hold" in capsys.readouterr().out
    text = (tmp_path / "here.md").read_text()
    assert "## Speed and memory" in text
    assert "`sus`, precision=bf16" in text
    assert str(tmp_path) not in text
    assert [path.name for path in tmp_path.iterdir()] == ["here.md"]
    for words in (
        ["--device", "cpu", "--out", "here.md"],
        ["--device", "cuda:9"],
        ["--device", "cpu", "--address", "10.0.0.1:6379"],
        ["--device", "cpu", "--strategies", "suss", "--out", "new.md"],
        ["--device", "cpu", "--minutes", "0", "--out", "new.md"],
        ["--strategies", "sus"],
    ):
        assert run("doctor", *words) == 2, words
    assert [path.name for path in tmp_path.iterdir()] == ["here.md"]


def run(*words):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["tune-mtl", *words])
        with pytest.raises(SystemExit) as caught:
            main()
    return caught.value.code
