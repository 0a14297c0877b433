"""Ray for the duration of a search, and where its chatter goes."""

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from tune_mtl.core.errors import UserError
from tune_mtl.core.process.home import home
from tune_mtl.core.process.secrets import DiscreetFormatter
from tune_mtl.core.process.signals import heed_sigterm, heeding_sigterm
from tune_mtl.prepare.prepared_set import data_folder
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.admission import check_admission, locate, token_mode


class Cluster:
    """Ray for the duration of a search: the one that runs already, one at an address, or a local one of our own."""

    def __init__(self, address: str | None, *, own_module: bool) -> None:
        """``own_module``: the user's module is shipped to the workers of the cluster at ``address``."""
        self._address, self._own_module = address, own_module
        self._ours = ExitStack()

    def __enter__(self) -> None:
        self._ours.enter_context(heeding_sigterm())
        os.environ.setdefault("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
        os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "inf"  # see snapshots.py
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        if ray.is_initialized():
            heed_sigterm()
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        address = self._address
        try:
            if address is None:
                self._ours.enter_context(token_mode(demanded=False))
                with compat.listening_where_told(), compat.without_sigterm_handler():
                    ray.init("local", include_dashboard=False, **compat.LOOPBACK_ARGUMENT, **quiet)
            else:
                found = locate(address)
                self._ours.enter_context(token_mode(demanded=check_admission(found)))
                with compat.without_sigterm_handler():
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


def _shipped(folder: Path) -> dict[str, Any]:
    """Return what is shipped to the workers: the folder of the user's module, less what no worker imports."""
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
