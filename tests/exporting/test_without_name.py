"""A problem that was given as an object: what works, and what says that it cannot."""

from dataclasses import replace

import pytest

import tune_mtl
from tests.exporting import problems
from tests.exporting.test_export import inputs_of, predicted, same
from tune_mtl.problems.registry import importable
from tune_mtl.terminal.searches import show_best


@pytest.fixture
def nameless(searches):
    """A winner whose config names no problem that could be imported."""
    best = tune_mtl.best(searches.of("by_place", "sus"))
    return replace(best, config={**best.config, "problem": "by_place"})


def test_the_model_needs_the_object(nameless, searches):
    with pytest.raises(tune_mtl.UserError, match=r"given as an object.*load_model\(problem=...\)"):
        nameless.load_model()
    expected = predicted(tune_mtl.best(searches.of("by_place", "sus")).load_model(), inputs_of("by_place", 4))
    for loaded in (nameless.load_model(problems.by_place), replace(nameless, problem=problems.by_place).load_model()):
        assert same(predicted(loaded, inputs_of("by_place", 4)), expected)


def test_weights_of_another_network_are_one_line(nameless):
    other = replace(nameless, config={**nameless.config, "problem": "toy"})
    with pytest.raises(tune_mtl.UserError, match="do not fit the network of problem 'toy'"):
        other.load_model(problems.conv)


def test_best_says_that_there_is_no_command(nameless, capsys):
    assert nameless.train_command() is None
    show_best("made", nameless)
    said = " ".join(capsys.readouterr().out.split())
    assert "no command repeats it: its problem 'by_place' was given as an object" in said
    assert "tune-mtl train" not in said


def test_which_names_other_processes_can_import():
    assert importable("multidigits")
    assert importable("mine:problem")
    assert not importable("curves")
    assert not importable("__main__:curves")


def test_results_show_themselves_escaped(nameless):
    odd = replace(nameless, search="<script>", metrics={"best/val/<b>": 0.5, "val/loss": 1.0})
    shown = odd._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "best/val/&lt;b&gt;" in shown
    assert "val/loss" not in shown.replace("best/val", "")
    trial = tune_mtl.train(problems.by_place, {"strategy": "sus", "lr": 1e-2})
    assert "<td>best/val/loss</td>" in trial._repr_html_()
