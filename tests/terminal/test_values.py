"""What people type becomes what they mean."""

import json

import pytest

from tune_mtl import UserError
from tune_mtl.commands.values import assignment, read_config


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lr=1e-3", 1e-3),
        ("batch_size=50", 50),
        ("mr_accumulate=true", True),
        ('scalar_weights={"left": 2}', {"left": 2}),
        ("metric=val/loss:min", "val/loss:min"),
        ("mr_updates_end=0.10", 0.1),
        ("gradnorm_layer=1.10", "1.10"),
        ("gradnorm_layer=2", "2"),
        ('gradnorm_layer="1.10"', "1.10"),
        ("gradnorm_layer=encoder.conv", "encoder.conv"),
        ("gradnorm_layer=null", None),
    ],
)
def test_assignments(typed, meant):
    key, value = assignment(typed)
    assert key == typed.partition("=")[0]
    assert (value, type(value)) == (meant, type(meant))


def test_no_assignment_is_named():
    for typed in ("lr", "=3", ""):
        with pytest.raises(UserError, match="must be KEY=VALUE"):
            assignment(typed)


def test_a_files_values(tmp_path):
    (tmp_path / "given.yaml").write_text("lr: 1e-3\ngradnorm_layer: '1.10'\nstrategy: gradnorm\n")
    expected = {"lr": 1e-3, "gradnorm_layer": "1.10", "strategy": "gradnorm"}
    assert read_config(tmp_path / "given.yaml") == expected
    (tmp_path / "result.json").write_text(json.dumps({"config": expected, "outcome": "completed"}))
    assert read_config(tmp_path / "result.json") == expected
