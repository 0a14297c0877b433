"""A search's state on disk: one file, whole or not there, from which a resume goes on.

Ray saves an experiment as several files, copied one by one by a background thread: a kill in between leaves them torn
or of different moments, and a restore that fails starts the experiment anew. So the same files are kept here together
in one archive, which is put in place at once; a resume takes them from there.
"""

import logging
import shutil
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tune_mtl.core.errors import UserError
from tune_mtl.core.files import replace_atomically
from tune_mtl.ray_tune import compat
from tune_mtl.tracking.names import SNAPSHOT

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

logger = logging.getLogger(__name__)

_SECONDS = 2.0
_COST_SHARE = 19
"""Snapshots may take a twentieth of the time."""
_COMPRESSION = 1
"""The quickest: a sixth of the size, sooner written than the whole."""
_PATIENCE = 300.0
"""Seconds without a snapshot, where one is due but cannot be written, after which a search gives up."""


class Snapshots:
    """Takes snapshots of a running experiment in ``folder``, and removes the checkpoints that none of them needs.

    A trial's older checkpoints go once a snapshot knows the newer one; all of an ended trial's, once a snapshot knows
    that it has ended and ``delivered`` names its folder: its best weights are safe in MLflow.

    Raises:
        UserError: if none could be written for minutes: the disk is full.
    """

    def __init__(self, folder: Path, delivered: Callable[[], list[Path]]) -> None:
        self._folder, self._delivered = folder, delivered
        self._taken_at, self._cost = -float("inf"), 0.0
        self._failing_since: float | None = None
        self._obsolete: list[Path] = []
        self._removals = ThreadPoolExecutor(1, "tune-mtl-removals")  # a folder takes as long as a result
        self._controller: TuneController | None = None

    def take_if_due(self, controller: "TuneController", *, soon: bool) -> None:
        """Every two seconds, ``soon`` at once, but for no more than a twentieth of the time."""
        self._controller = controller
        since = time.monotonic() - self._taken_at
        if since >= self._cost * _COST_SHARE and (soon or since >= _SECONDS):
            self.take(controller)

    def take_last(self) -> None:
        """Take the last snapshot, when all trials have ended."""
        if self._controller is not None:
            self.take(self._controller)
        self._removals.shutdown()

    def take(self, controller: "TuneController") -> None:
        """Take a snapshot now; where the disk is full, leave it for later."""
        started = time.monotonic()
        ended = self._delivered()
        self._obsolete += compat.drop_what_no_resume_needs(controller)
        try:
            self._write(controller)
        except (OSError, UserError) as error:
            self._obsolete += ended
            self._try_again_later(error)
            return
        finally:
            self._taken_at = time.monotonic()
            self._cost = self._taken_at - started
        self._failing_since = None
        self._removals.submit(_remove, [*self._obsolete, *ended])
        self._obsolete.clear()

    def _write(self, controller: "TuneController") -> None:
        with_tuner = [*compat.write_state(controller), self._folder / compat.TUNER_FILE]

        def write(temporary: Path) -> None:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as archive:
                for path in with_tuner:
                    archive.write(path, path.name)

        replace_atomically(self._folder / SNAPSHOT, write)

    def _try_again_later(self, error: Exception) -> None:
        """Leave the state unsaved for now; give up when that has lasted for minutes."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        logger.warning("the search's state cannot be saved: %s", error)
        if now - self._failing_since > _PATIENCE:
            raise UserError(
                f"the search's state could not be saved in {self._folder} for {_PATIENCE / 60:.0f} minutes ({error})."
                f" Make room, then tune-mtl resume {self._folder.name}: nothing that was recorded is lost."
            )


def put_back(folder: Path) -> None:
    """Lay out in ``folder`` what Ray restores an experiment from, as the last snapshot has it."""
    compat.remove_state(folder)
    with zipfile.ZipFile(folder / SNAPSHOT) as archive:
        for name in archive.namelist():
            (folder / Path(name).name).write_bytes(archive.read(name))


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
