"""What is used of Ray's trainables beyond their documentation; `tests/ray_tune/test_compat.py` keeps watch."""

from ray.tune import Trainable
from ray.tune.result import SHOULD_CHECKPOINT as SHOULD_CHECKPOINT


def forget_iterations(trainable: Trainable) -> None:
    """Have a trainable count its iterations and its time from the beginning."""
    trainable._iteration, trainable._time_total = 0, 0.0
