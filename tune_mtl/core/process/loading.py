"""Loading torch, Ray and MLflow without a search for garbage among what they bring."""

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Load modules within: Python does not look for garbage meanwhile, and not among what is there by then.

    None of what modules hold is garbage, and looking through all of it again and again takes a fifth of the processor
    time that a trial's process needs to start. If anything was loaded, what exists then is left out of later searches
    too, until the process ends: parts of torch would report leaks.
    """
    usual, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
            atexit.unregister(gc.unfreeze)
            atexit.register(gc.unfreeze)
        if usual:
            gc.enable()
