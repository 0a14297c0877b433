"""The list of names says what the records say, and asking it loads nothing."""

import subprocess
import sys
from typing import get_args, get_origin

import pytest

from tune_mtl import UserError
from tune_mtl.strategies.base import Strategy
from tune_mtl.strategies.info import NoOptions
from tune_mtl.strategies.jacobian.descent import JacobianDescent
from tune_mtl.strategies.jacobian.family import AGGREGATORS, SCALARIZERS
from tune_mtl.strategies.jacobian.scalarized import ScalarizedLoss
from tune_mtl.strategies.registry import entries, registry, strategy_class, strategy_info, with_groups

every_strategy = pytest.mark.parametrize("name", list(entries))


@every_strategy
def test_an_entry_says_what_the_record_says(name):
    entry, info = entries[name], strategy_info(name)
    assert (info.name, info.has_groups, info.shares_trunk) == (name, entry.has_groups, entry.shares_trunk)


@every_strategy
def test_a_strategy_is_typed_with_the_options_of_its_record(name):
    made_of = [base for kind in strategy_class(name).__mro__ for base in vars(kind).get("__orig_bases__", ())]
    arguments = [get_args(base)[0] for base in made_of if issubclass(get_origin(base) or object, Strategy)]
    (typed,) = [argument for argument in arguments if isinstance(argument, type)]
    options = registry[name].options
    of_a_family = issubclass(strategy_class(name), JacobianDescent | ScalarizedLoss)
    assert issubclass(options, typed) if of_a_family else options is typed


@every_strategy
def test_only_the_base_decides_how_a_strategy_is_made(name):
    assert strategy_class(name).__init__ is Strategy.__init__


def test_the_family_is_listed_in_the_order_of_its_table():
    listed = [name for name in entries if name.startswith("jd_")]
    assert listed == [strategy.info.name for strategy in (*AGGREGATORS, *SCALARIZERS)]
    assert strategy_info("jd_mean").options().model_dump() == NoOptions().model_dump() == {}


def test_the_registry_is_a_mapping_of_its_names():
    assert (list(registry), len(registry)) == (list(entries), len(entries))
    assert "sus" in registry
    assert "susi" not in registry
    assert registry.get("susi") is None
    assert with_groups() == ["ius", "io", "adatask"]
    with pytest.raises(UserError, match=r"unknown strategy 'susi'\. Did you mean '?sus"):
        strategy_info("susi")


LIGHT = """
import sys
from tune_mtl.strategies.registry import known_strategy, registry, with_groups
import tune_mtl.commands.help_texts, tune_mtl.strategies.optimizers, tune_mtl.strategies.schedules
print(list(registry), with_groups(), "stl" in registry, known_strategy("stl"))
print(sorted({"torch", "torchjd", "ray"} & set(sys.modules)))
"""
RECORDS = """
import sys
import trainables
loaded = {name for name in sys.modules if name.startswith("tune_mtl.strategies.methods.")}
from tune_mtl.strategies.registry import registry
print([info.options for info in registry.values()])
print(sorted({"torchjd", "sklearn", "cvxpy"} & set(sys.modules) | loaded))
"""


@pytest.mark.parametrize(
    "code", [LIGHT, RECORDS], ids=["names load no torch", "workers no strategies, records no solvers"]
)
def test_what_is_asked_loads_no_more_than_it_needs(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr
