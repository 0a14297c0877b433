"""Trainers of small trials, and their records without the clock."""

from tests.toys import toy_problem
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Trainer

WALL_CLOCK = {"seconds"}


def timeless(records):
    return [{name: value for name, value in record.items() if name not in WALL_CLOCK} for record in records]


def make_trainer(problem=None, **config) -> Trainer:
    problem = problem or toy_problem()
    return Trainer(problem, resolve(problem, {"strategy": "io", "lr": 0.01, **config}))


class Stop(Exception):
    """Raised between mini-batches, to interrupt a trial there."""
