"""The one folder that everything is kept under unless a path is given."""

import os
from pathlib import Path


def home() -> Path:
    """Return ``TUNE_MTL_HOME``, else ``./runs``; absolute, since Ray's workers run elsewhere."""
    return Path(os.environ.get("TUNE_MTL_HOME", "runs")).absolute()
