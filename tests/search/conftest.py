"""A Ray of its own for the searches of a test file, and a home for what they record."""

import pytest
import ray


@pytest.fixture(scope="module")
def ray_home(tmp_path_factory):
    """The home of all searches of a file; trials run on two CPUs of this machine."""
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNE_MTL_HOME", str(folder))
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder
    ray.shutdown()
