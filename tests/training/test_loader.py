"""Reading ahead in the background: what a GPU run uses, tested without one."""

import threading

import pytest
import torch

from tune_mtl import Batch
from tune_mtl.training.loader import _read_ahead, batches


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tune-mtl-read-ahead"]


def numbered(count):
    return (Batch(torch.tensor([index]), {}) for index in range(count))


def test_everything_comes_in_order():
    assert [batch.inputs.item() for batch in _read_ahead(numbered(50))] == list(range(50))
    assert not names()


def test_an_error_reaches_the_reader_after_what_was_read_before_it():
    def source():
        yield from numbered(3)
        raise ValueError("unreadable")

    reader = _read_ahead(source())
    assert [next(reader).inputs.item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="unreadable"):
        next(reader)


def test_a_reader_that_stops_early_leaves_no_thread():
    reader = _read_ahead(numbered(10**6))
    next(reader)
    reader.close()
    assert not names()


def test_plain_tuples_will_do_as_batches():
    class Plain:
        def __len__(self):
            return 4

        def batch(self, indices):
            return indices * 2, {"t": indices}

    order = list(torch.arange(4).split(2))
    loaded = list(batches(Plain(), order, lambda batch: batch, torch.device("cpu"), 0, 0))
    assert [batch.inputs.tolist() for batch in loaded] == [[0, 2], [4, 6]]
    assert isinstance(loaded[0], Batch)
