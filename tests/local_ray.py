"""A Ray of the tests' own, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

import ray

from tune_mtl.ray_tune import compat


@contextmanager
def local_ray() -> Iterator[None]:
    """Run Ray for the length of a ``with``; trials run on two CPUs of this machine."""
    try:
        _start()
    except RuntimeError:  # the port it found free was taken by the cluster of a test in another process meanwhile
        ray.shutdown()
        _start()
    try:
        yield
    finally:
        ray.shutdown()


def _start() -> None:
    compat.reread_environment()  # Ray demands a token as the environment says, and shows one as it read it last
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, **compat.LOOPBACK_ARGUMENT)
