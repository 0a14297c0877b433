"""Files that are whole or not there."""

import json
import math
import os
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers

from tune_mtl import UserError
from tune_mtl.core.files import write_json
from tune_mtl.training import checkpoint

CONTENT = {"a": torch.arange(200.0), "b": [1, (2.5, "x", None)], "empty": torch.zeros(0), "bits": torch.tensor(True)}


def test_content_comes_back(tmp_path):
    checkpoint.save(tmp_path / "c.pt", CONTENT)
    loaded = checkpoint.load(tmp_path / "c.pt")
    assert torch.equal(loaded["a"], CONTENT["a"])
    assert loaded["b"] == CONTENT["b"]
    assert [file.name for file in tmp_path.iterdir()] == ["c.pt"]
    assert torch.load(tmp_path / "c.pt", weights_only=True)["content"]["b"] == CONTENT["b"]


@settings(max_examples=60)
@given(position=integers(0, 10**6), bit=integers(0, 7))
def test_any_flipped_bit_is_found_or_harmless(tmp_path_factory, position, bit):
    path = tmp_path_factory.mktemp("flip") / "c.pt"
    checkpoint.save(path, CONTENT)
    raw = bytearray(path.read_bytes())
    raw[position % len(raw)] ^= 1 << bit
    path.write_bytes(raw)
    try:
        loaded = checkpoint.load(path)
    except UserError:
        return
    assert torch.equal(loaded["a"], CONTENT["a"])
    assert loaded["b"] == CONTENT["b"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = tmp_path / "c.pt"
    checkpoint.save(path, CONTENT)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(UserError, match="unusable"):
        checkpoint.load(path)


def test_altered_values_are_refused(tmp_path):
    path = tmp_path / "c.pt"
    checkpoint.save(path, CONTENT)
    saved = torch.load(path, weights_only=True)
    saved["content"]["a"][3] = 4.0
    torch.save(saved, path)
    with pytest.raises(UserError, match="does not match its digest"):
        checkpoint.load(path)


class Malicious:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_a_malicious_file_executes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.pt"
    for write in (
        lambda: torch.save({"content": Malicious()}, path),
        lambda: path.write_bytes(pickle.dumps(Malicious())),
    ):
        write()
        with pytest.raises(UserError, match="unusable"):
            checkpoint.load(path)
        assert not (tmp_path / "executed").exists()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "c.pt"
    checkpoint.save(path, CONTENT)
    before = path.read_bytes()
    with pytest.raises(Exception, match="pickle"):
        checkpoint.save(path, {"a": lambda: None})
    assert path.read_bytes() == before


def test_json_is_strict(tmp_path):
    write_json(tmp_path / "r.json", {"a": math.nan, "b": [math.inf, 1.5], "c": (1,)})
    text = (tmp_path / "r.json").read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == {"a": None, "b": [None, 1.5], "c": [1]}
