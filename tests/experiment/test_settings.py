"""One home for an option: flags, keywords, docstring and the printed command say what `Settings` says."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
from typer.main import get_command

import tune_mtl
from tune_mtl.cli import app, main
from tune_mtl.commands.settings_flags import given_options
from tune_mtl.core.options import build
from tune_mtl.core.version import VERSION
from tune_mtl.experiment.planning.make import plan_search
from tune_mtl.results.search_options import SearchOptions
from tune_mtl.results.settings import FORMAT, Settings

SEARCH = get_command(app).commands["search"]
ASKED = Settings.asked()
OPTIONS = [name for name in ASKED if name != "problem"]


def given(*words):
    """Return the options that a command line asks for."""
    context = SEARCH.make_context("search", ["multidigits", *words])
    return given_options({name: context.params[name] for name in OPTIONS})


def as_keyword(annotation):
    """Return what an option's type is where a user gives it: any sequence for a tuple, any mapping for a dict."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return as_keyword(parts[0])
    if origin is tuple:
        return Sequence[as_keyword(parts[0])]
    if origin is dict:
        return Mapping[parts]
    if origin in (None, Literal):
        return annotation
    whole = as_keyword(parts[0])
    for part in parts[1:]:
        whole = whole | as_keyword(part)
    return whole


def test_keywords_and_their_types_are_those_of_the_settings():
    fields = get_type_hints(Settings, include_extras=True)
    wider = {  # classes, functions, "all", a Space: settings keep names
        "strategies": Sequence[str | type[Any]] | str | None,
        "optimizer": str | type[Any] | Callable[..., Any] | None,
        "schedule": str | Callable[..., Any] | None,
        "space": str | object | None,
        "algorithm": str | Callable[..., Any] | None,
        "task_weights": Mapping[str, float] | str | None,
        "task_reference": Mapping[str, float] | str | None,
    }
    expected = {name: as_keyword(fields[name]) | None for name in OPTIONS}
    assert get_type_hints(SearchOptions) == expected | wider


def test_every_option_is_explained_where_python_shows_it():
    told = " ".join(tune_mtl.search.__doc__.split())
    for name in OPTIONS:
        assert f"{name}: {ASKED[name].help}" in told
    assert list(inspect.signature(tune_mtl.search).parameters) == list(ASKED)
    assert "Raises: UserError" in told


def test_every_option_has_a_flag_with_its_help():
    context = SEARCH.make_context("search", ["x"], resilient_parsing=True)
    flags = {flag.name: flag for flag in SEARCH.get_params(context)}
    assert list(flags) == [*ASKED, "data", "dry_run", "help"]
    for name in OPTIONS:
        assert flags[name].help.startswith(ASKED[name].help)
        assert flags[name].opts == [ASKED[name].flag or f"--{name.replace('_', '-')}"]
        assert flags[name].default is None


def test_help_names_the_defaults_that_hold():
    for name, default in Settings.defaults().items():
        if name in ASKED and name not in ("replicates", "confirm", "controls") and default not in (None, {}):
            said = ("yes" if default else "no") if isinstance(default, bool) else default
            assert any(text in ASKED[name].help.lower() for text in (f"default: {said}", f"{said} (default)")), name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--samples", "12"], {"samples": 12}),
        (["--replicates", "auto", "--max-replicates", "3"], {"replicates": "auto", "max_replicates": 3}),
        (["--controls", "all", "--judge", "smoothed"], {"controls": "all", "judge": "smoothed"}),
        (["--controls", "4"], {"controls": 4}),
        (["--strategies", "sus, io,"], {"strategies": ("sus", "io")}),
        (["--seeds", "3,8"], {"seeds": (3, 8)}),
        (["--lr", "0.1", "--groups", "2"], {"lr": "0.1", "groups": "2"}),
        (["--name", "2024"], {"name": "2024"}),
        (["--no-report", "--export"], {"report": False, "export": True}),
        (["--cpus-per-trial", "0.5"], {"cpus_per_trial": 0.5}),
        (["--set", "a=1", "--set", 'b={"c": [2]}'], {"fixed": {"a": 1, "b": {"c": [2]}}}),
        (["--search", "a=1:4:log", "--search", "b=x,y"], {"vary": {"a": "1:4:log", "b": "x,y"}}),
        ([], {}),
    ],
)
def test_flags_are_read_by_the_type_of_their_option(words, expected):
    assert given(*words) == expected


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--samples", "0"], "samples=0 should be greater than or equal to 1"),
        (["--samples", "many"], "samples='many' should be a valid integer"),
        (["--algorithm", "grit"], "algorithm='grit' should be 'optuna', 'random' or 'grid'"),
        (["--seeds", "1,x", "--algorithm", "grid"], "seeds.1='x' should be a valid integer"),
        (["--replicates", "0"], "replicates=0 must be 'auto' or a number from 1 to 100"),
        (["--set", "nothing"], "--set 'nothing' must be KEY=VALUE"),
        (["--search", "nothing"], "--search 'nothing' must be KEY=VALUES"),
        (["--search", "a=1", "--search", "a=2"], "--search a is given twice"),
        (["--sampels", "3"], "--sampels"),
    ],
)
def test_a_flag_with_a_bad_value_is_one_line(words, line, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tune-mtl", "search", "multidigits", "--dry-run", *words])
    with pytest.raises(SystemExit) as exited:
        main()
    said = capsys.readouterr().err
    assert (exited.value.code, said.count("\n")) == (2, 1)
    assert line in said


def test_the_papers_protocol_decides_what_nobody_else_does():
    asked = plan_search("multidigits", space="paper").settings
    assert (asked.algorithm, asked.scheduler) == ("grid", "none")
    assert (asked.replicates, asked.confirm) == (3, 1)
    assert plan_search("multidigits", space="paper", scheduler="asha").settings.scheduler == "asha"


def test_what_is_saved_says_its_version_and_nothing_in_it_is_ignored():
    saved = json.loads(json.dumps(plan_search("multidigits", name="x").settings.public()))
    assert (saved["version"], saved["format"]) == (VERSION, FORMAT)
    with pytest.raises(tune_mtl.UserError, match="sampels"):
        build(Settings, {**saved, "sampels": 3})


def test_settings_and_the_help_of_the_search_load_neither_torch_nor_ray_nor_mlflow():
    code = """if True:
        import sys
        import tune_mtl.cli
        heavy = {'torch', 'ray', 'mlflow', 'pandas'}
        assert not (heavy | {'pydantic'}) & set(sys.modules), 'any command'
        try:
            tune_mtl.cli.app(["search", "--help"])
        except SystemExit:
            print(sorted(heavy & set(sys.modules)), 'tune_mtl.results.settings' in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["[] True"], done.stderr
