"""On disk first, then delivered in order and once, whatever is killed or does not answer."""

import errno
import json
import os

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from tune_mtl.tracking.delivery import Delivery
from tune_mtl.tracking.journal import Journal


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("tune_mtl.tracking.delivery._PAUSE", 0.001)


def drained(journal):
    found = []
    while (record := journal.next()) is not None:
        found.append(record)
        journal.done()
    return found


@given(counts=lists(integers(0, 5), min_size=1, max_size=6))
def test_records_come_out_in_order_and_once_whoever_reopens_it(counts, tmp_path_factory):
    folder, told, heard = tmp_path_factory.mktemp("journal"), [], []
    for session, count in enumerate(counts):
        journal = Journal(folder)
        for index in range(count):
            told.append({"session": session, "index": index})
            journal.append(told[-1])
        for _ in range(count // 2):
            heard.append(journal.next())
            journal.done()
        assert journal.waiting() == len(told) - len(heard)
        journal.close()
    heard += drained(Journal(folder))
    assert heard == told


def test_what_was_not_confirmed_is_delivered_again(tmp_path):
    journal = Journal(tmp_path)
    journal.append({"n": 1})
    assert journal.next() == {"n": 1}
    assert Journal(tmp_path).next() == {"n": 1}


def test_a_torn_last_line_is_cut_off(tmp_path):
    Journal(tmp_path).append({"n": 1})
    with (tmp_path / "tracking.jsonl").open("a") as file:
        file.write('{"n": 2')
    journal = Journal(tmp_path)
    journal.append({"n": 3})
    assert drained(journal) == [{"n": 1}, {"n": 3}]


def test_calls_are_made_in_order_and_a_hopeless_one_is_left_out(tmp_path):
    seen, tries = [], []

    def call(n):
        tries.append(n)
        if n == 1 and tries.count(1) < 3:
            raise ConnectionError
        if n == 2:
            raise ValueError("never")
        seen.append(n)

    recorder = Delivery(Journal(tmp_path), {"call": call})
    for n in range(4):
        recorder.submit("call", n=n)
    assert recorder.close() == 0
    assert seen == [0, 1, 3]


def test_a_store_that_is_down_is_waited_for_and_nothing_is_left_out(tmp_path):
    down, seen = [True], []

    def call(n):
        if down[0]:
            raise ConnectionError
        seen.append(n)

    recorder = Delivery(Journal(tmp_path), {"call": call}, lambda: not down[0])
    for n in range(50):
        recorder.submit("call", n=n)
    assert recorder.close(patience=0.05) == 50
    assert seen == []
    down[0] = False
    again = Delivery(Journal(tmp_path), {"call": call}, lambda: True)
    again.submit("call", n=50)
    assert again.close() == 0
    assert seen == list(range(51))


def test_records_are_plain_json(tmp_path):
    journal = Journal(tmp_path)
    journal.append({"call": "log", "arguments": {"values": {"val/loss": 0.1}}})
    assert json.loads((tmp_path / "tracking.jsonl").read_text())["arguments"]["values"] == {"val/loss": 0.1}


def test_while_the_disk_is_full_records_wait_in_memory(tmp_path, monkeypatch):
    journal, full = Journal(tmp_path), [True]
    write = os.write

    def limited(descriptor, line):
        if full[0]:
            write(descriptor, line[:3])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, line)

    monkeypatch.setattr(os, "write", limited)
    journal.append({"n": 1})
    journal.append({"n": 2})
    assert journal.next() is None
    assert journal.waiting() == 2
    full[0] = False
    journal.append({"n": 3})
    assert drained(journal) == [{"n": 1}, {"n": 2}, {"n": 3}]
    journal.close()
    assert drained(Journal(tmp_path)) == []
