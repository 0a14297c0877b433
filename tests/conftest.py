"""One thread per test process: they run side by side, and more threads than cores wait for each other.

Trials set their own number of threads. The variables must be there before torch is imported, and child processes
inherit them.
"""

import os
import signal

import pytest

os.environ.setdefault("TUNE_MTL_EXPORT", "0")  # a search's winner is exported where a test is about that

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """The file of a tracking store without a search, to be copied: making its tables takes seconds."""
    from tune_mtl.tracking.store import client

    folder = tmp_path_factory.mktemp("empty")
    client(f"sqlite:///{folder}/mlflow.db").search_experiments()
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def ray_home(tmp_path_factory):
    """The home of all searches of a test file, with a Ray of its own; trials run on two CPUs of this machine."""
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNE_MTL_HOME", str(folder))
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder
    ray.shutdown()


@pytest.fixture(autouse=True)
def usual_ctrl_c():
    """Ctrl-C as in a fresh process, for every test: Ray Tune keeps the signal once it has run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)
