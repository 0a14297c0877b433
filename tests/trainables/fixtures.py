"""Problems that workers import by name."""

from tests.toys import toy_problem
from tune_mtl import Batch

problem = toy_problem(4)
convolutional = toy_problem(4, conv=True)


def _fails(*_: object) -> Batch:
    raise RuntimeError("the user's own mistake")


failing = toy_problem(2, to_device=_fails)
