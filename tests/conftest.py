"""One thread per test process: they run side by side, and more threads than cores wait for each other.

Trials set their own number of threads. The variables must be there before torch is imported, and child processes
inherit them.
"""

import gc
import os
import signal
import sys

import hypothesis
import pytest

os.environ.setdefault("TUNE_MTL_EXPORT", "0")  # a search's winner is exported where a test is about that

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


hypothesis.settings.register_profile("here", deadline=None)  # who shares a machine waits now and then
hypothesis.settings.load_profile("here")

LONGEST = (
    "faults/test_faults.py",
    "experiment/test_replicates.py",
    "experiment/test_search.py",
    "experiment/test_confirm.py",
    "experiment/test_factorial.py",
    "faults/test_own_parts.py",
    "test_readme.py",
    "reporting/test_verdict_laws.py",
    "experiment/test_growing.py",
    "tracking/test_team_server.py",
    "problems/test_data_sets.py",
    "training/test_resume.py",
    "experiment/test_ui.py",
    "reporting/test_page.py",
    "experiment/test_references.py",
    "test_tour.py",
    "strategies/test_laws.py",
    "strategies/test_networks.py",
)
"""The files that take longest (half a minute and more), the longest first. The list is only about time."""


def pytest_collection_modifyitems(config, items):
    """Where several processes share the files, the longest go first: else one is left with a long one at the end."""
    if hasattr(config, "workerinput"):
        place = {config.rootpath / "tests" / name: index for index, name in enumerate(LONGEST)}
        assert all(path.is_file() for path in place), "a file that takes long has another name now: see LONGEST"
        items.sort(key=lambda item: place.get(item.path, len(LONGEST)))


def pytest_collection_finish():
    """None of the tests is garbage: Python need not look through all of them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """The file of a tracking store without a search, to be copied: making its tables takes seconds."""
    from tune_mtl.tracking.store import client

    folder = tmp_path_factory.mktemp("empty")
    client(f"sqlite:///{folder}/mlflow.db").search_experiments()
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def ray_home(tmp_path_factory):
    """The home of all searches of a test file, with a Ray of its own; trials run one after the other."""
    from tests.local_ray import local_ray

    folder = tmp_path_factory.mktemp("home")
    with local_ray(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNE_MTL_HOME", str(folder))
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


BROUGHT = {
    "tune_mtl.strategies.registry": ("_guests", "_references"),
    "tune_mtl.strategies.optimizers": ("_guests",),
    "tune_mtl.strategies.schedules": ("_guests",),
}
"""Where a process keeps the strategies, optimizers and schedules that were brought to it."""


@pytest.fixture(autouse=True)
def forgets_what_was_brought():
    """What one test brings is not known to the next."""
    kept = [
        getattr(sys.modules[module], name)
        for module, names in BROUGHT.items()
        if module in sys.modules
        for name in names
    ]
    before = [dict(known) for known in kept]
    yield
    for known, then in zip(kept, before, strict=True):
        known.clear()
        known.update(then)


@pytest.fixture(autouse=True)
def usual_ctrl_c():
    """Ctrl-C and SIGTERM as in a fresh process, for every test: Ray Tune keeps the one once it has run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals = sys.modules.get("tune_mtl.core.process.signals")
    if signals is not None:
        signals._State.terminated = False
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)
