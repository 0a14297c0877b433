"""The one folder that everything is kept under unless a path is given."""

import os
from pathlib import Path


def home() -> Path:
    """Return the home as an absolute path, since Ray's workers run elsewhere."""
    return home_as_given().absolute()


def home_as_given() -> Path:
    """Return ``TUNE_MTL_HOME``, else ``runs``: relative where the user has it so, to be shown to people."""
    return Path(os.environ.get("TUNE_MTL_HOME", "runs"))
