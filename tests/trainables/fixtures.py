"""Problems that workers import by name."""

from tests.toys import toy_problem
from tune_mtl import Batch

problem = toy_problem(4)
convolutional = toy_problem(4, conv=True)


class _FailsLater:
    """A mistake that shows in the middle of an epoch, when whoever looks at a problem beforehand has seen enough."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, batch: Batch, _: object) -> Batch:
        self.calls += 1
        if self.calls > 6:
            raise RuntimeError("the user's own mistake")
        return batch


failing = toy_problem(2, to_device=_FailsLater())
