"""Ray for the duration of a search, and where its chatter goes."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import utils as ray_utils
from ray.exceptions import RayError

from tune_mtl.core.errors import UserError
from tune_mtl.core.home import home
from tune_mtl.core.prepared import data_folder
from tune_mtl.core.secrets import DiscreetFormatter
from tune_mtl.core.stopping import heed_sigterm, heeding_sigterm
from tune_mtl.searching.admission import check_admission, locate, token_mode
from tune_mtl.searching.settings import Settings


class Cluster:
    """Ray for the duration of a search: the one that runs already, one at an address, or a local one of our own."""

    def __init__(self, settings: Settings, *, own_module: bool) -> None:
        self._settings, self._own_module = settings, own_module
        self._ours = ExitStack()

    def __enter__(self) -> None:
        self._ours.enter_context(heeding_sigterm())
        os.environ.setdefault("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "inf"  # see snapshot.py
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        if ray.is_initialized():
            heed_sigterm()
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        address = self._settings.address
        try:
            if address is None:
                self._ours.enter_context(token_mode(demanded=False))
                with _loopback_only(), _no_handler_of_rays():
                    ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
            else:
                found = locate(address)
                self._ours.enter_context(token_mode(demanded=check_admission(found)))
                with _no_handler_of_rays():
                    ray.init(found, runtime_env=_shipped(Path.cwd()) if self._own_module else None, **quiet)
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            self._ours.close()
            where = address or "the local machine"
            raise UserError(f"Ray at {where} cannot be used: {' '.join(str(error).split())}") from None
        except BaseException:
            self._ours.close()
            raise
        self._ours.callback(ray.shutdown)
        heed_sigterm()  # Ray's core has taken the signal: it would print a trace and abort

    def __exit__(self, *_: object) -> None:
        self._ours.close()


def started_here() -> bool:
    """Return whether this process has started the Ray that it uses: nobody adds nodes to such a one."""
    node = ray._private.worker.global_worker.node
    return node is not None and bool(node.is_head())


@contextmanager
def _no_handler_of_rays() -> Iterator[None]:
    """Keep our own way to treat SIGTERM while Ray starts: Ray's exits at once."""
    before = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda _: None
    try:
        yield
    finally:
        ray_utils.set_sigterm_handler = before


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Have Ray listen where it is told to: on Linux it replaces loopback by the machine's own address."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _shipped(folder: Path) -> dict[str, Any]:
    """The user's module goes to the workers with the folder it is found from, less what no worker imports."""
    own = [path.relative_to(folder) for path in (home(), data_folder(None)) if path.is_relative_to(folder)]
    left_out = [f"/{path}" for path in own if path != Path()]
    return {"working_dir": str(folder), "excludes": [*left_out, ".venv", ".git", "__pycache__"]}


class logged_to:  # noqa: N801 - reads like a function
    """Sends what Ray, Optuna and MLflow have to say to a file, off the screen."""

    _LOGGERS = ("ray", "optuna", "mlflow", "tune_mtl")

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._handler = logging.FileHandler(self._path)
        self._handler.setFormatter(DiscreetFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._before = {}
        for name in self._LOGGERS:
            logger = logging.getLogger(name)
            self._before[name] = (logger.handlers[:], logger.propagate)
            logger.handlers[:] = [self._handler]
            logger.propagate = False

    def __exit__(self, *_: object) -> None:
        for name, (handlers, propagate) in self._before.items():
            logger = logging.getLogger(name)
            logger.handlers[:] = handlers
            logger.propagate = propagate
        self._handler.close()
