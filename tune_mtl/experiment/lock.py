"""One driver per search: two that write the same records would not know of each other."""

import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tune_mtl.core.errors import UserError

logger = logging.getLogger(__name__)

_LOCK = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the search in ``folder``; a killed driver lets go of it by itself.

    Raises:
        UserError: if another driver holds it, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}. Give --storage.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            raise UserError(f"search '{folder.name}' is running already ({holder}): wait for it, or stop it.") from None
        except OSError as error:  # some network file systems have no locks
            logger.warning("%s cannot be locked (%s): see that no other driver runs this search", folder, error)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)
