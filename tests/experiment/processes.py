"""Searches in processes of their own, to be killed."""

import os
from pathlib import Path

from tune_mtl.tracking.journal import read_journal

SLOW_PROBLEM = """
import time
from tests.toys import toy_problem

def slowly(batch, _):
    time.sleep(0.02)
    return batch

problem = toy_problem(3, to_device=slowly)
"""


def fresh_environment(folder: Path) -> dict[str, str]:
    environment = {**os.environ, "TUNE_MTL_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("RAY_ADDRESS", None)
    return environment


def reported(folder: Path, kind: str = "trial") -> int:
    """How many results the search in ``folder`` has recorded so far."""
    return sum(record["call"] == "log" for record in read_journal(folder / "tracking" / kind))
