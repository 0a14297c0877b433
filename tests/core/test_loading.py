"""What is loaded is not looked through for garbage, and everything else is as before."""

import gc
import subprocess
import sys

import pytest

from tune_mtl.core.process.loading import loading


def test_garbage_is_left_alone_while_modules_load(monkeypatch):
    gc.enable()
    before = gc.get_freeze_count()
    with loading():
        assert not gc.isenabled()
        monkeypatch.setitem(sys.modules, "a_module_that_was_loaded", sys)
    assert gc.isenabled()
    assert gc.get_freeze_count() > before


def test_where_nothing_is_loaded_all_stays_as_it_was():
    before = gc.get_freeze_count()
    gc.disable()
    with pytest.raises(ValueError, match="its own"), loading():
        raise ValueError("its own")
    assert not gc.isenabled()
    gc.enable()
    assert gc.get_freeze_count() <= before, "what is frozen may go, when nobody holds it any more"


def test_a_process_with_torch_ends_without_a_word():
    program = "from tune_mtl.core.process.loading import loading\nwith loading():\n    import torch._dynamo"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
