"""The suite as people use it: results, errors, single laws, tests of their own, the command."""

import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tune_mtl
from tests.testing.test_planted_faults import DrawsFromTorch, ReadsAnItem
from tests.testing.twins import Plain, SoundGroups
from tune_mtl import UserError
from tune_mtl.cli import main
from tune_mtl.testing import LAWS, HeldToLaw, LawsBroken, check_strategy, parametrize_with_laws

README = Path(__file__).parents[2].joinpath("README.md").read_text()
(RULES,) = (block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "class InverseLoss(" in block)
BAD = """
from rules import InverseLoss
from tune_mtl import Strategy, StrategyInfo

class Reads(InverseLoss):
    info = StrategyInfo(title="Reads", rule="it reads a loss", options=InverseLoss.info.options,
                        differs_from_sus="as InverseLoss", weighs_otherwise="as InverseLoss")

    def learn(self, batch):
        losses = super().learn(batch)
        self.largest = max(float(loss) for loss in losses.values()) if losses else 0.0
        return losses

class AtOnce(InverseLoss):
    info = StrategyInfo(title="AtOnce", rule="it cannot be made", options=InverseLoss.info.options)

    def setup(self):
        self.nothing.there = 1
"""


def test_it_is_a_public_name():
    assert tune_mtl.testing.check_strategy is check_strategy


def test_broken_laws_are_one_assertion_error_that_names_them():
    with pytest.raises(AssertionError, match="strategy 'plain_twin' breaks 1 law:\nwaits_for_no_device: ") as error:
        check_strategy(ReadsAnItem)
    assert isinstance(error.value, LawsBroken)
    assert [result.law for result in error.value.results] == list(LAWS)
    results = check_strategy(ReadsAnItem, raises=False)
    assert results == error.value.results, "the same each time"


def test_the_smallest_example_is_shown():
    (result,) = check_strategy(ReadsAnItem, laws=["waits_for_no_device"], raises=False)
    assert f"{__file__.replace('test_suite', 'test_planted_faults')}:" in result.what
    assert (result.example.tasks, result.example.steps, result.example.rows) == (1, 2, 2)
    assert "(smallest example: 1 task, 2 mini-batches, 2 rows)" in str(result)


def test_where_no_step_can_be_taken_nothing_else_is_said():
    class Fails(Plain):
        def learn(self, batch):
            return {}[len(batch.rows) * 0]

    first, *others = check_strategy(Fails, raises=False)
    assert first.state == "broke"
    assert re.search(rf"it fails: KeyError: 0 \({re.escape(__file__)}:\d+\)", first.what)
    assert {result.state for result in others} == {"does not apply"}


def test_random_states_of_the_caller_stay_as_they_are():
    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    before = states()
    check_strategy(DrawsFromTorch, raises=False)
    assert states() == before


def test_settings_are_those_asked_for():
    assert {result.state for result in check_strategy(SoundGroups, groups=2, optimizer="adamw")} == {"held"}
    check_strategy("mgda_ub", mgda_ub_at="trunk", clip_norm=1.0)
    check_strategy("mr", mr_accumulate=True)


@pytest.mark.parametrize(
    ("strategy", "keywords", "said"),
    [
        ("susi", {}, "unknown strategy 'susi'. Did you mean 'sus'?"),
        ("io", {"laws": ["resumes_exctly"]}, "unknown law 'resumes_exctly'. Did you mean 'resumes_exactly'?"),
        ("sus", {"groups": 2}, "groups=2 cannot be used with strategy 'sus'"),
        ("io", {"groups": "two"}, "groups='two' must be a number of groups"),
        ("io", {"optimizer": "adm"}, "adm"),
        ("jd_pcd", {"jd_pcd_tau": 7}, "jd_pcd_tau=7"),
        ("jd_pcd", {"jd_pcd_tua": 0.1}, "unknown option 'jd_pcd_tua'. Did you mean 'jd_pcd_tau'?"),
    ],
)
def test_a_mistake_is_a_line_of_its_own(strategy, keywords, said):
    with pytest.raises(UserError, match=re.escape(said)):
        check_strategy(strategy, **keywords)


@parametrize_with_laws(Plain, SoundGroups, laws=["takes_steps", "keeps_no_graph"])
def test_each_law_is_a_test(law, request):
    assert isinstance(law, HeldToLaw)
    assert str(law) in request.node.name
    assert law().state == "held"


def test_a_test_fails_where_its_law_is_broken():
    mark = parametrize_with_laws(ReadsAnItem, laws=["waits_for_no_device"])
    with pytest.raises(LawsBroken, match="waits once for _local_scalar_dense"):
        mark.args[1][0]()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with modules of the user's in it."""
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "torn.py").write_text("def learn(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for module in ("rules", "bad", "torn"):
        sys.modules.pop(module, None)


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run the command in this process: what it costs is loading torch; `test_readme.py` has it in one of its own."""

    def check(*words):
        monkeypatch.setattr(sys, "argv", ["tune-mtl", "check", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return check


def test_the_readmes_strategy_obeys_all_laws(run):
    code, out, err = run("rules:InverseLoss", "--set", "inverse_loss_power=0.5")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split("  ")[0].replace(" ", "_") for line in lines[: len(LAWS)]] == list(LAWS)
    assert len({len(line) - len(line.split("  ")[-1].lstrip()) for line in lines[: len(LAWS)]}) == 1, "aligned"
    assert lines[-1] == f"{len(LAWS) - 2} of {len(LAWS)} laws held, none broke, 2 do not apply."


def test_a_broken_law_has_its_line_and_exit_code_1(run, folder):
    code, out, _ = run("bad:Reads", "--json")
    found = json.loads(out)
    (broken,) = (law for law in found["laws"] if law["state"] == "broke")
    assert (code, found["strategy"], found["held"], broken["law"]) == (1, "reads", False, "waits_for_no_device")
    assert f"{folder / 'bad.py'}:11" in broken["what"]
    code, out, err = run("bad:AtOnce")
    assert code == 1
    assert f"'nothing' ({folder / 'bad.py'}:18)" in out.splitlines()[0]
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("asked", "said"),
    [("rules:InverseLos", "Did you mean 'InverseLoss'?"), ("torn:X", "torn.py, line 1"), ("rules:Annotated", "rules:")],
)
def test_what_is_no_strategy_is_one_line_and_exit_code_2(run, asked, said):
    code, out, err = run(asked)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("error: ")
    assert said in err
