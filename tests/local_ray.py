"""A Ray of the tests' own, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

import ray

from tune_mtl.ray_tune import compat


@contextmanager
def local_ray(cpus: int = 1) -> Iterator[None]:
    """Run Ray for the length of a ``with``; trials run on so many CPUs of this machine.

    By default one after the other: every worker more takes seconds of a core to start, in each part of each search.
    """
    try:
        _start(cpus)
    except RuntimeError:  # the port it found free was taken by the cluster of a test in another process meanwhile
        ray.shutdown()
        _start(cpus)
    try:
        yield
    finally:
        ray.shutdown()


def _start(cpus: int) -> None:
    compat.reread_environment()  # Ray demands a token as the environment says, and shows one as it read it last
    ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, **compat.LOOPBACK_ARGUMENT)
