"""Processes: those that we started, all that they started in turn, and what is left of them when they are gone."""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

_SUBREAPER = 36
_RAYS_OWN = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")


def adopt_orphans(*, yes: bool = True) -> None:
    """Have every process that outlives its parent become a child of this one, where it can be seen (Linux)."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, int(yes), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children() -> list[psutil.Process]:
    """Of this process, those that live."""
    return [child for child in psutil.Process().children() if alive(child)]


def bury(started: Iterable[int]) -> None:
    """Reap dead children that nobody here started: their parents are gone. ``started`` have their own Popen."""
    known = set(started)
    for child in psutil.Process().children():
        if child.pid not in known and not alive(child):
            with suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.Error:
        return ""


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def actors(pids: Iterable[int]) -> list[psutil.Process]:
    """The Ray workers below ``pids`` that have a trial, or are about to."""
    workers = [each for pid in pids for each in family(pid) if title(each).startswith("ray::")]
    return [worker for worker in workers if not title(worker).startswith(_RAYS_OWN)]


def kill_family(pid: int) -> None:
    """SIGKILL to a process and all below it, until nothing is left."""
    members = {each.pid: each for each in family(pid)}
    deadline = time.monotonic() + 20
    while members and time.monotonic() < deadline:
        for each in list(members.values()):
            members |= {below.pid: below for below in family(each.pid)}
        for each in members.values():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
        members = {each.pid: each for each in members.values() if alive(each)}
        time.sleep(0.02)


def until(condition: Callable[[], object], seconds: float, *, pause: float = 0.05) -> bool:
    """Wait until ``condition`` holds; returns whether it did within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
